"""A handler for functions that cannot poll, such as serverless ones: the server sends it work.

```python
from hapax.push import PushHandler

handler = PushHandler(os.environ["HAPAX_PUSH_SECRET"], workflows=[order])
app = handler  # ASGI; for WSGI use handler.wsgi
```
"""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from ._attempt import Attempt
from ._core.machine import StepCode
from ._definitions import Action, Task, Workflow
from ._durations import to_seconds
from ._json import dumps, loads
from ._push.conversation import Conversation, Json, activate_of
from ._push.verify import NotVerified, Verifier
from ._worker.attempts import CodeRunner, RunningCode
from ._worker.clock import held_clock

__all__ = ["PushHandler"]

logger = logging.getLogger("hapax.push")
MAX_REMEMBERED = 10_000
MAX_BODY_BYTES = 16 * 1024 * 1024
Claim = Callable[[str], "bool | Awaitable[bool]"]


class _Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PushHandler:
    """Answers the requests that the server sends to a push worker. It is an ASGI application.

    `secret` is the secret of the push worker; several while one replaces another. `claim` notes the id of a request,
    and returns true the first time. The default remembers ids in this process. If several processes answer, and steps
    are `claimed`, keep them where all of them look, such as `SET id 1 NX EX 600` of Redis. `tolerance` is how old a
    request may be, in seconds.
    """

    def __init__(
        self,
        secret: str | Sequence[str],
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        tasks: Iterable[Task] = (),
        actions: Iterable[Action] = (),
        claim: Claim | None = None,
        tolerance: float = 300.0,
        threads: int = 64,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._workflows = {(found.name, found.version): found for found in workflows}
        self._tasks = {found.name: found for found in tasks}
        self._actions = {found.name: found for found in actions}
        self._verifier = Verifier([secret] if isinstance(secret, str) else list(secret), tolerance, now)
        self._claim = claim or _remembered()
        self._now = now
        self._runner = CodeRunner(threads)

    async def handle(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Answers one POST request: the status, and a JSON body."""
        try:
            named = {name.lower(): value for name, value in headers.items()}
            message_id = self._verifier.verify(named, body)
            answer = await self._carry_out(message_id, loads(body))
            return 200, dumps(answer).encode()
        except NotVerified as error:
            return _refusal(401, error)
        except _Refused as error:
            return _refusal(error.status, error)
        except Exception as error:
            logger.exception("a pushed request failed")
            return _refusal(500, error)

    async def _carry_out(self, message_id: str, work: Json) -> Json:
        left = min(to_seconds(work["holdFor"]), _seconds_of(work["notAfter"]) - self._now())
        if left <= 0:
            # Nothing has begun, so the server may send it again.
            raise _Refused(410, "the request is late: effects may not begin any more")
        messages: list[Json] = work["messages"]
        first = messages[0]
        is_call = first["type"] in ("task", "action")
        workflow = None if is_call else self._find_workflow(work)
        call = self._find_call(first) if is_call else None
        claimed = self._claim(message_id)
        if not (await claimed if inspect.isawaitable(claimed) else claimed):
            # The first delivery may still run, and only its response has the outcome.
            raise _Refused(409, "this request was delivered before")
        until = held_clock() + left
        if call is not None:
            outcome = await call(self._running(first, until, {"step": first["name"]}))
            return {"results": [{"call": first["call"], **outcome}]}
        assert workflow is not None
        return {"items": await self._converse(work, workflow, until)}

    async def _converse(self, work: Json, workflow: Workflow[Any, Any], until: float) -> list[Json]:
        running: dict[tuple[int, int], RunningCode] = {}
        trace = activate_of(work["turns"], work["messages"]).get("trace")

        async def run(code: StepCode, message: Json) -> Json:
            fields = {"run": message["run"], "step": message.get("id")}
            found = self._running({**message, "trace": trace}, until, fields)
            running[message["op"], message["attempt"]] = found
            return await self._runner.effect(code, found)

        def stop(op: int, number: int) -> None:
            found = running.get((op, number))
            if found is not None:
                found.stop("the server stopped it")

        conversation = Conversation(work["turns"], work["messages"], workflow, lambda: round(self._now() * 1_000))
        return await conversation.carry_on(run, stop)

    def _running(self, message: Json, until: float, fields: Json) -> RunningCode:
        timeout = message.get("timeout")
        attempt = Attempt(
            message["key"],
            message.get("attempt", 1),
            message.get("fence", 0),
            timeout=None if timeout is None else to_seconds(timeout),
            still_held=lambda: held_clock() < until,
        )
        return RunningCode(message, attempt, fields={**fields, "effect_key": message["key"], "attempt": attempt.number})

    def _find_workflow(self, work: Json) -> Workflow[Any, Any]:
        activate = activate_of(work["turns"], work["messages"])
        name, version = activate["workflow"], activate["version"]
        found = self._workflows.get((name, version))
        if found is None:
            raise _Refused(404, f"this function has no workflow {name}@{version}")
        return found

    def _find_call(self, message: Json) -> Callable[[RunningCode], Awaitable[Json]]:
        name = message["name"]
        if message["type"] == "task" and name in self._tasks:
            return lambda running: self._runner.task(self._tasks[name], running)
        if message["type"] == "action" and name in self._actions:
            return lambda running: self._runner.action(self._actions[name], running)
        raise _Refused(404, f"this function has no {message['type']} {name}")

    # Servers.

    async def __call__(self, scope: Json, receive: Callable[[], Awaitable[Json]], send: Any) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        status, answer = _refusal(405, ValueError("send a POST"))
        if scope["type"] == "http" and scope["method"] == "POST":
            body = bytearray()
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    return
                body += event.get("body", b"")
                if not event.get("more_body") or len(body) > MAX_BODY_BYTES:
                    break
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            if len(body) > MAX_BODY_BYTES:
                status, answer = _refusal(413, ValueError("the body is too large"))
            else:
                status, answer = await self.handle(headers, bytes(body))
        fields = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": answer})

    def wsgi(self, environ: Json, start_response: Any) -> Iterable[bytes]:
        """WSGI."""
        status, answer = _refusal(405, ValueError("send a POST"))
        if environ["REQUEST_METHOD"] == "POST":
            length = int(environ.get("CONTENT_LENGTH") or 0)
            if length > MAX_BODY_BYTES:
                status, answer = _refusal(413, ValueError("the body is too large"))
            else:
                body = environ["wsgi.input"].read(length)
                named = {
                    name[5:].replace("_", "-"): str(value) for name, value in environ.items() if name[:5] == "HTTP_"
                }
                status, answer = asyncio.run(self.handle(named, body))
        fields = [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))]
        start_response(f"{status} {'OK' if status == 200 else 'Refused'}", fields)
        return [answer]


async def _lifespan(receive: Callable[[], Awaitable[Json]], send: Any) -> None:
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


def _refusal(status: int, error: Exception) -> tuple[int, bytes]:
    return status, dumps({"error": str(error)}).encode()


def _seconds_of(text: str) -> float:
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _remembered() -> Callable[[str], bool]:
    """Remembers the latest ids of this process."""
    ids: OrderedDict[str, None] = OrderedDict()

    def claim(message_id: str) -> bool:
        if message_id in ids:
            return False
        ids[message_id] = None
        if len(ids) > MAX_REMEMBERED:
            ids.popitem(last=False)
        return True

    return claim
