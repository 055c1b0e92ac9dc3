"""The in-memory server behind HTTP, with the worker protocol and faults on its connections."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from hapax._json import dumps, loads
from hapax._testing.memory_server import MemoryServer


class ProtocolServer:
    """Serves sessions of the worker protocol on a port of this machine."""

    def __init__(self, *, hold: float = 2.0, poll: float = 0.5, log_page: int = 1_000) -> None:
        self.memory = MemoryServer()
        self.hold, self.poll_for, self.log_page = hold, poll, log_page
        self.session: str | None = None
        self.sessions = 0
        self.instances: dict[str, str] = {}
        self.replaced: set[str] = set()
        self.calls: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.opened: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.cut_answers: dict[str, int] = {}
        """How many answers to a verb are cut off after the work is done."""
        self.refuse: Callable[[str], tuple[int, dict[str, Any]] | None] = lambda verb: None
        self.is_answering = asyncio.Event()
        self.is_answering.set()
        self._answers: dict[tuple[str, str, int], dict[str, Any]] = {}
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._pending: list[dict[str, Any]] = []
        self._logs: dict[str, list[dict[str, Any]]] = {}
        self._began = time.monotonic()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> ProtocolServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 1024)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._clock = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._clock.cancel()
        self._server.close()
        for writer in list(self._writers):
            writer.close()

    def tell(self) -> None:
        """Something has changed: polls look again."""
        self._news.set()

    def call(self, message: dict[str, Any]) -> None:
        """Sends a task or an action to the worker."""
        self.calls.append(message)
        self.tell()

    def lose_session(self) -> None:
        """Forgets the session, as a server that was restarted."""
        self.session = None
        self.memory.lose_worker()
        self.tell()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Waits until something is so."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("it did not come to pass")
            await asyncio.sleep(0.002)

    async def _tick(self) -> None:
        start = self.memory.now
        while True:
            await asyncio.sleep(0.005)
            due = self.memory.next_due()
            self.memory.now = max(self.memory.now, start + round((time.monotonic() - self._began) * 1_000))
            if due is not None and due <= self.memory.now:
                self.memory.advance_to(self.memory.now)
                self.tell()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self.is_answering.wait()
                status, answer, verb = await self._route(method, path, loads(body) if body else {}, headers)
                await self.is_answering.wait()
                if self.cut_answers.get(verb, 0) > 0:
                    self.cut_answers[verb] -= 1
                    break
                data = dumps(answer).encode()
                reason = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
                writer.write(reason.encode() + data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    async def _route(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any, str]:
        parts = path.split("?")[0].strip("/").split("/")[2:]
        verb = "open" if parts == ["worker-sessions"] else parts[-1]
        refused = self.refuse(verb)
        if refused is not None:
            return (*refused, verb)
        if parts[0] == "worker-sessions":
            status, answer = await self._session_call(method, parts, body, path)
            return status, answer, verb
        if parts == ["workflow-runs"]:
            run = self.memory.start(body["workflow"], body.get("input"))
            self.tell()
            return 201, {"run": {"id": run.id}, "created": True}, verb
        if parts[0] == "workflow-runs" and verb == "result":
            run = self.memory.runs[parts[1]]
            wait = float(headers.get("prefer", "wait=0").split("=")[1])
            with contextlib.suppress(AssertionError):
                await self.until(lambda: run.is_closed, wait)
            return 200, {"status": run.status, "output": run.output, "failure": run.failure}, verb
        if parts[0] == "workflow-runs" and verb == "signals":
            stored = self.memory.signal(parts[1], body["name"], body.get("value"), signal_id=body["signalId"])
            self.tell()
            return 200, {"stored": stored}, verb
        return 404, {"code": "not_found", "detail": path}, verb

    async def _session_call(self, method: str, parts: list[str], body: Any, path: str) -> tuple[int, Any]:
        if len(parts) == 1:
            return 201, self._open(body)
        session = parts[1]
        if session in self.replaced:
            return 409, {"code": "session_replaced", "detail": "another has taken over"}
        if session != self.session:
            return 404, {"code": "session_unknown", "detail": "open a new one"}
        if method == "DELETE":
            self.deleted.append(session)
            self.lose_session()
            return 200, {}
        if parts[2] == "runs":
            after = int(path.split("after=")[1].split("&")[0])
            log = self._logs[parts[3]]
            page = log[after : after + self.log_page]
            return 200, {"log": page, "logMore": after + len(page) < len(log)}
        verb = parts[2]
        key = (session, verb, body["sequence"])
        if key not in self._answers:
            self.requests.append((verb, body))
            self._answers[key] = await (self._poll(session) if verb == "poll" else self._commit(body))
        return 200, self._answers[key]

    def _open(self, body: dict[str, Any]) -> dict[str, Any]:
        self.opened.append(body)
        self.sessions += 1
        instance = body.get("instance")
        if self.session is not None:
            self.memory.lose_worker()
            if instance is not None and instance in self.instances:
                self.replaced.add(self.instances[instance])
        self.session = f"wks_{self.sessions}"
        if instance is not None:
            self.instances[instance] = self.session
        for workflow in body["workflows"]:
            self.memory.register(workflow["name"], workflow["version"])
        self._pending.clear()
        self.tell()
        return {
            "sessionId": self.session,
            "leaseFor": f"{round(self.hold * 1_000)}ms",
            "pollFor": f"{round(self.poll_for * 1_000)}ms",
            "limits": {"maxItems": 10_000, "maxBodyBytes": 8_388_608, "maxRunsPerCommit": 1_024},
        }

    async def _poll(self, session: str) -> dict[str, Any]:
        end = time.monotonic() + self.poll_for
        messages = self._messages()
        while not messages and time.monotonic() < end and session == self.session:
            self._news.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), end - time.monotonic())
            messages = self._messages()
        return self._answer(messages)

    async def _commit(self, body: dict[str, Any]) -> dict[str, Any]:
        for run in body["runs"]:
            self.memory.commit(run["run"], run["activation"], run["items"])
        self.results.extend(body.get("results", []))
        return self._answer(self._messages())

    def _messages(self) -> list[dict[str, Any]]:
        if self.session is None:
            return []
        messages = [*self.calls, *self.memory.poll()]
        self.calls = []
        for message in messages:
            if message["type"] == "activate" and len(message["log"]) > self.log_page:
                self._logs[message["run"]] = message["log"]
                message["log"], message["logMore"] = message["log"][: self.log_page], True
        return messages

    def _answer(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {"holdFor": f"{round(self.hold * 1_000)}ms", "messages": messages}
