"""Tests of workflows, in memory and without a server.

`crash_everywhere` crashes a workflow at every place and checks that no effect happens twice:

    def test_a_crash_anywhere_wires_at_most_once():
        crash_everywhere(pay, Order(total=100)).expect(wire="at_most_once", charge="at_least_once")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from ._codec import decode
from ._definitions import Workflow, awaited
from ._failures import StepFailed
from ._json import RawJson, loads
from ._limits import MAX_CRASH_PLACES, MAX_TURNS
from ._testing.memory_server import MemoryServer
from ._testing.memory_worker import Crash, MemoryWorker, Place, Trace
from ._testing.records import Run
from ._testing.report import CrashReport, EffectReport, ExpectedEnd, Finding, ordinal

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


class World:
    """What happens outside while a run waits: signals, settlements, cancellations."""

    def __init__(self, server: MemoryServer, run: Run) -> None:
        self._server = server
        self._run = run

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._run.id

    @property
    def waits_for(self) -> list[str]:
        """Ids of the operations that the run waits for."""
        return [record.id for record in self._run.records.values() if record.status == "WAITING"]

    @property
    def open_promises(self) -> list[str]:
        """Ids of promises that nobody has settled."""
        return [name for name, promise in self._server.promises.items() if promise["status"] == "PENDING"]

    @property
    def after_effects(self) -> list[dict[str, Any]]:
        """Messages that the run has left for targets."""
        return list(self._server.after_effects)

    def signal(self, name: str, value: Any = None, *, signal_id: str | None = None) -> None:
        """Sends a signal to the run, once: the default of `signal_id` is the name."""
        given = loads(RawJson.of(value).text)
        self._server.signal(self._run.id, name, given, signal_id=signal_id or name)

    def resolve(self, promise: str, value: Any = None) -> None:
        """Resolves a promise, by id or `key:KEY`. The first settlement counts."""
        self._server.settle(promise, loads(RawJson.of(value).text))

    def reject(self, promise: str, message: str, *, code: str | None = None) -> None:
        """Rejects a promise."""
        failure = {"message": message, "class": "permanent", **({"code": code} if code else {})}
        self._server.settle(promise, failure=failure)

    def cancel(self) -> None:
        """Cancels the run."""
        self._server.cancel(self._run.id)


Outside: TypeAlias = "Callable[[World], None] | Callable[[World], Awaitable[None]]"


@dataclass
class _Execution:
    """One execution of the run, with at most one fault."""

    trace: Trace
    run: Run
    waits_for: list[str] = field(default_factory=list[str])

    @property
    def end(self) -> str:
        return "WAITING" if self.run.status == "RUNNING" else self.run.status

    @property
    def in_doubt(self) -> set[str]:
        return {record.id for record in self.run.records.values() if record.status == "IN_DOUBT"}

    def is_done(self, step: str) -> bool:
        record = self.run.records.get(step)
        return record is not None and record.status == "COMPLETED"

    def why(self) -> str:
        if self.run.violation is not None:
            return f": {self.run.violation}"
        if self.run.failure is not None:
            return f": {self.run.failure.get('message')}"
        return f": it waits for {', '.join(self.waits_for)}" if self.waits_for else ""


def crash_everywhere(
    workflow: Workflow[I, Any],
    input: I | Any = None,
    *,
    also: Iterable[Workflow[Any, Any]] = (),
    outside: Outside | None = None,
    repeatable: Iterable[str] = (),
    expect: ExpectedEnd = "completed",
    check: bool = True,
) -> CrashReport:
    """Crashes a workflow at every place and checks that no effect happens twice.

    It runs the workflow once to find its places, then once for each with a crash there, and once for each hand-in
    with a worker that comes back after another has taken over. It raises `AssertionError` with the shortest finding
    where an effect happens twice or the run ends differently, and if the run does not end as expected without a
    crash.

    A step that is not claimed may run again if its code reads `attempt.key`. Name steps that may run again without
    a key in `repeatable`. `also` are child workflows. `outside` plays the world around the run: it is called when
    the run waits, also after a crash. Time passes by itself.
    """
    __tracebackhide__ = True
    test = _CrashTest(workflow, input, list(also), outside, frozenset(repeatable), expect)
    report = _run_blocking(test.run())
    if check:
        report.assert_safe()
    return report


def run_workflow(
    workflow: Workflow[I, O],
    input: I | Any = None,
    *,
    also: Iterable[Workflow[Any, Any]] = (),
    outside: Outside | None = None,
) -> O:
    """Runs a workflow once, in memory. Returns its output, or raises its failure."""
    test = _CrashTest(workflow, input, list(also), outside, frozenset(), "completed")
    execution = _run_blocking(test.execute(None, is_zombie=False))
    if execution.end == "COMPLETED":
        return decode(execution.run.output, workflow.output_hint)
    if execution.run.failure is not None:
        raise StepFailed(workflow.name, execution.run.failure)
    raise AssertionError(f"the run is {execution.end}{execution.why()}")


class _CrashTest:
    def __init__(
        self,
        workflow: Workflow[Any, Any],
        input: Any,
        also: list[Workflow[Any, Any]],
        outside: Outside | None,
        repeatable: frozenset[str],
        expected: ExpectedEnd,
    ) -> None:
        self.workflow = workflow
        self.input = loads(RawJson.of(input).text)
        self.workflows = [workflow, *also]
        self.outside = outside
        self.repeatable = repeatable
        self.expected = expected

    async def run(self) -> CrashReport:
        usual = await self.execute(None, is_zombie=False)
        report = CrashReport(usual_end=usual.end, output=usual.run.output)
        if usual.end != self.expected.upper():
            report.findings.append(Finding("without a crash", self._unexpected(usual), 0))
        executions: list[tuple[Place, bool, _Execution]] = []
        places = usual.trace.places
        if len(places) > MAX_CRASH_PLACES:
            raise AssertionError(
                f"the workflow has {len(places)} places to crash at, and {MAX_CRASH_PLACES} is the limit; "
                "test it with a smaller input"
            )
        for place in places:
            for is_zombie in (False, True):
                if is_zombie and place.point not in ("after_effect", "before_commit"):
                    continue
                execution = await self.execute(place, is_zombie=is_zombie)
                if execution.trace.has_faulted:
                    report.zombies += is_zombie
                    report.crashes += not is_zombie
                    executions.append((place, is_zombie, execution))
        self._judge(usual, executions, report)
        report.findings.sort(key=lambda finding: finding.length)
        return report

    async def execute(self, fault: Place | None, *, is_zombie: bool) -> _Execution:
        """Runs the workflow to its end, with at most one fault."""
        server = MemoryServer()
        for workflow in self.workflows:
            server.register(workflow.name, workflow.version)
        run = server.start(f"{self.workflow.name}@{self.workflow.version}", self.input)
        trace = Trace(fault=fault, is_zombie=is_zombie)
        worker = MemoryWorker(server, self.workflows, trace)
        gone: list[MemoryWorker] = []
        world = World(server, run)
        try:
            for _ in range(MAX_TURNS):
                try:
                    if await worker.turn() or await self._play_outside(world, server):
                        continue
                except Crash:
                    gone.append(worker)
                    server.lose_worker()
                    worker = MemoryWorker(server, self.workflows, trace)
                    continue
                due = server.next_due()
                if due is None:
                    break
                server.advance_to(due)
            if is_zombie and gone:
                gone[0].come_back()
                while await worker.turn():
                    pass
        finally:
            for each in (*gone, worker):
                each.close()
        waits = [f"{r.id} ({r.kind})" for r in run.records.values() if r.status in ("WAITING", "IN_DOUBT")]
        return _Execution(trace, run, waits)

    async def _play_outside(self, world: World, server: MemoryServer) -> bool:
        """Lets the world act. Returns whether something changed."""
        if self.outside is None:
            return False
        before = _outside_state(server)
        await awaited(self.outside(world))
        return _outside_state(server) != before

    def _unexpected(self, usual: _Execution) -> str:
        if usual.run.violation is not None:
            return f"the workflow is not deterministic: {usual.run.violation}"
        if self.expected != "completed":
            advice = f"leave expect={self.expected!r} out if it is meant to complete"
        elif usual.run.is_closed:
            advice = "repair the workflow, or say expect='failed' if it is meant to fail"
        else:
            advice = (
                "give it what it waits for with outside=, name its children with also=, "
                "or say expect='waiting' if it is meant to wait"
            )
        return f"the run is {usual.end}{usual.why()}; {advice}"

    def _judge(self, usual: _Execution, executions: list[tuple[Place, bool, _Execution]], report: CrashReport) -> None:
        everything = [usual, *(execution for _, _, execution in executions)]
        steps = list(dict.fromkeys(step for execution in everything for step in execution.trace.entered))
        for step in steps:
            records = [execution.run.records[step] for execution in everything if step in execution.run.records]
            effect = EffectReport(
                step,
                effect_class=records[0].effect_class if records else "idempotent",
                usual=usual.trace.entered.get(step, 0),
                most=max(execution.trace.entered.get(step, 0) for execution in everything),
                reads_key=any(step in execution.trace.keys_read for execution in everything),
                can_be_in_doubt=any(step in execution.in_doubt for execution in everything),
            )
            may_repeat = effect.effect_class == "idempotent" and (effect.reads_key or step in self.repeatable)
            for place, is_zombie, execution in executions:
                if execution.trace.entered.get(step, 0) > effect.usual and not may_repeat:
                    effect.can_happen_twice = True
                    report.findings.append(_finding(place, is_zombie, execution, _twice(step, effect.effect_class)))
                if usual.is_done(step) and not execution.is_done(step) and not execution.in_doubt:
                    effect.can_be_left_undone = True
            report.effects[step] = effect
        for place, is_zombie, execution in executions:
            if execution.end != usual.end and not execution.in_doubt:
                report.findings.append(_finding(place, is_zombie, execution, _other_end(usual, execution)))


def _outside_state(server: MemoryServer) -> Any:
    runs = [(run.status, run.stop, len(run.seen_signals), repr(run.signals)) for run in server.runs.values()]
    settled = [promise["status"] for promise in server.promises.values()]
    return runs, settled


def _other_end(usual: _Execution, execution: _Execution) -> str:
    if execution.run.violation is not None:
        return f"the workflow is not deterministic: {execution.run.violation}"
    return f"the run is {execution.end} instead of {usual.end}{execution.why()}"


def _twice(step: str, effect_class: str) -> str:
    if effect_class == "claimed":
        return f"`{step}` ran twice, though it is claimed: on_doubt may say 'retry', or the code fails and tries again"
    return f"`{step}` ran twice; declare it claimed, give it a probe, or make it idempotent by `attempt.key`"


def _finding(place: Place, is_zombie: bool, execution: _Execution, outcome: str) -> Finding:
    nth = ordinal(place.nth)
    at = {
        "before_effect": f"before `{place.step}` ran",
        "after_effect": f"after `{place.step}` ran and before it was recorded",
        "before_commit": f"before the {nth} commit reached the server",
        "after_commit": f"after the {nth} commit, before its answer came",
        "before_message": f"before the {nth} message of the server was read",
    }[place.point]
    crash = f"a worker that stopped {at} and came back after another had taken over" if is_zombie else f"crash {at}"
    return Finding(crash, outcome, execution.trace.entered_before)


def _run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end, also where an event loop is running."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="hapax testing")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


__all__ = ["CrashReport", "EffectReport", "Finding", "World", "crash_everywhere", "run_workflow"]
