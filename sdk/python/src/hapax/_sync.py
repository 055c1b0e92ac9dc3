"""A blocking client, for programs without an event loop.

Its methods are those of the asynchronous client, which has the rules. Here each of them waits for its answer.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from ._client import Hapax, RunHandle, StartOptions
from ._definitions import Workflow
from ._durations import Duration

if TYPE_CHECKING:
    from typing_extensions import Unpack

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
T = TypeVar("T")
P = ParamSpec("P")


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


class _Blocking(Protocol):
    """What waits for methods of an asynchronous object."""

    _loop: _Loop
    _waits_for: Any


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same method, which waits for its answer."""

    @functools.wraps(method)
    def wait(self: _Blocking, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._waits_for, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return wait


class SyncRunHandle(Generic[O]):
    """A run: wait for its result, signal it, steer it."""

    def __init__(self, loop: _Loop, handle: RunHandle[O]) -> None:
        self._loop = loop
        self._waits_for = handle
        self.id = handle.id
        self.created = handle.created
        """Whether this call made the run. False: it was there under this key."""

    def __repr__(self) -> str:
        return repr(self._waits_for)

    def result(self, *, timeout: Duration | None = None, returns: Any = None) -> O:
        """Waits for the end of the run and returns its output.

        Raises `RunFailed` if it failed or was cancelled, and `StillOpen` after `timeout`.
        """
        return self._loop.run(self._waits_for.result(timeout=timeout, returns=returns))

    get = _blocking(RunHandle[Any].get)
    signal = _blocking(RunHandle[Any].signal)
    cancel = _blocking(RunHandle[Any].cancel)
    pause = _blocking(RunHandle[Any].pause)
    resume = _blocking(RunHandle[Any].resume)
    retry = _blocking(RunHandle[Any].retry)


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
        self._waits_for = Hapax(url, api_key, retry_for=retry_for, decimals=decimals)
        self._loop = _Loop()

    def __enter__(self) -> SyncHapax:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections and ends the client's thread."""
        self._loop.run(self._waits_for.close())
        self._loop.close()

    @overload
    def start(
        self, workflow: Workflow[I, O], input: I | None = None, **options: Unpack[StartOptions]
    ) -> SyncRunHandle[O]: ...

    @overload
    def start(self, workflow: str, input: Any = None, **options: Unpack[StartOptions]) -> SyncRunHandle[Any]: ...

    def start(self, workflow: Any, input: Any = None, **options: Unpack[StartOptions]) -> SyncRunHandle[Any]:
        """Starts a run, once per `key`. Give a key from your domain, such as `order-4711`."""
        return SyncRunHandle(self._loop, self._loop.run(self._waits_for.start(workflow, input, **options)))

    def run(self, run_id: str, workflow: Workflow[Any, O] | None = None) -> SyncRunHandle[O]:
        """The handle of a run that is there."""
        client = self._waits_for
        handle: RunHandle[Any] = client.run(run_id) if workflow is None else client.run(run_id, workflow)
        return SyncRunHandle(self._loop, handle)

    get_run = _blocking(Hapax.get_run)
    list_runs = _blocking(Hapax.list_runs)
    signal = _blocking(Hapax.signal)

    create_promise = _blocking(Hapax.create_promise)
    get_promise = _blocking(Hapax.get_promise)
    resolve = _blocking(Hapax.resolve)
    reject = _blocking(Hapax.reject)

    create_entity = _blocking(Hapax.create_entity)
    get_entity = _blocking(Hapax.get_entity)
    list_entities = _blocking(Hapax.list_entities)
    transition = _blocking(Hapax.transition)
    list_operations = _blocking(Hapax.list_operations)

    list_doubts = _blocking(Hapax.list_doubts)
    resolve_doubt = _blocking(Hapax.resolve_doubt)

    apply_workflow = _blocking(Hapax.apply_workflow)
    apply_entity_workflow = _blocking(Hapax.apply_entity_workflow)

    get = _blocking(Hapax.get)
    post = _blocking(Hapax.post)
