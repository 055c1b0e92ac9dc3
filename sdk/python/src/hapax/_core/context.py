"""The context of a workflow that is a coroutine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._attempt import Attempt
from .._durations import Duration, to_text
from .asking import Asker, OnClose, Selected, StepOptions, instant_text, is_undo_failure
from .deferred import Deferred, Group
from .hints import child_of
from .machine import Operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._definitions import Workflow

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class PromiseHandle(Group[T]):
    """A durable promise that the run has made. Await it for its value."""

    __slots__ = ("id",)

    def __init__(self, promise_id: str, operation: Operation[T]) -> None:
        super().__init__([operation])
        self.id = promise_id
        """Id for settling the promise from outside."""


class Ctx(Asker):
    """The context of a workflow: everything that the workflow does goes through it.

    What a method returns is asked for at once, and awaited when you need it.
    """

    @overload
    def step(
        self,
        name: str,
        fn: Callable[[Attempt], Awaitable[T]] | Callable[[], Awaitable[T]],
        **options: Unpack[StepOptions],
    ) -> Operation[T]: ...

    @overload
    def step(
        self, name: str, fn: Callable[[Attempt], T] | Callable[[], T], **options: Unpack[StepOptions]
    ) -> Operation[T]: ...

    def step(self, name: str, fn: Callable[..., Any], **options: Unpack[StepOptions]) -> Operation[Any]:
        """Runs `fn`, whose effect is recorded. `fn` may take the `Attempt`, and may be plain or async.

        A step is tried again under the same `attempt.key` unless it is `claimed`. `returns` is the type of the
        output; the default is the return annotation of `fn`.
        """
        return self._step(name, fn, options)

    def promise(
        self,
        name: str,
        *,
        key: str | None = None,
        key_ttl: Duration | None = None,
        timeout: Duration | None = None,
        returns: type[T] | Any = Any,
    ) -> PromiseHandle[T]:
        """A durable promise that a caller with its id or key settles once."""
        operation = self._promise(name, key, key_ttl, timeout, returns)
        handle: PromiseHandle[Any] = PromiseHandle(self._promise_id(operation), operation)
        operation.watch(lambda: _hand_over(operation, handle))
        return handle

    def await_promise(
        self, promise_id: str, *, timeout: Duration | None = None, returns: type[T] | Any = Any
    ) -> Operation[T]:
        """Waits for a promise that belongs to no run. Any number of runs may wait for it."""
        return self._await_promise(promise_id, timeout, returns)

    def signal(
        self,
        name: str,
        *,
        recorded_as: str | None = None,
        timeout: Duration | None = None,
        returns: type[T] | Any = Any,
    ) -> Operation[T]:
        """The next signal of this name. With `timeout`, the failure has the code `timed_out`."""
        return self._signal(name, recorded_as, timeout, returns)

    def sleep(self, duration: Duration, *, name: str | None = None) -> Operation[None]:
        """Sleeps durably. A sleeping run needs no worker."""
        return self._sleep({"for": to_text(duration)}, name)

    def sleep_until(self, at: dt.datetime, *, name: str | None = None) -> Operation[None]:
        """Sleeps durably until an instant."""
        return self._sleep({"until": instant_text(at)}, name)

    @overload
    def child(
        self,
        workflow: Workflow[Any, T],
        input: Any = None,
        *,
        recorded_as: str | None = None,
        on_close: OnClose | None = None,
    ) -> Operation[T]: ...

    @overload
    def child(
        self,
        workflow: str,
        input: Any = None,
        *,
        recorded_as: str | None = None,
        on_close: OnClose | None = None,
        returns: type[T] | Any = Any,
    ) -> Operation[T]: ...

    def child(
        self,
        workflow: Any,
        input: Any = None,
        *,
        recorded_as: str | None = None,
        on_close: OnClose | None = None,
        returns: Any = Any,
    ) -> Operation[Any]:
        """Starts a child run, once, and waits for its output: `order` is the latest version, `order@2` the second."""
        name, hint = child_of(workflow, returns)
        return self._child(name, input, recorded_as, on_close, hint)

    def after_effect(self, target: str, body: Any = None) -> Operation[str]:
        """Sends `body` to a target after the commit that records it. The outcome is the id of the message."""
        return self._after_effect(target, body)

    @overload
    def gather(self, a: Awaitable[A], b: Awaitable[B], /) -> Deferred[tuple[A, B]]: ...

    @overload
    def gather(self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> Deferred[tuple[A, B, C]]: ...

    @overload
    def gather(self, *branches: Awaitable[T]) -> Deferred[tuple[T, ...]]: ...

    def gather(self, *branches: Awaitable[Any]) -> Deferred[Any]:
        """Runs branches at once. It waits for all, then raises the first failure in their order."""
        return self._gather(branches)

    def all(self, branches: Iterable[Awaitable[T]]) -> Deferred[tuple[T, ...]]:
        """Like `gather`, for any number of branches."""
        return self._gather(list(branches))

    def race(self, *branches: Awaitable[T]) -> Deferred[T]:
        """The value, or the failure, of the first branch to end. The others are abandoned."""
        return self._race(branches)

    def select(self, **branches: Awaitable[T]) -> Deferred[Selected[T]]:
        """Like `race`, with names: `which, value = await ctx.select(word=ctx.signal("word"), late=ctx.sleep("3d"))`."""
        return self._select(branches)

    def scope(self) -> Scope:
        """A saga: `async with ctx.scope() as saga`. If its body fails, its effects are undone, last first."""
        return Scope(self, "scope")

    def shield(self) -> Scope:
        """A scope that is finished even if the run is cancelled: `async with ctx.shield() as shielded`."""
        return Scope(self, "shield")

    def _within(self, operation: Operation[Any]) -> Ctx:
        return Ctx(self._machine, operation.number)


class Scope:
    """A scope of a workflow that is a coroutine. Its body uses the context that `async with` gives."""

    def __init__(self, ctx: Ctx, kind: str) -> None:
        self._ctx = ctx
        self._kind = kind
        self._operation: Operation[Any] | None = None

    async def __aenter__(self) -> Ctx:
        self._operation = self._ctx._open_scope(self._kind)  # pyright: ignore[reportPrivateUsage]
        return self._ctx._within(self._operation)  # pyright: ignore[reportPrivateUsage]

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._operation is not None
        undoing = self._ctx._close(self._operation, error)  # pyright: ignore[reportPrivateUsage]
        if undoing is not None:
            try:
                await undoing
            except Exception as failure:
                if is_undo_failure(failure):
                    raise failure from error


def _hand_over(operation: Operation[Any], handle: PromiseHandle[Any]) -> None:
    if operation.error is not None:
        handle.settle(error=operation.error)
    else:
        handle.settle(operation.taken())
