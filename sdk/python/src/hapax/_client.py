"""The client: starts runs, waits for results, signals, settles, and moves entities."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, overload
from urllib.parse import quote, urlencode

from ._codec import ExactJson, decode
from ._definitions import Workflow
from ._durations import Duration, to_seconds, to_text
from ._failures import DecodeError
from ._http import HttpClient, Response
from ._json import dumps, loads
from ._models import (
    Doubt,
    EntityState,
    Operation,
    Page,
    Promise,
    Run,
    RunDetail,
    Settlement,
    Transition,
    page_of,
)
from ._problems import Problem, RunFailed, StillOpen, Unreachable, problem_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:7171"
LONGEST_WAIT = 60
"""Seconds that one request waits at the server."""

Resolution: TypeAlias = Literal["happened", "did_not_happen", "compensate", "abandon"]


class StartOptions(TypedDict, total=False):
    """Options of a start."""

    key: str | None
    """Names the run: the same start again finds it. Give a key from your domain, such as `order-4711`."""
    subject: str | None
    """What the run is about, such as a customer."""
    delay: Duration | None
    """How long the run waits before it begins."""
    timeout: Duration | None
    """How long the run may take."""
    priority: Literal["low", "normal", "high"] | None
    request_key: str | None
    """Idempotency key of this request, for programs that send it again themselves."""


class RunHandle(Generic[O]):
    """A run: wait for its result, signal it, steer it."""

    def __init__(self, client: Hapax, run_id: str, output_hint: Any = Any, created: bool = False) -> None:
        self.id = run_id
        self.created = created
        """Whether this call made the run. False: it was there under this key."""
        self._client = client
        self._output_hint = output_hint

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def result(self, *, timeout: Duration | None = None, returns: Any = None) -> O:
        """Waits for the end of the run and returns its output.

        Raises `RunFailed` if it failed or was cancelled, and `StillOpen` after `timeout`.
        """
        hint = self._output_hint if returns is None else returns
        return await self._client.wait_for_result(self.id, timeout=timeout, returns=hint)

    async def get(self) -> RunDetail:
        """The run and its steps."""
        return await self._client.get_run(self.id)

    async def signal(self, name: str, value: Any = None, *, signal_id: str | None = None) -> bool:
        """Sends a signal, once per `signal_id`. Returns whether it was new."""
        return await self._client.signal(self.id, name, value, signal_id=signal_id)

    async def cancel(self, reason: str | None = None, *, descendants: bool | None = None) -> Run:
        """Cancels the run. Its effects are undone."""
        return await self._client.steer(self.id, "cancel", {"reason": reason, "descendants": descendants})

    async def pause(self, reason: str | None = None) -> Run:
        """Pauses the run: it begins no new step."""
        return await self._client.steer(self.id, "pause", {"reason": reason})

    async def resume(self, reason: str | None = None) -> Run:
        """Resumes a paused run."""
        return await self._client.steer(self.id, "resume", {"reason": reason})

    async def retry(
        self, *, from_step: str | None = None, reason: str | None = None, repeat_effects: list[str] | None = None
    ) -> Run:
        """Runs a failed run again, from the step that failed or from `from_step`."""
        body = {"fromStep": from_step, "reason": reason, "repeatEffects": repeat_effects}
        return await self._client.steer(self.id, "retry", body)


class Hapax:
    """An asynchronous client of a Hapax server.

    `url` is HAPAX_URL or HAPAX_SERVER if absent, `api_key` HAPAX_API_KEY. With `decimals=True`, numbers with a
    fraction come as `Decimal` where no type hint says otherwise.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        retry_for: Duration = 10,
        decimals: bool = False,
    ) -> None:
        self.url = url or os.environ.get("HAPAX_URL") or os.environ.get("HAPAX_SERVER") or DEFAULT_URL
        key = api_key or os.environ.get("HAPAX_API_KEY") or ""
        headers = {"authorization": f"Bearer {key.strip()}"} if key else {}
        self._http = HttpClient(self.url, headers)
        self._retry_for = to_seconds(retry_for)
        self._untyped: Any = ExactJson if decimals else Any

    async def __aenter__(self) -> Hapax:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes idle connections."""
        self._http.close()

    # Runs.

    @overload
    async def start(
        self, workflow: Workflow[I, O], input: I | None = None, **options: Unpack[StartOptions]
    ) -> RunHandle[O]: ...

    @overload
    async def start(self, workflow: str, input: Any = None, **options: Unpack[StartOptions]) -> RunHandle[Any]: ...

    async def start(
        self, workflow: Workflow[Any, Any] | str, input: Any = None, **options: Unpack[StartOptions]
    ) -> RunHandle[Any]:
        """Starts a run, once per `key`. Give a key from your domain, such as `order-4711`.

        A workflow of this program starts in its version; a name starts the latest, `order@2` the second.
        """
        name = workflow if isinstance(workflow, str) else f"{workflow.name}@{workflow.version}"
        unknown = options.keys() - StartOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"start has no option {sorted(unknown)[0]!r}")
        delay, timeout = options.get("delay"), options.get("timeout")
        body = {
            "workflow": name,
            "input": input,
            "idempotencyKey": options.get("key"),
            "subject": options.get("subject"),
            "delay": None if delay is None else to_text(delay),
            "timeout": None if timeout is None else to_text(timeout),
            "priority": options.get("priority"),
        }
        made = await self.post("/api/v1/workflow-runs", _given(body), request_key=options.get("request_key"))
        hint = Any if isinstance(workflow, str) else workflow.output_hint
        return RunHandle(self, made["run"]["id"], hint, made["created"])

    @overload
    def run(self, run_id: str, workflow: Workflow[Any, O]) -> RunHandle[O]: ...

    @overload
    def run(self, run_id: str, workflow: None = None) -> RunHandle[Any]: ...

    def run(self, run_id: str, workflow: Workflow[Any, Any] | None = None) -> RunHandle[Any]:
        """The handle of a run that is there."""
        return RunHandle(self, run_id, Any if workflow is None else workflow.output_hint)

    async def wait_for_result(self, run_id: str, *, timeout: Duration | None = None, returns: Any = Any) -> Any:
        """Waits for the end of a run and returns its output."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + to_seconds(timeout)
        while True:
            left = LONGEST_WAIT if until is None else max(0.0, until - loop.time())
            wait = min(LONGEST_WAIT, int(left) + 1) if left > 0 else 0
            path = f"/api/v1/workflow-runs/{quote(run_id, safe='')}/result"
            found = await self._wire(await self._send("GET", path, headers={"prefer": f"wait={wait}"}))
            if found["status"] == "COMPLETED":
                try:
                    return decode(found.get("output"), self._hint(returns))
                except DecodeError as error:
                    raise DecodeError(f"the output of {run_id} does not fit its type: {error}") from error
            if found["status"] in ("FAILED", "CANCELLED"):
                raise RunFailed(run_id, found["status"], decode(found.get("failure") or {}, Any))
            if until is not None and loop.time() >= until:
                raise StillOpen(f"{run_id} is {found['status']}")

    async def get_run(self, run_id: str) -> RunDetail:
        """A run and its steps."""
        found = await self.get(f"/api/v1/workflow-runs/{quote(run_id, safe='')}")
        return RunDetail(Run.of(found["run"]), found["steps"])

    async def list_runs(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        needs_attention: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Run]:
        """One page of runs, newest first."""
        query = {
            "status": status,
            "workflow": workflow,
            "needsAttention": needs_attention,
            "limit": limit,
            "cursor": cursor,
        }
        return page_of(Run, await self.get("/api/v1/workflow-runs", query))

    async def signal(self, run_id: str, name: str, value: Any = None, *, signal_id: str | None = None) -> bool:
        """Sends a signal to a run, once per `signal_id`. Returns whether it was new."""
        body = {"name": name, "value": value, "signalId": signal_id or uuid.uuid4().hex}
        return (await self.post(f"/api/v1/workflow-runs/{quote(run_id, safe='')}/signals", body))["stored"]

    async def steer(self, run_id: str, verb: str, body: dict[str, Any]) -> Run:
        """Cancels, pauses, resumes or retries a run."""
        return Run.of(await self.post(f"/api/v1/workflow-runs/{quote(run_id, safe='')}/{verb}", _given(body)))

    # Promises.

    async def create_promise(
        self,
        promise_id: str | None = None,
        *,
        key: str | None = None,
        key_ttl: Duration | None = None,
        timeout: Duration | None = None,
        about: Any = None,
    ) -> Promise:
        """Creates a promise that belongs to no run."""
        body = {
            "id": promise_id,
            "idempotencyKey": key,
            "idempotencyKeyTtlSeconds": None if key_ttl is None else round(to_seconds(key_ttl)),
            "timeout": None if timeout is None else to_text(timeout),
            "about": about,
        }
        return Promise.of(await self.post("/api/v1/promises", _given(body)))

    async def get_promise(
        self, *, id: str | None = None, key: str | None = None, wait: Duration | None = None
    ) -> Promise:
        """A promise, by id or by key. With `wait`, it waits for the settlement for at most so long."""
        headers = None if wait is None else {"prefer": f"wait={min(LONGEST_WAIT, round(to_seconds(wait)))}"}
        answer = await self._send("GET", f"/api/v1/promises/{_promise_ref(id, key)}", headers=headers)
        return Promise.of(decode(await self._wire(answer), self._untyped))

    async def resolve(self, value: Any = None, *, id: str | None = None, key: str | None = None) -> Settlement:
        """Resolves a promise by id or by key. By a key that names no promise yet, the value is kept for it."""
        return _settlement(await self.post(f"/api/v1/promises/{_promise_ref(id, key)}/resolve", {"value": value}))

    async def reject(
        self, message: str, *, code: str | None = None, id: str | None = None, key: str | None = None
    ) -> Settlement:
        """Rejects a promise by id or by key."""
        body = _given({"message": message, "code": code})
        return _settlement(await self.post(f"/api/v1/promises/{_promise_ref(id, key)}/reject", body))

    # Entities.

    async def create_entity(self, type: str, id: str, status: str, data: dict[str, Any] | None = None) -> EntityState:
        """Creates a business object. The same again is the same object."""
        body = _given({"id": id, "status": status, "data": data})
        return EntityState.of((await self.post(f"/api/v1/entities/{quote(type, safe='')}", body))["entity"])

    async def get_entity(self, type: str, id: str) -> EntityState:
        """A business object."""
        return EntityState.of((await self.get(_entity_path(type, id)))["entity"])

    async def list_entities(
        self, type: str, *, status: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Page[EntityState]:
        """One page of business objects, by id."""
        query = {"status": status, "limit": limit, "cursor": cursor}
        return page_of(EntityState, await self.get(f"/api/v1/entities/{quote(type, safe='')}", query))

    async def transition(
        self,
        type: str,
        id: str,
        step: str,
        input: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        requester: str | None = None,
        version: int | None = None,
        wait: Duration | None = None,
    ) -> Transition:
        """Takes a step with a business object, once per `key`.

        `version` is the version you have seen: the step is refused if the object has moved on.
        """
        headers: dict[str, str] = {}
        if version is not None:
            headers["if-match"] = f'"{version}"'
        seconds = LONGEST_WAIT if wait is None else min(LONGEST_WAIT, round(to_seconds(wait)))
        headers["prefer"] = f"wait={seconds}"
        body = _given({"input": input, "idempotencyKey": key, "requester": requester})
        path = f"{_entity_path(type, id)}/steps/{quote(step, safe='')}"
        found = await self.post(path, body, headers=headers)
        entity = found.get("entity")
        made = Operation.of(found["operation"])
        return Transition(made, None if entity is None else EntityState.of(entity), found["created"])

    async def list_operations(
        self, type: str, id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Operation]:
        """One page of what was done with a business object."""
        found = await self.get(f"{_entity_path(type, id)}/operations", {"limit": limit, "cursor": cursor})
        return page_of(Operation, found)

    # Doubts.

    async def list_doubts(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Doubt]:
        """One page of effects with an unknown outcome, oldest first."""
        return page_of(Doubt, await self.get("/api/v1/doubts", {"limit": limit, "cursor": cursor}))

    async def resolve_doubt(
        self, doubt: Doubt, resolution: Resolution, *, reason: str, output: Any = None, by: str | None = None
    ) -> dict[str, Any]:
        """Rules on a doubt, as it was seen. `happened` and `compensate` take the output of the effect."""
        body = {"resolution": resolution, "reason": reason, "version": doubt.version, "by": by}
        if resolution in ("happened", "compensate"):
            body["output"] = output
        path = f"/api/v1/doubts/{quote(doubt.run_id, safe='')}/{quote(doubt.step_id, safe='')}/resolve"
        return await self.post(path, {name: v for name, v in body.items() if v is not None or name == "output"})

    # Documents.

    async def apply_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Uploads a workflow document."""
        return await self.post("/api/v1/workflow-definitions", document)

    async def apply_entity_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Uploads an entity workflow."""
        name = quote(str(document["name"]), safe="")
        return await self._call("PUT", f"/api/v1/entity-workflows/{name}", document)

    # Any route.

    async def get(self, path: str, query: dict[str, Any] | None = None) -> Any:
        """Reads any route of the API."""
        given = {name: str(v).lower() if isinstance(v, bool) else v for name, v in (query or {}).items()}
        given = _given(given)
        answer = await self._send("GET", f"{path}?{urlencode(given)}" if given else path)
        return decode(await self._wire(answer), self._untyped)

    async def post(
        self, path: str, body: Any, *, request_key: str | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Sends a change to any route of the API, under one idempotency key."""
        return await self._call("POST", path, body, request_key, headers)

    async def _call(
        self,
        method: str,
        path: str,
        body: Any,
        request_key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        given = dict(headers or {})
        if method == "POST":
            given["idempotency-key"] = request_key or uuid.uuid4().hex
        answer = await self._send(method, path, dumps(body).encode(), given)
        return decode(await self._wire(answer), self._untyped)

    async def _send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Response:
        """Sends a request, and the same again while the server is busy or the connection is cut."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._retry_for
        wait = 0.05
        while True:
            try:
                answer = await self.send_once(method, path, body, headers)
            except Unreachable:
                if loop.time() + wait > until:
                    raise
                pause = wait
            else:
                if answer.status < 400:
                    return answer
                problem = problem_of(answer.status, answer.body)
                if not _is_passing(problem) or loop.time() + wait > until:
                    raise problem
                pause = max(wait, problem.retry_after or 0.0)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            wait = min(2.0, wait * 2)

    async def send_once(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = LONGEST_WAIT + 15.0,
    ) -> Response:
        """Sends one request, once. For workers."""
        return await self._http.request(method, path, body, headers, timeout)

    async def _wire(self, answer: Response) -> Any:
        try:
            return loads(answer.body) if answer.body else None
        except ValueError as error:
            raise Unreachable(f"what answers at {self.url} is not Hapax: {error}") from error

    def _hint(self, returns: Any) -> Any:
        return self._untyped if returns is Any else returns


def _is_passing(problem: Problem) -> bool:
    """Whether the same request, under the same key, may go better in a moment."""
    is_gateway = problem.code == "unknown" and problem.status in (502, 503, 504)
    is_busy = problem.is_retryable and (problem.status in (429, 503) or problem.code == "request_in_progress")
    return is_gateway or is_busy


def _promise_ref(id: str | None, key: str | None) -> str:
    if (id is None) == (key is None):
        raise ValueError("name the promise with id= or with key=")
    return quote(f"id:{id}" if key is None else f"key:{key}", safe="")


def _entity_path(type: str, id: str) -> str:
    return f"/api/v1/entities/{quote(type, safe='')}/{quote(id, safe='')}"


def _settlement(found: dict[str, Any]) -> Settlement:
    if "promise" in found:
        return Settlement(Promise.of(found["promise"]), not found["alreadySettled"])
    return Settlement(None, True)


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}
