"""The HTTP client: keep-alive, answers that are cut, retries, problems."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hapax import Hapax, KeyConflict, NotFound, Problem, RunFailed, StillOpen, Unavailable, Unreachable
from hapax._json import loads

Handler = Callable[[str, dict[str, str], bytes], "bytes | None"]


def answer(status: int, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


class Server:
    """Answers each request with what `handler` returns. `None` hangs up."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections = 0
        self.seen: list[tuple[str, dict[str, str], bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.seen.append((head[0], headers, body))
                said = self.handler(head[0], headers, body)
                if said is None:
                    break
                writer.write(said)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        writer.close()


def run(handler: Handler, test: Callable[[Server, Hapax], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        server = Server(handler)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with Hapax(f"http://127.0.0.1:{port}", "hpx_key", **options) as client:
            await asyncio.wait_for(test(server, client), 20)
        listening.close()

    asyncio.run(main())


def test_connections_are_used_again() -> None:
    async def test(server: Server, client: Hapax) -> None:
        for _ in range(3):
            assert await client.get("/x", {"a": "b c", "none": None, "yes": True}) == {"ok": 1}
        assert server.connections == 1
        assert server.seen[0][0] == "GET /x?a=b+c&yes=true HTTP/1.1"
        assert server.seen[0][1]["authorization"] == "Bearer hpx_key"

    run(lambda *_: answer(200, b'{"ok":1}'), test)


def test_a_change_is_sent_again_under_the_same_key() -> None:
    said: list[bytes | None] = [
        None,
        answer(503, b'{"code":"store_unavailable","retryable":true}'),
        answer(502, b"<html>bad gateway"),
        answer(409, b'{"code":"request_in_progress","retryable":true,"retryAfter":"10ms"}'),
        answer(201, b'{"run":{"id":"run_1"},"created":true}'),
    ]

    async def test(server: Server, client: Hapax) -> None:
        handle = await client.start("order", {"n": 12345678901234567890}, key="order-1")
        assert handle.id == "run_1" and handle.created
        keys = {headers["idempotency-key"] for _, headers, _ in server.seen}
        assert len(server.seen) == 5 and len(keys) == 1
        body = loads(server.seen[0][2])
        assert body == {"workflow": "order", "input": {"n": 12345678901234567890}, "idempotencyKey": "order-1"}

    run(lambda *_: said.pop(0), test)


def test_an_idle_connection_that_was_closed_is_no_failure() -> None:
    said = [answer(200, b"1"), None, answer(200, b"2")]

    async def test(server: Server, client: Hapax) -> None:
        assert [await client.get("/x"), await client.get("/x")] == [1, 2]
        assert server.connections == 2

    run(lambda *_: said.pop(0), test, retry_for=0)


def test_problems_are_typed() -> None:
    said = [
        answer(404, b'{"code":"not_found","detail":"There is no such run."}'),
        answer(422, b'{"code":"idempotency_key_conflict","detail":"d","differingPaths":["/n"]}'),
        answer(409, b'{"code":"operation_pending","retryable":true}'),
        answer(503, b'{"code":"shutting_down","retryable":true}'),
        answer(500, b"oops"),
    ]

    async def test(server: Server, client: Hapax) -> None:
        with pytest.raises(NotFound, match="not_found: There is no such run"):
            await client.get_run("run_0")
        with pytest.raises(KeyConflict) as conflict:
            await client.start("order", {"n": 2}, key="order-1")
        assert conflict.value.differing_paths == ["/n"]
        with pytest.raises(Problem, match="operation_pending"):
            await client.start("order", subject="o")
        with pytest.raises(Unavailable, match="shutting_down"):
            await client.start("order")
        with pytest.raises(Unavailable, match="unknown: oops"):
            await client.start("order")

    run(lambda *_: said.pop(0), test, retry_for=0)


def test_results_are_waited_for() -> None:
    said = [
        answer(202, b'{"status":"RUNNING"}'),
        answer(200, b'{"status":"COMPLETED","output":{"total":1.10}}'),
        answer(200, b'{"status":"FAILED","failure":{"message":"no","code":"declined","class":"permanent"}}'),
        answer(202, b'{"status":"WAITING"}'),
    ]

    async def test(server: Server, client: Hapax) -> None:
        handle = client.run("run_1")
        assert (await handle.result())["total"].text == "1.10"
        assert server.seen[0][1]["prefer"] == "wait=60"
        with pytest.raises(RunFailed, match="run_1 is FAILED: no") as failed:
            await handle.result()
        assert failed.value.code == "declined"
        with pytest.raises(StillOpen, match="WAITING"):
            await handle.result(timeout=0)

    run(lambda *_: said.pop(0), test, decimals=True)


def test_answers_may_be_chunked_and_zipped() -> None:
    zipped = gzip.compress(b'{"a":1}')
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n"
    said = [answer(200, zipped, "content-encoding: gzip"), chunked]

    async def test(server: Server, client: Hapax) -> None:
        assert [await client.get("/x"), await client.get("/x")] == [{"a": 1}, [1, 2]]
        assert server.connections == 1

    run(lambda *_: said.pop(0), test)


def test_a_redirect_is_refused_so_that_the_key_stays() -> None:
    async def test(server: Server, client: Hapax) -> None:
        with pytest.raises(Unreachable, match="redirects to http://evil"):
            await client.get("/x")

    run(lambda *_: answer(307, b"", "location: http://evil"), test, retry_for=0)


def test_nobody_there() -> None:
    async def main() -> None:
        async with Hapax("http://127.0.0.1:1", "k", retry_for=0) as client:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
                await client.get("/x")

    asyncio.run(main())
    for bad in ("127.0.0.1:7171", "ftp://x", "http://"):
        with pytest.raises(ValueError, match="not the address"):
            Hapax(bad)
    with pytest.raises(ValueError, match="API key"):
        Hapax("http://x", "a\r\nb")


def test_the_environment_names_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAPAX_SERVER", "http://one:1")
    assert Hapax().url == "http://one:1"
    monkeypatch.setenv("HAPAX_URL", "http://two:2")
    assert Hapax().url == "http://two:2"
    assert Hapax("http://three:3").url == "http://three:3"
