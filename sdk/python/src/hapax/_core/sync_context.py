"""The context of a workflow that is a plain function."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .._attempt import Attempt
from .._durations import Duration, to_text
from .asking import Asker, OnClose, Selected, StepOptions, instant_text, is_undo_failure
from .hints import child_of
from .machine import Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._definitions import Workflow

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class SyncPromise(Generic[T]):
    """A durable promise that the run has made."""

    def __init__(self, ctx: SyncCtx, promise_id: str, operation: Operation[T]) -> None:
        self.id = promise_id
        """Id for settling the promise from outside."""
        self._ctx = ctx
        self._operation = operation

    def result(self) -> T:
        """Waits for the value."""
        return self._ctx._wait(self._operation)  # pyright: ignore[reportPrivateUsage]


class SyncCtx(Asker):
    """The context of a workflow that is a plain function: each method waits for its outcome.

    The function has a thread of its own. Branches are functions: `ctx.gather(lambda: ctx.step(...), ...)`.
    """

    @overload
    def step(
        self,
        name: str,
        fn: Callable[[Attempt], Awaitable[T]] | Callable[[], Awaitable[T]],
        **options: Unpack[StepOptions],
    ) -> T: ...

    @overload
    def step(self, name: str, fn: Callable[[Attempt], T] | Callable[[], T], **options: Unpack[StepOptions]) -> T: ...

    def step(self, name: str, fn: Callable[..., Any], **options: Unpack[StepOptions]) -> Any:
        """Runs `fn`, whose effect is recorded. `fn` may take the `Attempt`, and may be plain or async.

        A step is tried again under the same `attempt.key` unless it is `claimed`. `returns` is the type of the
        output; the default is the return annotation of `fn`.
        """
        return self._wait(self._step(name, fn, options))

    def promise(
        self,
        name: str,
        *,
        key: str | None = None,
        key_ttl: Duration | None = None,
        timeout: Duration | None = None,
        returns: type[T] | Any = Any,
    ) -> SyncPromise[T]:
        """A durable promise that a caller with its id or key settles once. `result()` waits for it."""
        operation = self._promise(name, key, key_ttl, timeout, returns)
        return SyncPromise(self, self._promise_id(operation), operation)

    def await_promise(self, promise_id: str, *, timeout: Duration | None = None, returns: type[T] | Any = Any) -> T:
        """Waits for a promise that belongs to no run."""
        return self._wait(self._await_promise(promise_id, timeout, returns))

    def signal(
        self,
        name: str,
        *,
        recorded_as: str | None = None,
        timeout: Duration | None = None,
        returns: type[T] | Any = Any,
    ) -> T:
        """Waits for the next signal of this name."""
        return self._wait(self._signal(name, recorded_as, timeout, returns))

    def sleep(self, duration: Duration, *, name: str | None = None) -> None:
        """Sleeps durably."""
        self._wait(self._sleep({"for": to_text(duration)}, name))

    def sleep_until(self, at: dt.datetime, *, name: str | None = None) -> None:
        """Sleeps durably until an instant."""
        self._wait(self._sleep({"until": instant_text(at)}, name))

    def child(
        self,
        workflow: Workflow[Any, T] | str,
        input: Any = None,
        *,
        recorded_as: str | None = None,
        on_close: OnClose | None = None,
        returns: type[T] | Any = Any,
    ) -> T:
        """Starts a child run, once, and waits for its output."""
        name, hint = child_of(workflow, returns)
        return self._wait(self._child(name, input, recorded_as, on_close, hint))

    def after_effect(self, target: str, body: Any = None) -> str:
        """Sends `body` to a target after the commit that records it. Returns the id of the message."""
        return self._wait(self._after_effect(target, body))

    @overload
    def gather(self, a: Callable[[], A], b: Callable[[], B], /) -> tuple[A, B]: ...

    @overload
    def gather(self, *branches: Callable[[], T]) -> tuple[T, ...]: ...

    def gather(self, *branches: Callable[[], Any]) -> tuple[Any, ...]:
        """Runs branches at once. It waits for all, then raises the first failure in their order."""
        return self._wait(self._gather(branches))

    def all(self, branches: Iterable[Callable[[], T]]) -> tuple[T, ...]:
        """Like `gather`, for any number of branches."""
        return self._wait(self._gather(list(branches)))

    def race(self, *branches: Callable[[], T]) -> T:
        """The value, or the failure, of the first branch to end. The others are abandoned."""
        return self._wait(self._race(branches))

    def select(self, **branches: Callable[[], T]) -> Selected[T]:
        """Like `race`, with names."""
        return self._wait(self._select(branches))

    def scope(self) -> SyncScope:
        """A saga: `with ctx.scope() as saga`. If its body fails, its effects are undone, last first."""
        return SyncScope(self, "scope")

    def shield(self) -> SyncScope:
        """A scope that is finished even if the run is cancelled."""
        return SyncScope(self, "shield")

    def _wait(self, deferred: Any) -> Any:
        return self._machine.wait(deferred)

    def _within(self, operation: Operation[Any]) -> SyncCtx:
        return SyncCtx(self._machine, operation.number)


class SyncScope:
    """A scope of a workflow that is a plain function."""

    def __init__(self, ctx: SyncCtx, kind: str) -> None:
        self._ctx = ctx
        self._kind = kind
        self._operation: Operation[Any] | None = None

    def __enter__(self) -> SyncCtx:
        self._operation = self._ctx._open_scope(self._kind)  # pyright: ignore[reportPrivateUsage]
        return self._ctx._within(self._operation)  # pyright: ignore[reportPrivateUsage]

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._operation is not None
        undoing = self._ctx._close(self._operation, error)  # pyright: ignore[reportPrivateUsage]
        if undoing is not None:
            try:
                self._ctx._wait(undoing)  # pyright: ignore[reportPrivateUsage]
            except Exception as failure:
                if is_undo_failure(failure):
                    raise failure from error
