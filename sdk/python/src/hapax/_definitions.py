"""Workflows, tasks and entity actions, as decorators declare them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from ._attempt import Attempt
from ._codec import decoder_of
from ._core.context import Ctx
from ._core.machine import Machine
from ._core.names import checked_name
from ._core.sync_context import SyncCtx
from ._failures import DecodeError, PermanentFailure
from ._json import RawJson, payload, plain

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


class Workflow(Generic[I, O]):
    """A workflow: a function, the name and the version that runs are pinned to, and its types."""

    def __init__(self, name: str, version: int, fn: Callable[..., Any]) -> None:
        self.name = checked_name("workflow name", name)
        self.version = version
        self.fn = fn
        self.is_async = inspect.iscoroutinefunction(fn)
        parameters = _positional(fn)
        if not 1 <= len(parameters) <= 2:
            raise TypeError(f"workflow {name} must take (ctx) or (ctx, input)")
        self.takes_input = len(parameters) == 2
        hints = _hints(fn)
        self.input_hint: Any = hints.get(parameters[1].name, Any) if self.takes_input else Any
        self.output_hint: Any = hints.get("return", Any)
        self._decode_input = decoder_of(self.input_hint)
        self.__doc__ = fn.__doc__
        self.__name__ = getattr(fn, "__name__", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name}@{self.version}>"

    def begin(self, machine: Machine, input: Any) -> Coroutine[Any, Any, Any] | Callable[[], Any]:
        """The code of one activation, not yet begun."""
        if self.is_async:
            return self._begin_async(machine, input)
        return lambda: self.fn(*self._arguments(SyncCtx(machine), input))

    async def _begin_async(self, machine: Machine, input: Any) -> Any:
        return await self.fn(*self._arguments(Ctx(machine), input))

    def _arguments(self, ctx: Ctx | SyncCtx, input: Any) -> tuple[Any, ...]:
        if not self.takes_input:
            return (ctx,)
        try:
            return ctx, self._decode_input(input)
        except (DecodeError, ValueError, TypeError) as error:
            raise PermanentFailure(
                f"the input does not fit workflow {self.name}: {error}", code="input_invalid"
            ) from error

    def encode_output(self, output: Any) -> RawJson:
        """The output as JSON text."""
        return payload(output)


@overload
def workflow(
    name: str, *, version: int = 1
) -> Callable[
    [Callable[[Ctx, I], Coroutine[Any, Any, O]] | Callable[[Ctx], Coroutine[Any, Any, O]]], Workflow[I, O]
]: ...


@overload
def workflow(name: str, *, version: int = 1, sync: bool) -> Callable[[Callable[[SyncCtx, I], O]], Workflow[I, O]]: ...


def workflow(name: str, *, version: int = 1, sync: bool | None = None) -> Any:
    """Declares a workflow: `@workflow("order", version=1)` above `async def order(ctx: Ctx, input: Order) -> Receipt`.

    A plain `def` with a `SyncCtx` is declared with `sync=True`.
    """

    def declare(fn: Callable[..., Any]) -> Workflow[Any, Any]:
        declared: Workflow[Any, Any] = Workflow(name, version, fn)
        if sync is not None and declared.is_async == sync:
            raise TypeError(f"workflow {name}: sync={sync} does not fit its function")
        return declared

    return declare


@dataclass(frozen=True)
class Entity:
    """The business object that an action is about, as it stood when the action began."""

    type: str
    id: str
    status: str
    data: Any = None


@dataclass(frozen=True)
class ActionCall:
    """What an action of an entity workflow is asked to do."""

    step: str
    input: Any
    requester: str | None
    attempt: Attempt


class Task:
    """Code for a step of a document: `type: task`."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self.name = checked_name("task name", name)
        self.fn = fn
        self._parameters = _positional(fn)
        hints = _hints(fn)
        self._decode_input = decoder_of(hints.get(self._parameters[0].name, Any) if self._parameters else Any)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def bind(self, input: Any, attempt: Attempt) -> Callable[[], Any]:
        """The call, with as many of (input, attempt) as the function takes."""
        try:
            arguments = (self._decode_input(input), attempt)[: len(self._parameters)]
        except (DecodeError, ValueError, TypeError) as error:
            raise PermanentFailure(f"the input does not fit task {self.name}: {error}", code="input_invalid") from error
        return lambda: self.fn(*arguments)


class Action:
    """Code for a step of an entity workflow."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self.name = checked_name("action name", name)
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def bind(self, message: dict[str, Any], attempt: Attempt) -> Callable[[], Any]:
        """The call for a message of the server."""
        about = message["entity"]
        entity = Entity(about["type"], about["id"], about["status"], plain(about.get("data")))
        call = ActionCall(message["step"], plain(message.get("input")), message.get("requester"), attempt)
        return lambda: self.fn(entity, call)


def task(name: str) -> Callable[[Callable[..., Any]], Task]:
    """Declares a task: `@task("send-mail")` above `async def send_mail(input: Mail, attempt: Attempt)`."""
    return lambda fn: Task(name, fn)


def action(name: str) -> Callable[[Callable[[Entity, ActionCall], Any]], Action]:
    """Declares an action: `@action("CloseInvoice")` above `async def close(entity: Entity, call: ActionCall)`."""
    return lambda fn: Action(name, fn)


def call_step(fn: Callable[..., Any], attempt: Attempt) -> Any:
    """Calls the function of a step, with the attempt if it takes one."""
    return fn(attempt) if _takes_one(fn) else fn()


def call_undo(fn: Callable[..., Any], output: Any, attempt: Attempt) -> Any:
    """Calls an undo with as many of (output, attempt) as it takes."""
    return fn(*(output, attempt)[: len(_positional(fn))])


async def awaited(value: Any) -> Any:
    """The value, awaited if it is to be."""
    return await value if inspect.isawaitable(value) else value


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether the function is a coroutine function, also behind `functools.partial` or an object."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _takes_one(fn: Callable[..., Any]) -> bool:
    parameters = _positional(fn)
    return bool(parameters) and (parameters[0].is_required or parameters[0].name == "attempt")


@dataclass(frozen=True)
class _Parameter:
    name: str
    is_required: bool


def _positional(fn: Callable[..., Any]) -> list[_Parameter]:
    """The positional parameters of a function. It is asked for each attempt, so it is quick for functions."""
    if isinstance(fn, types.FunctionType):
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
        required = len(names) - len(fn.__defaults__ or ())
        return [_Parameter(name, place < required) for place, name in enumerate(names)]
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [_Parameter(p.name, p.default is inspect.Parameter.empty) for p in parameters if p.kind in kinds]


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:
        return {}
