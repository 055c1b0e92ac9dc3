"""What the contexts of coroutines and of plain functions share: options to fields, branches, scopes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NoReturn, TypeAlias, TypedDict, TypeVar

from .._attempt import Attempt, ProbeAnswer
from .._codec import decode, decoder_of
from .._durations import Duration, to_text
from .._failures import PermanentFailure, StepFailed, failure_of
from .._json import RawJson, payload
from .deferred import Deferred, Group
from .hints import returns_of
from .machine import ContinueAsNew, Item, Machine, Operation, StepCode
from .names import checked_name

T = TypeVar("T")

OnDoubt: TypeAlias = Literal["hold", "retry", "fail"]
OnClose: TypeAlias = Literal["cancel", "abandon"]
Probe: TypeAlias = Callable[[Attempt], Awaitable[ProbeAnswer]] | Callable[[Attempt], ProbeAnswer]
MAX_KEY_TTL_SECONDS = 10 * 366 * 86_400


@dataclass(frozen=True)
class Retry:
    """Retry policy of a step: exponential backoff with a cap, limited by time and by number of attempts.

    The server's defaults: for 24 hours, first after 1 s, then twice as long each time, at most 60 s.
    """

    give_up_after: Duration | None = None
    max_attempts: int | None = None
    first: Duration | None = None
    factor: float | None = None
    cap: Duration | None = None
    on_exhausted: Literal["fail", "pause"] | None = None

    @classmethod
    def never(cls) -> Retry:
        """One attempt, no retries."""
        return cls(max_attempts=1)

    def to_wire(self) -> Item:
        """The policy as the protocol writes it."""
        return _given(
            {
                "for": _text_of(self.give_up_after),
                "maxAttempts": self.max_attempts,
                "first": _text_of(self.first),
                "factor": self.factor,
                "cap": _text_of(self.cap),
                "onExhausted": self.on_exhausted,
            }
        )


class StepOptions(TypedDict, total=False):
    """Options of a step."""

    retry: Retry | None
    """When the step is tried again, and when it gives up."""
    timeout: Duration | None
    """How long one attempt may take."""
    claimed: bool
    """The effect must not happen twice. It is claimed before it begins, and in doubt if nobody knows whether it did."""
    probe: Probe | None
    """Asks the provider by key whether the effect happened. The step is claimed."""
    probe_timeout: Duration | None
    """How long one question may take."""
    probe_settle: Duration | None
    """How long to wait before the provider is asked, so that it knows."""
    on_doubt: OnDoubt | None
    """What becomes of an effect in doubt: it waits for a ruling (`hold`), is tried again, or fails."""
    rejects_stale_fences: bool
    """The provider refuses a request whose `attempt.fence` is older than one it has seen."""
    non_idempotent: bool
    """A repeat would do harm, so the step has to be claimed."""
    compensate: Callable[..., Any] | None
    """Undoes the effect: called with its output, and with the attempt if it takes one."""
    compensate_retry: Retry | None
    """When the compensation is tried again."""
    returns: Any
    """Type of the output; the default is the return annotation of the function."""


@dataclass(frozen=True)
class Selected(Generic[T]):
    """The branch that ended first: `which, value = await ctx.select(...)`."""

    which: str
    value: T

    def __iter__(self) -> Iterator[Any]:
        return iter((self.which, self.value))


class Asker:
    """Asks the machine for operations, within one scope."""

    def __init__(self, machine: Machine, scope: int | None = None) -> None:
        self._machine = machine
        self._scope = scope

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._machine.info.run_id

    @property
    def workflow_name(self) -> str:
        """Name of the workflow."""
        return self._machine.info.workflow

    @property
    def workflow_version(self) -> int:
        """Version of the workflow's code."""
        return self._machine.info.version

    @property
    def workspace(self) -> str:
        """Workspace of the run."""
        return self._machine.info.workspace

    @property
    def is_replaying(self) -> bool:
        """Whether the code only repeats what is in the log. Use it to log once."""
        return self._machine.is_replaying

    def now(self) -> dt.datetime:
        """Current time, recorded once."""
        millis = decode(self._value("now", self._machine.clock), int)
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=millis)

    def random(self) -> float:
        """Random number in [0, 1), recorded once."""
        return decode(self._value("random", self._machine.entropy), float)

    def remember(self, name: str, make: Callable[[], T], *, returns: type[T] | None = None) -> T:
        """Records a value that the code computes: `make` runs once, and every replay returns what it returned."""
        return decode(self._value(checked_name("step name", name), make), Any if returns is None else returns)

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """Ends this execution, and begins the run again with another input and an empty log."""
        raise ContinueAsNew(_payload("input", input))

    def _value(self, name: str, make: Callable[[], Any]) -> Any:
        return self._machine.value(name, lambda: _payload(f"value {name}", make()), self._scope)

    def _step(self, name: str, fn: Callable[..., Any], options: StepOptions) -> Operation[Any]:
        unknown = options.keys() - StepOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"step has no option {sorted(unknown)[0]!r}")
        checked_name("step name", name)
        code = StepCode(fn, options.get("probe"), options.get("compensate"))
        is_claimed, has_probe = options.get("claimed", False), code.probe is not None
        if options.get("non_idempotent") and not is_claimed:
            raise PermanentFailure(
                f"{name} is non_idempotent, so a crash could make it happen twice; declare it claimed=True",
                code="unprotected_effect",
            )
        fields: Item = {"name": name}
        if options:
            fields.update(_step_fields(options, code))
        returns = returns_of(fn, options.get("returns"))
        return self._ask("step", name, fields, returns, code=code, is_alone=is_claimed or has_probe)

    def _promise(
        self, name: str, key: str | None, key_ttl: Duration | None, timeout: Duration | None, returns: Any
    ) -> Operation[Any]:
        checked_name("promise name", name)
        ttl = None if key_ttl is None else round(float(_millis(key_ttl)) / 1_000)
        if ttl is not None and ttl > MAX_KEY_TTL_SECONDS:
            raise PermanentFailure("key_ttl is too long", code="invalid")
        fields = {
            "name": name,
            "idempotencyKey": key,
            "idempotencyKeyTtlSeconds": ttl,
            "timeout": _text_of(timeout),
        }
        return self._ask("promise", name, _given(fields), returns)

    def _promise_id(self, operation: Operation[Any]) -> str:
        return f"{self._machine.info.key_prefix}:{operation.id}"

    def _await_promise(self, promise_id: str, timeout: Duration | None, returns: Any) -> Operation[Any]:
        fields = _given({"id": promise_id, "timeout": _text_of(timeout)})
        return self._ask("awaitPromise", "promise", fields, returns)

    def _signal(self, name: str, recorded_as: str | None, timeout: Duration | None, returns: Any) -> Operation[Any]:
        checked_name("signal name", name)
        step = name if recorded_as is None else checked_name("step name", recorded_as)
        fields = _given({"name": name, "as": recorded_as, "timeout": _text_of(timeout)})
        return self._ask("signal", step, fields, returns)

    def _sleep(self, fields: Item, name: str | None) -> Operation[Any]:
        step = "sleep" if name is None else checked_name("step name", name)
        return self._ask("sleep", step, _given({**fields, "name": name}), None)

    def _child(
        self, workflow: str, input: Any, recorded_as: str | None, on_close: OnClose | None, returns: Any
    ) -> Operation[Any]:
        step = workflow.partition("@")[0] if recorded_as is None else recorded_as
        checked_name("workflow name", workflow.partition("@")[0])
        fields = {"workflow": workflow, "input": _payload("input", input)}
        fields.update(_given({"as": recorded_as, "onClose": on_close}))
        return self._ask("child", checked_name("step name", step), fields, returns)

    def _after_effect(self, target: str, body: Any) -> Operation[Any]:
        checked_name("target", target)
        return self._ask("afterEffect", target, {"target": target, "body": _payload("body", body)}, str)

    def _ask(
        self,
        kind: str,
        name: str,
        fields: Item,
        returns: Any,
        *,
        code: StepCode | None = None,
        is_alone: bool = False,
    ) -> Operation[Any]:
        return self._machine.ask(
            kind,
            name,
            fields,
            decode=decoder_of(returns),
            code=code,
            is_alone=is_alone,
            scope=self._scope,
        )

    def _gather(self, bodies: Sequence[Any]) -> Group[tuple[Any, ...]]:
        """All branches. It waits for every one, then fails with the first failure in their order."""
        branches = [self._machine.branch(body) for body in bodies]
        group: Group[tuple[Any, ...]] = Group(branches)

        def look() -> None:
            if all(branch.is_done for branch in branches) and not group.is_done:
                errors = [branch.error for branch in branches if branch.error is not None]
                if errors:
                    group.settle(error=errors[0])
                else:
                    group.settle(tuple(branch.taken() for branch in branches))

        look()
        for branch in branches:
            branch.watch(look)
        return group

    def _race(self, bodies: Sequence[Any]) -> Group[Any]:
        """The first branch to end. The others are abandoned."""
        return self._first([str(place) for place in range(len(bodies))], bodies, lambda first: first.value)

    def _select(self, bodies: Mapping[str, Any]) -> Group[Selected[Any]]:
        """The first branch to end, with its name."""
        return self._first(list(bodies), list(bodies.values()), lambda first: first)

    def _first(self, names: Sequence[str], bodies: Sequence[Any], take: Callable[[Selected[Any]], Any]) -> Group[Any]:
        if not bodies:
            raise PermanentFailure("a race needs at least one branch", code="invalid")
        branches = [self._machine.branch(body) for body in bodies]
        group: Group[Any] = Group(branches)
        winners: list[Deferred[Any]] = []

        def look(place: int) -> None:
            if winners:
                return
            winner = branches[place]
            winners.append(winner)
            self._machine.abandon([branch for branch in branches if branch is not winner and not branch.is_done])
            if winner.error is not None:
                group.settle(error=winner.error)
            else:
                group.settle(take(Selected(names[place], winner.taken())))

        for place, branch in enumerate(branches):
            branch.watch(lambda place=place: look(place))
        return group

    def _open_scope(self, kind: str) -> Operation[Any]:
        return self._machine.open_scope(kind, self._scope)

    def _close(self, operation: Operation[Any], error: BaseException | None) -> Deferred[Any] | None:
        """Closes the scope. Returns what to wait for, if its effects are to be undone."""
        is_shield = operation.kind == "shield"
        if error is None or is_shield:
            if error is None or isinstance(error, (Exception, ContinueAsNew)):
                self._machine.close_scope(operation, None)
            return None
        if isinstance(error, ContinueAsNew):
            self._machine.close_scope(operation, None)
            return None
        if not isinstance(error, Exception):
            return None
        self._machine.close_scope(operation, failure_of(error))
        return operation


