"""crash_everywhere and the in-memory server: the same story as in Rust."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from hapax import Attempt, Ctx, PermanentFailure, ProbeAnswer, Retry, RetryableFailure, StepFailed, SyncCtx, workflow
from hapax.testing import World, crash_everywhere, run_workflow


@dataclass
class Order:
    id: str
    total: int


@dataclass
class Charge:
    id: str


async def charge(attempt: Attempt) -> Charge:
    return Charge(f"ch_{attempt.key}")


@workflow("order", version=1)
async def order(ctx: Ctx, input: Order) -> str:
    paid = await ctx.step("charge", charge)
    await ctx.sleep("3d")
    await ctx.step("ship", lambda attempt: attempt.key)
    return f"{input.id} {paid.id}"


def test_a_step_that_sends_its_key_may_run_again() -> None:
    report = crash_everywhere(order, Order("o-1", 5))
    report.expect(charge="at_least_once", ship="at_least_once")
    assert report.crashes > 10 and report.zombies > 2
    assert report.output == "o-1 ch_run_1:charge"
    assert report.effects["charge"].most == 2


def test_a_step_without_its_key_is_found() -> None:
    @workflow("pay")
    async def pay(ctx: Ctx) -> None:
        await ctx.step("wire", lambda: "sent")

    with pytest.raises(AssertionError, match="after `wire` ran and before it was recorded → `wire` ran twice"):
        crash_everywhere(pay)
    crash_everywhere(pay, repeatable=["wire"])


def test_a_claimed_step_runs_at_most_once() -> None:
    @workflow("pay")
    async def pay(ctx: Ctx) -> str:
        return await ctx.step("wire", lambda: "sent", claimed=True, timeout="30s")

    report = crash_everywhere(pay)
    report.expect(wire="at_most_once")
    assert report.effects["wire"].can_be_in_doubt
    with pytest.raises(
        AssertionError, match=r"'wire' is not exactly_once: wire \(claimed\): entered 1 to 1 times, may be in"
    ):
        report.expect(wire="exactly_once")
    with pytest.raises(AssertionError, match="no effect 'fax'"):
        report.assert_effect("fax", "at_most_once")


def test_a_probe_makes_a_claimed_step_exactly_once() -> None:
    bank: dict[str, str] = {}

    async def wire(attempt: Attempt) -> str:
        bank[attempt.key] = "W-1"
        return "W-1"

    async def find(attempt: Attempt) -> ProbeAnswer:
        found = bank.pop(attempt.key, None)
        return ProbeAnswer.happened(found) if found else ProbeAnswer.did_not_happen()

    @workflow("pay")
    async def pay(ctx: Ctx) -> str:
        bank.clear()
        return await ctx.step("wire", wire, claimed=True, probe=find)

    # The bank is cleared by a replay, so that only the crash before the effect is denied.
    report = crash_everywhere(pay, check=False)
    assert report.usual_end == "COMPLETED"

    @workflow("pay")
    async def pay_once(ctx: Ctx) -> str:
        return await ctx.step("wire", wire, claimed=True, probe=find)

    crash_everywhere(pay_once).expect(wire="exactly_once")


def test_a_doubt_that_is_retried_is_found() -> None:
    @workflow("pay")
    async def pay(ctx: Ctx) -> str:
        return await ctx.step("wire", lambda: "sent", claimed=True, on_doubt="retry")

    with pytest.raises(AssertionError, match="though it is claimed"):
        crash_everywhere(pay)


def test_a_workflow_that_never_completes_is_red() -> None:
    @workflow("wait")
    async def wait(ctx: Ctx) -> None:
        await ctx.signal("never")

    with pytest.raises(AssertionError, match=r"without a crash → the run is WAITING: it waits for never \(signal\)"):
        crash_everywhere(wait)
    crash_everywhere(wait, expect="waiting")


def test_a_workflow_that_fails_is_red_unless_expected() -> None:
    @workflow("fail")
    async def fail(ctx: Ctx) -> None:
        raise PermanentFailure("no such customer")

    with pytest.raises(AssertionError, match="the run is FAILED: no such customer; repair"):
        crash_everywhere(fail)
    crash_everywhere(fail, expect="failed")


def test_code_that_is_not_deterministic_is_found() -> None:
    @workflow("dice")
    async def dice(ctx: Ctx) -> None:
        await ctx.step(f"roll-{random.random()}", lambda attempt: attempt.key)
        await ctx.step("after", lambda attempt: attempt.key)

    with pytest.raises(AssertionError, match="not deterministic"):
        crash_everywhere(dice)


def test_values_are_the_same_in_a_replay() -> None:
    @workflow("dice")
    async def dice(ctx: Ctx) -> float:
        at, number = ctx.now(), ctx.random()
        picked = ctx.remember("picked", lambda: random.random())
        await ctx.step(f"roll-{number}", lambda attempt: attempt.key)
        await ctx.step(f"at-{at.timestamp()}-{picked}", lambda attempt: attempt.key)
        return number

    crash_everywhere(dice)


def test_the_world_outside_signals_and_settles() -> None:
    @workflow("approve")
    async def approve(ctx: Ctx) -> list[object]:
        promise = ctx.promise("paid", key="stripe:ch_7", returns=int)
        await ctx.step("ask", lambda attempt: attempt.key)
        first = await ctx.select(word=ctx.signal("approved", returns=str), late=ctx.sleep("1d"))
        return [first.which, first.value, await promise]

    def outside(world: World) -> None:
        world.signal("approved", "ada")
        world.resolve("key:stripe:ch_7", 500)

    report = crash_everywhere(approve, outside=outside)
    assert report.output == ["word", "ada", 500]
    with pytest.raises(AssertionError):
        crash_everywhere(approve)


def test_a_saga_is_undone_last_first_and_only_once_per_key() -> None:
    undone: list[str] = []

    async def undo(output: str, attempt: Attempt) -> None:
        undone.append(f"{output} {attempt.key}")

    @workflow("trip")
    async def trip(ctx: Ctx) -> str:
        try:
            async with ctx.scope() as saga:
                await saga.step("flight", lambda a: f"F {a.key}"[:1], compensate=undo)
                await saga.step("hotel", lambda a: f"H {a.key}"[:1], compensate=undo)
                raise PermanentFailure("no car")
        except PermanentFailure as failure:
            return failure.message

    assert run_workflow(trip) == "no car"
    assert undone == ["H run_1:hotel~undo", "F run_1:flight~undo"]
    crash_everywhere(trip)


def test_code_goes_on_behind_a_failed_scope_and_in_its_replays() -> None:
    @workflow("trip")
    async def trip(ctx: Ctx) -> list[str]:
        try:
            async with ctx.scope() as saga:
                await saga.step("flight", lambda a: a.key, compensate=lambda output, a: a.key)
                raise PermanentFailure("no car")
        except PermanentFailure:
            both = await ctx.gather(ctx.step("a", lambda a: a.key), ctx.step("b", lambda a: a.key))
            number = ctx.random()
            return [*both, await ctx.step(f"c-{number}", lambda a: a.key)]

    report = crash_everywhere(trip)
    assert report.crashes > 20


def test_a_run_that_fails_undoes_its_effects() -> None:
    undone: list[str] = []

    @workflow("trip")
    async def trip(ctx: Ctx) -> None:
        await ctx.step("flight", lambda a: a.key, compensate=lambda output, a: undone.append(a.key))
        raise PermanentFailure("no car")

    with pytest.raises(StepFailed, match="no car"):
        run_workflow(trip)
    assert undone == ["run_1:flight~undo"]
    crash_everywhere(trip, expect="failed")


def test_children_and_after_effects() -> None:
    @workflow("ship")
    async def ship(ctx: Ctx, order: int) -> str:
        return await ctx.step("pack", lambda a: f"{a.key} {order}")

    @workflow("parent")
    async def parent(ctx: Ctx) -> list[str]:
        parcel = await ctx.child(ship, 7)
        mail = await ctx.after_effect("mail", {"parcel": parcel})
        return [parcel, mail]

    report = crash_everywhere(parent, also=[ship])
    assert report.output == ["run_2:pack 7", "run_1:mail"]


def test_branches_run_at_once_and_in_recorded_order() -> None:
    async def poll(ctx: Ctx, name: str, span: str) -> str:
        await ctx.sleep(span)
        return await ctx.step("poll", lambda a: f"{name} {a.key}")

    @workflow("both")
    async def both(ctx: Ctx) -> list[str]:
        return list(await ctx.gather(poll(ctx, "slow", "1h"), poll(ctx, "fast", "1s")))

    report = crash_everywhere(both)
    assert report.output == ["slow run_1:poll#2", "fast run_1:poll"]


def test_retries_follow_the_policy() -> None:
    tries = {"n": 0}

    def flaky(attempt: Attempt) -> str:
        tries["n"] += 1
        if attempt.number < 3:
            raise RetryableFailure("busy")
        return attempt.key

    @workflow("flaky")
    async def w(ctx: Ctx) -> str:
        return await ctx.step("call", flaky, retry=Retry(max_attempts=3, first="1s"))

    assert run_workflow(w) == "run_1:call"
    assert tries["n"] == 3

    @workflow("flaky")
    async def too_few(ctx: Ctx) -> str:
        return await ctx.step("call", flaky, retry=Retry.never())

    with pytest.raises(StepFailed, match="busy"):
        run_workflow(too_few)


def test_continue_as_new_begins_with_an_empty_log() -> None:
    @workflow("count")
    async def count(ctx: Ctx, left: int) -> str:
        key = await ctx.step("tick", lambda a: a.key)
        if left == 0:
            return key
        ctx.continue_as_new(left - 1)

    assert crash_everywhere(count, 2).output == "run_1.2:tick"


def test_a_plain_function_is_a_workflow_too() -> None:
    @workflow("plain", sync=True)
    def plain(ctx: SyncCtx, total: int) -> list[str]:
        keys = list(ctx.gather(lambda: ctx.step("a", lambda a: a.key), lambda: ctx.step("b", lambda a: a.key)))
        with ctx.scope() as saga:
            keys.append(saga.step("c", lambda a: f"{a.key} {total}"))
        ctx.sleep("1h")
        first = ctx.race(lambda: ctx.signal("never"), lambda: ctx.sleep("2h"))
        return [*keys, str(first)]

    report = crash_everywhere(plain, 5)
    assert report.output == ["run_1:a", "run_1:b", "run_1:c 5", "None"]


def test_asyncio_in_workflow_code_is_explained() -> None:
    @workflow("bad")
    async def bad(ctx: Ctx) -> None:
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match=r"not the context's.*test_crash_everywhere.py.*do it in a step"):
        crash_everywhere(bad)

    @workflow("zero")
    async def zero(ctx: Ctx) -> None:
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match=r"like asyncio.sleep\(0\).*not the context's"):
        crash_everywhere(zero)


async def _in_a_loop() -> None:
    crash_everywhere(order, Order("o-1", 5))


def test_it_runs_where_an_event_loop_is_running() -> None:
    asyncio.run(_in_a_loop())
