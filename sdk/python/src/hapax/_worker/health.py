"""A small HTTP endpoint for health checks of a worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class HealthServer:
    """Answers `/healthz` (the worker hears from the server) and `/readyz` (it takes work)."""

    def __init__(self, host: str, port: int, is_healthy: Callable[[], bool], is_ready: Callable[[], bool]) -> None:
        self._host = host
        self._port = port
        self._is_healthy = is_healthy
        self._is_ready = is_ready
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    async def start(self) -> None:
        """Begins to listen."""
        self._server = await asyncio.start_server(self._answer, self._host, self._port, limit=8_192)

    async def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(Exception):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
            path = head.split(b" ", 2)[1].split(b"?")[0]
            checks = {b"/healthz": self._is_healthy, b"/readyz": self._is_ready}
            check = checks.get(path)
            status, text = ("404 Not Found", "unknown") if check is None else _told(check())
            body = f'{{"status":"{text}"}}'
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
                f"connection: close\r\n\r\n{body}".encode()
            )
            await writer.drain()
        writer.close()


def _told(is_well: bool) -> tuple[str, str]:
    return ("200 OK", "ok") if is_well else ("503 Service Unavailable", "unavailable")