def _step_fields(options: StepOptions, code: StepCode) -> Item:
    retry, compensate_retry = options.get("retry"), options.get("compensate_retry")
    return _given(
        {
            "retry": None if retry is None else retry.to_wire(),
            "timeout": _text_of(options.get("timeout")),
            "claimed": options.get("claimed") or None,
            "probe": code.probe is not None or None,
            "probeTimeout": _text_of(options.get("probe_timeout")),
            "probeSettle": _text_of(options.get("probe_settle")),
            "onDoubt": options.get("on_doubt"),
            "rejectsStaleFences": options.get("rejects_stale_fences") or None,
            "nonIdempotent": options.get("non_idempotent") or None,
            "compensate": code.compensate is not None or None,
            "compensateRetry": None if compensate_retry is None else compensate_retry.to_wire(),
        }
    )


def is_undo_failure(failure: BaseException) -> bool:
    """Whether the effects of a scope could not be undone."""
    return isinstance(failure, StepFailed) and failure.code == "undo_failed"


def instant_text(at: dt.datetime) -> str:
    """The instant as the protocol writes it."""
    if at.tzinfo is None:
        raise ValueError("the time needs a time zone, for example datetime.now(timezone.utc)")
    utc = at.astimezone(dt.timezone.utc)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1_000:03d}Z"


def _payload(what: str, value: Any) -> RawJson:
    try:
        return payload(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise PermanentFailure(f"the {what} cannot be stored: {error}", code="invalid") from error


def _text_of(duration: Duration | None) -> str | None:
    return None if duration is None else to_text(duration)


def _millis(duration: Duration) -> int:
    from .._durations import to_millis

    return to_millis(duration)


def _given(fields: Item) -> Item:
    return {name: value for name, value in fields.items() if value is not None}
