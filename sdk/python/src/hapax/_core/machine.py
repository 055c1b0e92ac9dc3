"""One activation of a run: the log and messages in, items out."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from .._codec import Decoder, plain
from .._failures import DecodeError, ForeignAwaitable, PermanentFailure, StepFailed, failure_of
from .._json import RawJson, loads
from .deferred import Deferred, with_branches
from .fibers import Closed, CoroutineFiber, Fiber, GuardLoop, ThreadFiber
from .names import record_kind

T = TypeVar("T")

Item = dict[str, Any]
Message = dict[str, Any]


@dataclass(frozen=True)
class StepCode:
    """The functions that the code gave for a step. The core keeps them, and never calls them."""

    effect: Callable[..., Any]
    probe: Callable[..., Any] | None = None
    compensate: Callable[..., Any] | None = None


class Operation(Deferred[T]):
    """An operation that the code has asked for. Await it for its outcome."""

    __slots__ = ("code", "decode", "fiber", "id", "is_abandoned", "is_alone", "kind", "number")

    def __init__(self, number: int, step_id: str, kind: str, fiber: Fiber | None, decode: Decoder) -> None:
        super().__init__()
        self.number = number
        self.id = step_id
        self.kind = kind
        self.fiber = fiber
        self.decode = decode
        self.code: StepCode | None = None
        self.is_alone = False
        self.is_abandoned = False


class ContinueAsNew(BaseException):
    """Ends the function, and begins it again with another input."""

    def __init__(self, raw_input: RawJson) -> None:
        super().__init__()
        self.raw_input = raw_input


@dataclass
class RunInfo:
    """What a workflow may know of its run."""

    run_id: str
    workflow: str = ""
    version: int = 1
    workspace: str = ""
    key_prefix: str = ""
    """Effect keys and promise ids begin with it: `prefix:step`."""
    fence: int = 0


@dataclass
class RunningAttempt:
    """An attempt that the server has asked for and whose outcome is not yet handed in."""

    op: int
    number: int
    do: str
    is_aborted: bool = False


@dataclass
class _Replay:
    """The log, until the code has taken all of it."""

    records: list[Message]
    by_id: dict[str, Message]


def kind_of(do: str) -> Item:
    """What an outcome says of its attempt. Effects and compensations count their attempts each for themselves."""
    return {} if do == "effect" else {"do": do}


class Machine:
    """Drives the code of one activation by hand, by the rules of the worker protocol.

    `begin` starts the function. `clock` gives milliseconds since 1970 and `entropy` a number in [0, 1); both are
    asked only for values that are not recorded yet.
    """

    def __init__(
        self,
        info: RunInfo,
        begin: Callable[[Machine], Coroutine[Any, Any, Any] | Callable[[], Any]],
        encode_output: Callable[[Any], RawJson],
        *,
        clock: Callable[[], int],
        entropy: Callable[[], float],
        values: Mapping[int, RawJson] | None = None,
    ) -> None:
        self.info = info
        self.clock = clock
        self.entropy = entropy
        self.is_over = False
        """The function has ended, or is forgotten."""
        self.is_stopped = False
        self.is_replaying = False
        self.attempts: dict[tuple[int, str, int], RunningAttempt] = {}
        """Attempts under way, by operation, what they do, and number."""
        self.current: Fiber | None = None
        self._values = values or {}
        """Values that the code made in an earlier execution of this activation, by operation."""
        self._begin = begin
        self._encode_output = encode_output
        self._items: list[Item] = []
        self._operations: list[Operation[Any]] = []
        self._by_id: dict[str, Operation[Any]] = {}
        self._open: dict[int, Operation[Any]] = {}
        self._open_scopes: dict[int, Operation[Any]] = {}
        self._uses: dict[str, int] = {}
        self._ready: deque[Fiber] = deque()
        self._fibers: set[Fiber] = set()
        self._root: Fiber | None = None
        self._replay: _Replay | None = None
        self._violation: str | None = None
        self._guard = GuardLoop(self._foreign)

    # Messages of the server.

    def start(self, log: list[Message]) -> None:
        """Calls the function from the top and gives it the outcomes of the log, in their order."""
        self._replay = _Replay(log, {record["id"]: record for record in log})
        self.is_replaying = True
        self._root = self._add_fiber(self._begin(self), None)
        self._run()
        self._give_log()
        self._finish_turn()

    def resolved(self, op: int, outcome: Message) -> None:
        """Gives an operation its outcome: `output`, or `failure`."""
        operation = self._find(op)
        if operation is None or operation.is_done or operation.is_abandoned or self.is_over:
            return
        self._deliver(operation, outcome)
        self._finish_turn()

    def attempt(self, message: Message) -> StepCode | None:
        """Registers an attempt. Returns the functions of its step, or `None` if the code never asked for it."""
        operation = self._find(message["op"])
        if operation is None or operation.code is None:
            return None
        attempt = RunningAttempt(message["op"], message["attempt"], message["do"])
        self.attempts[attempt.op, attempt.do, attempt.number] = attempt
        return operation.code

    def ended(self, op: int, do: str, attempt: int, outcome: Item) -> None:
        """Takes the outcome of an attempt: `output` (JSON text), `failure`, or `answer` of a probe."""
        running = self.attempts.pop((op, do, attempt), None)
        self._items.append({"outcome": op, "attempt": attempt, **kind_of(do), **outcome})
        operation = self._find(op)
        counts = do == "effect" and (running is None or not running.is_aborted)
        if operation is None or not counts or "output" not in outcome:
            return
        if self.is_over or self.is_stopped or operation.is_alone or self._open.keys() != {op}:
            return
        output = outcome["output"]
        self._deliver(operation, {"output": loads(output.text) if isinstance(output, RawJson) else output})
        self._finish_turn()

    def abort(self, op: int, number: int | None = None) -> list[RunningAttempt]:
        """Marks the attempts at an operation as stopped. Their outcome is evidence only."""
        attempts = self.attempts.values()
        found = [a for a in attempts if a.op == op and (number is None or a.number == number)]
        for attempt in found:
            attempt.is_aborted = True
        return found

    def stop(self) -> None:
        """The run is to stop: the worker goes on by itself no more."""
        self.is_stopped = True

    def drop(self) -> None:
        """Forgets the function."""
        self._close_all()

    def evict(self) -> None:
        """Forgets the function, and tells the server."""
        if not self.is_over:
            self._items.append({"evicted": True})
        self._close_all()

    def take_items(self) -> list[Item]:
        """What is to be committed, in order."""
        items, self._items = self._items, []
        return items

    @property
    def has_items(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._items)

    @property
    def waits_for(self) -> list[str]:
        """The operations that the code waits for, as text."""
        return [f"{operation.kind} `{operation.id}`" for operation in self._open.values()]

    # Requests of the code.

    def ask(
        self,
        kind: str,
        name: str,
        fields: Item,
        *,
        decode: Decoder = plain,
        code: StepCode | None = None,
        is_alone: bool = False,
        scope: int | None = None,
    ) -> Operation[Any]:
        """Asks for an operation that the server answers."""
        operation = self._new_operation(kind, self._next_id(name), decode)
        operation.code = code
        operation.is_alone = is_alone
        self._open[operation.number] = operation
        self._put(operation, kind, fields, scope)
        return operation

    def value(self, name: str, make: Callable[[], RawJson], scope: int | None) -> Any:
        """A value that the code makes for itself. It is known at once."""
        operation = self._new_operation("value", self._next_id(name), plain)
        record = self._replay.by_id.get(operation.id) if self._replay else None
        if record is not None and record.get("status") == "COMPLETED":
            output = record.get("output")
            raw = RawJson.of(output)
        elif operation.number in self._values:
            raw = self._values[operation.number]
            output = loads(raw.text)
        else:
            raw = make()
            output = loads(raw.text)
        operation.settle(output)
        self._put(operation, "value", {"name": name, "value": raw}, scope)
        return output

    def open_scope(self, kind: str, scope: int | None) -> Operation[Any]:
        """Opens a scope or a shield."""
        operation = self._new_operation(kind, self._next_id("~scope"), plain)
        self._open_scopes[operation.number] = operation
        self._put(operation, kind, {}, scope)
        return operation

    def close_scope(self, operation: Operation[Any], failure: Item | None) -> None:
        """Closes a scope. One that failed is resolved when its effects are undone."""
        self._must_run()
        del self._open_scopes[operation.number]
        if failure is None:
            self._items.append({"closeScope": operation.number, "ok": True})
            operation.settle(None)
        else:
            self._open[operation.number] = operation
            self._items.append({"closeScope": operation.number, "failure": failure})

    def branch(self, body: Any) -> Deferred[Any]:
        """Begins a branch, or takes an operation for one."""
        if isinstance(body, Deferred):
            return cast("Deferred[Any]", body)
        return self._add_fiber(body, self.current).result

    def abandon(self, losers: list[Deferred[Any]]) -> None:
        """Ends branches that lost a race, and abandons what they had open."""
        losers = with_branches(losers)
        closed = [fiber for fiber in self._fibers if any(fiber.result is loser for loser in losers)]
        closing = [fiber for fiber in self._fibers if any(fiber.is_within(root) for root in closed)]
        for fiber in closing:
            self._close(fiber)
        pending = {**self._open, **self._open_scopes}
        for number in sorted(pending):
            operation = pending[number]
            owned = operation.fiber is not None and operation.fiber in closing
            if owned or any(operation is loser for loser in losers):
                operation.is_abandoned = True
                self._open.pop(number, None)
                self._open_scopes.pop(number, None)
                self._items.append({"abandon": number})
        for loser in losers:
            loser.settle(error=PermanentFailure("this branch lost a race and was abandoned", code="abandoned"))

    def wait(self, deferred: Deferred[T]) -> T:
        """Waits in a plain function."""
        fiber = self.current
        if not isinstance(fiber, ThreadFiber):
            raise RuntimeError("this context belongs to a plain function; use it in the thread of its workflow")
        return fiber.wait_for(deferred)

    # Inside.

    def _find(self, op: int) -> Operation[Any] | None:
        return self._operations[op - 1] if 0 < op <= len(self._operations) else None

    def _next_id(self, name: str) -> str:
        uses = self._uses.get(name, 0) + 1
        self._uses[name] = uses
        return name if uses == 1 else f"{name}#{uses}"

    def _must_run(self) -> None:
        fiber = self.current
        if fiber is None or fiber.is_closed:
            raise Closed if fiber is not None else RuntimeError("use the context only in its workflow's code")

    def _new_operation(self, kind: str, step_id: str, decode: Decoder) -> Operation[Any]:
        self._must_run()
        record = self._replay.by_id.get(step_id) if self._replay else None
        if record is not None and record_kind(record["kind"]) != record_kind(kind):
            recorded = record_kind(record["kind"])
            self._set_violation(f"the log has the {recorded} `{step_id}`, the code asks for the {kind} `{step_id}`")
            raise Closed
        operation: Operation[Any] = Operation(len(self._operations) + 1, step_id, kind, self.current, decode)
        return operation

    def _put(self, operation: Operation[Any], kind: str, fields: Item, scope: int | None) -> None:
        self._operations.append(operation)
        self._by_id[operation.id] = operation
        item: Item = {"op": operation.number, "do": kind, **fields}
        if scope is not None:
            item["scope"] = scope
        self._items.append(item)

    def _add_fiber(self, body: Any, parent: Fiber | None) -> Fiber:
        if isinstance(body, Coroutine):
            fiber: Fiber = CoroutineFiber(cast("Coroutine[Any, Any, Any]", body), parent, self._guard)
        elif callable(body):
            fiber = ThreadFiber(body, parent, self.info.run_id)
        else:
            raise self._foreign(f"a {type(body).__name__}")
        self._fibers.add(fiber)
        self._ready.append(fiber)
        return fiber

    def _run(self) -> None:
        """Runs the code until it can go no further."""
        while self._ready and self._violation is None:
            fiber = self._ready.popleft()
            if fiber.is_closed:
                continue
            before, self.current = self.current, fiber
            try:
                waits_for = fiber.advance()
            finally:
                self.current = before
            if fiber.result.is_done:
                self._fibers.discard(fiber)
                if fiber is self._root:
                    self._end(fiber)
            elif isinstance(waits_for, Deferred):
                cast("Deferred[Any]", waits_for).watch(lambda fiber=fiber: self._ready.append(fiber))
            else:
                self._foreign(_describe(waits_for), fiber)

    def _end(self, root: Fiber) -> None:
        """Takes the result of the function."""
        error = root.result.error
        if self._violation is not None or isinstance(error, Closed):
            return
        # Branches that nobody waits for end with the function.
        self._close_all()
        if error is None:
            try:
                self._items.append({"return": self._encode_output(root.result.taken())})
                return
            except Exception as invalid:
                error = PermanentFailure(f"the result cannot be stored: {invalid}", code="invalid")
        if isinstance(error, ContinueAsNew):
            self._items.append({"continueAsNew": error.raw_input})
        else:
            self._items.append({"throw": failure_of(error)})

    def _give_log(self) -> None:
        """Gives the code the outcomes of the log.

        Behind a scope that failed nothing more is given: its outcome is in no record, so the server sends `resolved`
        for it and for what follows. Recorded values are still looked up then.
        """
        replay = self._replay
        if replay is None:
            return
        for record in replay.records:
            if any(operation.kind == "scope" for operation in self._open.values()):
                self.is_replaying = False
                return
            if self._violation is not None:
                break
            self._replay_record(record)
        unasked = (r for r in replay.records if not _is_passed_over(r) and r["id"] not in self._by_id)
        missed = next(unasked, None)
        if missed is not None and self._violation is None:
            self._violate(missed)
        self.is_replaying = False
        self._replay = None

    def _replay_record(self, record: Message) -> None:
        if _is_passed_over(record) or record["status"] not in ("COMPLETED", "FAILED") or record["kind"] == "value":
            return
        operation = self._by_id.get(record["id"])
        if operation is None:
            self._violate(record)
        elif operation.is_abandoned or operation.is_done or self.is_over:
            return  # the code asked for it, and went on without it
        elif operation.number not in self._open:
            self._violate(record)
        else:
            self._deliver(operation, record)

    def _deliver(self, operation: Operation[Any], outcome: Message) -> None:
        self._open.pop(operation.number, None)
        self._items.append({"took": operation.number})
        if operation.code is not None and operation.code.compensate is None:
            operation.code = None  # a long run need not keep it
        failure = outcome.get("failure")
        if failure is not None:
            operation.settle(error=StepFailed(operation.id, plain(failure)))
        else:
            try:
                operation.settle(operation.decode(outcome.get("output")))
            except (DecodeError, ValueError, TypeError) as error:
                text = f"the outcome of {operation.id} does not fit its type: {error}"
                operation.settle(error=PermanentFailure(text, code="invalid"))
        self._run()

    def _violate(self, record: Message) -> None:
        kind, step_id = record_kind(record["kind"]), record["id"]
        has_outcome = record["status"] in ("COMPLETED", "FAILED")
        in_log = f"the log has {'the outcome of ' if has_outcome else ''}the {kind} `{step_id}`"
        if self.is_over:
            code = "the code ends without it"
        elif self._open:
            code = f"the code waits for the {', the '.join(self.waits_for)}"
        else:
            code = "the code asks for nothing"
        self._set_violation(f"{in_log}, {code}")

    def _foreign(self, what: str, fiber: Fiber | None = None) -> ForeignAwaitable:
        place = _place_of(fiber)
        text = (
            f"workflow code waits for {what}, which is not the context's{place}. A replay could not repeat it: "
            f"do it in a step (`await ctx.step(...)`), and use ctx.sleep, ctx.gather and ctx.race"
        )
        self._set_violation(text)
        return ForeignAwaitable(text)

    def _set_violation(self, text: str) -> None:
        if self._violation is None:
            self._violation = text

    def _finish_turn(self) -> None:
        if self._violation is None:
            return
        # Outcomes of attempts stay true. What the code did does not count.
        self._items = [item for item in self._items if "outcome" in item]
        self._items.append({"violation": self._violation})
        self._close_all()

    def _close_all(self) -> None:
        self.is_over = True
        for fiber in list(self._fibers):
            self._close(fiber)
        self._ready.clear()
        self._fibers.clear()

    def _close(self, fiber: Fiber) -> None:
        before, self.current = self.current, fiber
        try:
            fiber.close()
        finally:
            self.current = before
        self._fibers.discard(fiber)


def _is_passed_over(record: Message) -> bool:
    """Whether the code never asks for the record by its id: undos, and what the server keeps for itself."""
    return "~" in record["id"]


def _describe(awaited: Any) -> str:
    if awaited is None:
        return "something like asyncio.sleep(0)"
    return f"a {type(awaited).__module__}.{type(awaited).__qualname__}"


def _place_of(fiber: Fiber | None) -> str:
    if fiber is None:
        for frame in reversed(traceback.extract_stack()):
            if "/hapax/_core/" not in frame.filename and "/asyncio/" not in frame.filename:
                return f" ({frame.filename}:{frame.lineno})"
        return ""
    coroutine: Any = getattr(fiber, "_coroutine", None)
    line = None
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        line = (coroutine.cr_frame.f_code.co_filename, coroutine.cr_frame.f_lineno)
        coroutine = coroutine.cr_await
    return f" ({line[0]}:{line[1]})" if line else ""
