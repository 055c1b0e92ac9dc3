"""A blocking client, for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, overload

from ._client import Hapax, Resolution, RunHandle
from ._definitions import Workflow
from ._durations import Duration
from ._models import Doubt, EntityState, Page, Promise, Run, RunDetail, Settlement, Transition

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hapax client", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncRunHandle(Generic[O]):
    """A run: wait for its result, signal it, steer it."""

    def __init__(self, loop: _Loop, handle: RunHandle[O]) -> None:
        self._loop = loop
        self._handle = handle
        self.id = handle.id
        self.created = handle.created
        """Whether this call made the run. False: it was there under this key."""

    def __repr__(self) -> str:
        return repr(self._handle)

    def result(self, *, timeout: Duration | None = None, returns: Any = None) -> O:
        """Waits for the end of the run and returns its output."""
        return self._loop.run(self._handle.result(timeout=timeout, returns=returns))

    def get(self) -> RunDetail:
        """The run and its steps."""
        return self._loop.run(self._handle.get())

    def signal(self, name: str, value: Any = None, *, signal_id: str | None = None) -> bool:
        """Sends a signal, once per `signal_id`. Returns whether it was new."""
        return self._loop.run(self._handle.signal(name, value, signal_id=signal_id))

    def cancel(self, reason: str | None = None, *, descendants: bool | None = None) -> Run:
        """Cancels the run. Its effects are undone."""
        return self._loop.run(self._handle.cancel(reason, descendants=descendants))

    def pause(self, reason: str | None = None) -> Run:
        """Pauses the run."""
        return self._loop.run(self._handle.pause(reason))

    def resume(self, reason: str | None = None) -> Run:
        """Resumes a paused run."""
        return self._loop.run(self._handle.resume(reason))

    def retry(
        self, *, from_step: str | None = None, reason: str | None = None, repeat_effects: list[str] | None = None
    ) -> Run:
        """Runs a failed run again."""
        return self._loop.run(self._handle.retry(from_step=from_step, reason=reason, repeat_effects=repeat_effects))


class SyncHapax:
    """A blocking client of a Hapax server, with the methods of `Hapax`."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        retry_for: Duration = 10,
        decimals: bool = False,
    ) -> None:
        self._client = Hapax(url, api_key, retry_for=retry_for, decimals=decimals)
        self._loop = _Loop()

    def __enter__(self) -> SyncHapax:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections and ends the client's thread."""
        self._loop.run(self._client.close())
        self._loop.close()

    @overload
    def start(
        self,
        workflow: Workflow[I, O],
        input: I | None = None,
        *,
        key: str | None = None,
        subject: str | None = None,
        delay: Duration | None = None,
        timeout: Duration | None = None,
        priority: Literal["low", "normal", "high"] | None = None,
        request_key: str | None = None,
    ) -> SyncRunHandle[O]: ...

    @overload
    def start(
        self,
        workflow: str,
        input: Any = None,
        *,
        key: str | None = None,
        subject: str | None = None,
        delay: Duration | None = None,
        timeout: Duration | None = None,
        priority: Literal["low", "normal", "high"] | None = None,
        request_key: str | None = None,
    ) -> SyncRunHandle[Any]: ...

    def start(self, workflow: Any, input: Any = None, **options: Any) -> SyncRunHandle[Any]:
        """Starts a run, once per `key`."""
        return SyncRunHandle(self._loop, self._loop.run(self._client.start(workflow, input, **options)))

    def run(self, run_id: str, workflow: Workflow[Any, O] | None = None) -> SyncRunHandle[O]:
        """The handle of a run that is there."""
        handle: RunHandle[Any] = self._client.run(run_id) if workflow is None else self._client.run(run_id, workflow)
        return SyncRunHandle(self._loop, handle)

    def get_run(self, run_id: str) -> RunDetail:
        """A run and its steps."""
        return self._loop.run(self._client.get_run(run_id))

    def list_runs(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        needs_attention: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Run]:
        """One page of runs, newest first."""
        found = self._client.list_runs(
            status=status, workflow=workflow, needs_attention=needs_attention, limit=limit, cursor=cursor
        )
        return self._loop.run(found)

    def signal(self, run_id: str, name: str, value: Any = None, *, signal_id: str | None = None) -> bool:
        """Sends a signal to a run."""
        return self._loop.run(self._client.signal(run_id, name, value, signal_id=signal_id))

    def create_promise(self, promise_id: str | None = None, **options: Any) -> Promise:
        """Creates a promise that belongs to no run."""
        return self._loop.run(self._client.create_promise(promise_id, **options))

    def get_promise(self, *, id: str | None = None, key: str | None = None, wait: Duration | None = None) -> Promise:
        """A promise, by id or by key."""
        return self._loop.run(self._client.get_promise(id=id, key=key, wait=wait))

    def resolve(self, value: Any = None, *, id: str | None = None, key: str | None = None) -> Settlement:
        """Resolves a promise by id or by key."""
        return self._loop.run(self._client.resolve(value, id=id, key=key))

    def reject(
        self, message: str, *, code: str | None = None, id: str | None = None, key: str | None = None
    ) -> Settlement:
        """Rejects a promise by id or by key."""
        return self._loop.run(self._client.reject(message, code=code, id=id, key=key))

    def create_entity(self, type: str, id: str, status: str, data: dict[str, Any] | None = None) -> EntityState:
        """Creates a business object."""
        return self._loop.run(self._client.create_entity(type, id, status, data))

    def get_entity(self, type: str, id: str) -> EntityState:
        """A business object."""
        return self._loop.run(self._client.get_entity(type, id))

    def transition(
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
        """Takes a step with a business object, once per `key`."""
        taken = self._client.transition(type, id, step, input, key=key, requester=requester, version=version, wait=wait)
        return self._loop.run(taken)

    def list_doubts(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Doubt]:
        """One page of effects with an unknown outcome."""
        return self._loop.run(self._client.list_doubts(limit=limit, cursor=cursor))

    def resolve_doubt(
        self, doubt: Doubt, resolution: Resolution, *, reason: str, output: Any = None, by: str | None = None
    ) -> dict[str, Any]:
        """Rules on a doubt, as it was seen."""
        return self._loop.run(self._client.resolve_doubt(doubt, resolution, reason=reason, output=output, by=by))

    def apply_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Uploads a workflow document."""
        return self._loop.run(self._client.apply_workflow(document))

    def apply_entity_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Uploads an entity workflow."""
        return self._loop.run(self._client.apply_entity_workflow(document))

    def get(self, path: str, query: dict[str, Any] | None = None) -> Any:
        """Reads any route of the API."""
        return self._loop.run(self._client.get(path, query))

    def post(self, path: str, body: Any, *, request_key: str | None = None) -> Any:
        """Sends a change to any route of the API."""
        return self._loop.run(self._client.post(path, body, request_key=request_key))
