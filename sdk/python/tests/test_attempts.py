"""Code of steps: the hold is looked at before it is entered and after each of its awaits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hapax import Attempt, AttemptCancelled, Ctx, PermanentFailure, ProbeAnswer, RawJson, StepFailed, workflow
from hapax._core.machine import Machine, RunInfo, StepCode
from hapax._json import dumps, loads
from hapax._worker.attempts import CodeRunner, RunningCode
from hapax.testing import run_workflow


class Hold:
    def __init__(self) -> None:
        self.lasts = True


def outcome_of(fn: Callable[..., Any], hold: Hold | None = None, do: str = "effect", **message: Any) -> Any:
    """Runs the code of a step as a worker does."""
    hold = hold or Hold()

    async def run() -> Any:
        runner = CodeRunner(4)
        attempt = Attempt("run_1:a", 1, 7, still_held=lambda: hold.lasts)
        running = RunningCode({"id": "a", "do": do, "attempt": 1, **message}, attempt)
        task = asyncio.ensure_future(runner.effect(StepCode(fn, fn, fn), running))
        running.task = task
        found = await task
        runner.close()
        return loads(dumps(found))

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [True, False])
def test_code_is_not_entered_when_the_hold_has_passed(is_async: bool) -> None:
    entered: list[str] = []

    async def step() -> None:
        entered.append("async")

    hold = Hold()
    hold.lasts = False
    found = outcome_of(step if is_async else lambda: entered.append("plain"), hold)
    assert found["failure"]["class"] == "retryable" and found["failure"]["code"] == "not_begun"
    assert entered == []


def test_a_coroutine_goes_on_after_an_await_only_while_the_hold_lasts() -> None:
    sent: list[str] = []
    hold = Hold()

    async def step() -> None:
        sent.append("connected")
        hold.lasts = False
        await asyncio.sleep(0)
        sent.append("sent")

    found = outcome_of(step, hold)
    assert found["failure"]["class"] == "unknown" and "AttemptCancelled" in found["failure"]["message"]
    assert sent == ["connected"]


def test_awaits_of_all_kinds_work_in_a_step() -> None:
    async def step(attempt: Attempt) -> list[Any]:
        async def part(n: int) -> int:
            await asyncio.sleep(0.001 * n)
            return n

        both = await asyncio.gather(part(2), part(1))
        threaded = await asyncio.to_thread(lambda: threading.current_thread() is threading.main_thread())
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        except asyncio.TimeoutError:
            both = [*both, 0]
        return [*both, threaded, attempt.key, attempt.fence]

    assert outcome_of(step) == {"output": [2, 1, 0, False, "run_1:a", 7]}


def test_a_lambda_may_return_a_coroutine() -> None:
    async def charge(key: str) -> str:
        await asyncio.sleep(0)
        return key

    assert outcome_of(lambda attempt: charge(attempt.key)) == {"output": "run_1:a"}


def test_a_timeout_tells_the_code() -> None:
    async def step(attempt: Attempt) -> None:
        await attempt.cancelled()

    found = outcome_of(step, timeout="20ms")
    assert found["failure"]["class"] == "unknown" and "timeout" in found["failure"]["message"]

    def plain(attempt: Attempt) -> str:
        while not attempt.is_cancelled:
            pass
        with pytest.raises(AttemptCancelled):
            attempt.ensure_still_held()
        return "it happened all the same"

    assert outcome_of(plain, timeout="20ms") == {"output": "it happened all the same"}


def test_an_output_that_cannot_be_stored_is_an_unknown_outcome() -> None:
    for output in (object(), "x" * 3_000_000, "\x00", 1 << 64):
        failure = outcome_of(lambda output=output: output)["failure"]
        assert (failure["class"], failure["code"]) == ("unknown", "invalid_output"), failure


def test_probes_answer_and_do_not_guess() -> None:
    assert outcome_of(lambda attempt: ProbeAnswer.happened({"id": attempt.key}), do="probe") == {
        "answer": "happened",
        "output": {"id": "run_1:a"},
    }
    assert outcome_of(lambda key: ProbeAnswer.did_not_happen(), do="probe") == {"answer": "did_not_happen"}
    for broken in (lambda key: None, lambda key: 1 / 0):
        assert outcome_of(broken, do="probe") == {"answer": "unknown"}


def test_undos_get_the_output() -> None:
    seen: list[Any] = []
    assert outcome_of(lambda output, attempt: seen.append((output, attempt.number)), do="undo", output={"a": 1}) == {
        "output": None
    }
    assert seen == [({"a": 1}, 1)]


def begin(function: Callable[[Ctx], Any]) -> Machine:
    machine = Machine(
        RunInfo("run_1", key_prefix="run_1"),
        lambda machine: function(Ctx(machine)),
        RawJson.of,
        clock=lambda: 0,
        entropy=lambda: 0.5,
    )
    machine.start([])
    return machine


def test_branches_that_nobody_waits_for_end_with_the_function() -> None:
    closed: list[str] = []

    async def branch(ctx: Ctx) -> None:
        try:
            await ctx.step("a", lambda: None)
            await ctx.step("never", lambda: None)
        finally:
            closed.append("closed")

    async def function(ctx: Ctx) -> str:
        ctx.gather(branch(ctx))
        return await ctx.signal("go")

    machine = begin(function)
    machine.take_items()
    machine.resolved(1, {"output": "x"})
    assert [next(iter(item)) for item in loads(dumps(machine.take_items()))] == ["took", "return"]
    assert closed == ["closed"] and machine.is_over
    machine.resolved(2, {"output": None})
    assert not machine.has_items


def test_a_probe_beside_a_late_effect_of_the_same_number_is_another_attempt() -> None:
    async def function(ctx: Ctx) -> str:
        return await ctx.step("wire", lambda: "W", claimed=True, probe=lambda key: ProbeAnswer.unknown())

    machine = begin(function)
    machine.take_items()
    for do in ("effect", "probe"):
        assert machine.attempt({"op": 1, "do": do, "attempt": 1}) is not None
    machine.ended(1, "effect", 1, {"output": "W"})
    assert [attempt.do for attempt in machine.attempts.values()] == ["probe"]


def test_the_context_is_refused_outside_of_the_workflow() -> None:
    @workflow("leak")
    async def leak(ctx: Ctx) -> str:
        def step() -> str:
            try:
                return str(ctx.now())
            except RuntimeError as error:
                raise PermanentFailure(str(error)) from error

        return await ctx.step("a", step)

    with pytest.raises(StepFailed, match="use the context only in its workflow's code"):
        run_workflow(leak)


def test_spans_continue_the_trace_of_the_run() -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    processors = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter = export.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(processors.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    inner: list[str] = []

    async def step() -> None:
        inner.append(format(trace.get_current_span().get_span_context().trace_id, "032x"))

    given = "4bf92f3577b34da6a3ce929d0e0e4736"
    outcome_of(step, trace=f"00-{given}-00f067aa0ba902b7-01")
    (span,) = exporter.get_finished_spans()
    assert span.name == "hapax.step a" and inner == [given]
