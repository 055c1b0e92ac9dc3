"""An HTTP/1.1 client over asyncio streams: keep-alive, TLS, and nothing that this SDK does not need."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import zlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._limits import MAX_HEADER_BYTES, MAX_IDLE_CONNECTIONS, MAX_RESPONSE_BYTES
from ._problems import Unreachable

CONNECT_TIMEOUT = 10.0


@dataclass
class Response:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_used: bool = False

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.writer.close()


class _Stale(Exception):
    """The server had closed an idle connection before it read the request."""


class HttpClient:
    """Sends requests to one server. It follows no redirect, because the key would go along."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not the address of a server; use http://HOST:PORT or https://HOST")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        for name, value in headers.items():
            if any(sign in name + value for sign in "\r\n\0") or not value.isascii():
                raise ValueError(f"the header {name} holds signs that a header cannot hold; is the API key right?")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._idle: list[_Connection] = []

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Response:
        """Sends one request and reads its answer. Raises `Unreachable` if there is none."""
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\nhost: {self._authority}\r\n{self._headers}"
        for name, value in (headers or {}).items():
            if any(sign in name + value for sign in "\r\n\0") or not value.isascii():
                raise ValueError(f"{value!r} cannot be sent as {name}: use printable ASCII characters")
            head += f"{name}: {value}\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        elif method != "GET":
            head += "content-length: 0\r\n"
        request = f"{head}accept-encoding: gzip\r\n\r\n".encode("ascii") + (body or b"")
        try:
            return await asyncio.wait_for(self._exchange(method, request), timeout)
        except (TimeoutError, asyncio.TimeoutError):
            raise Unreachable(f"{self._authority} did not answer within {timeout:g} s") from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise Unreachable(f"{self._authority}: {error or type(error).__name__}") from error

    async def _exchange(self, method: str, request: bytes) -> Response:
        while True:
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                response, may_stay = await self._send(connection, method, request)
            except _Stale:
                connection.close()
                continue
            except BaseException:
                connection.close()
                raise
            connection.is_used = True
            if may_stay and len(self._idle) < MAX_IDLE_CONNECTIONS:
                self._idle.append(connection)
            else:
                connection.close()
            return response

    async def _connect(self) -> _Connection:
        opening = asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=MAX_HEADER_BYTES)
        reader, writer = await asyncio.wait_for(opening, CONNECT_TIMEOUT)
        return _Connection(reader, writer)

    async def _send(self, connection: _Connection, method: str, request: bytes) -> tuple[Response, bool]:
        reader = connection.reader
        try:
            connection.writer.write(request)
            await connection.writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            # An idle connection that ends without one byte was closed before the request came. Whatever this
            # client sends twice carries a key or a token, so nothing is done twice.
            nothing_came = not isinstance(error, asyncio.IncompleteReadError) or not error.partial
            if connection.is_used and nothing_came:
                raise _Stale from None
            raise
        status, headers = _parse_head(head)
        if status < 200:
            raise ValueError(f"unexpected status {status}")
        body = b"" if method == "HEAD" or status in (204, 304) else await _read_body(reader, headers)
        may_stay = headers.get("connection", "").lower() != "close"
        if headers.get("content-encoding") == "gzip":
            body = _unzip(body)
        if 300 <= status < 400:
            raise ValueError(f"the server redirects to {headers.get('location')}; use that address yourself")
        return Response(status, headers, body), may_stay

    def close(self) -> None:
        """Closes idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("what answers is not an HTTP server")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    if "content-length" in headers:
        length = int(headers["content-length"])
        if length > MAX_RESPONSE_BYTES:
            raise ValueError(f"the answer has {length} bytes, and {MAX_RESPONSE_BYTES} is the limit")
        return await reader.readexactly(length)
    return await reader.read(MAX_RESPONSE_BYTES)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    total = 0
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        total += size
        if total > MAX_RESPONSE_BYTES:
            raise ValueError(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
        if size == 0:
            while (await reader.readline()).strip():
                pass
            return b"".join(parts)
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)


def _unzip(body: bytes) -> bytes:
    unzip = zlib.decompressobj(31)
    plain = unzip.decompress(body, MAX_RESPONSE_BYTES)
    if unzip.unconsumed_tail:
        raise ValueError(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
    return plain
