"""Random workflows, crashed everywhere: no replay may take another path."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hapax import Attempt, Ctx, PermanentFailure, ProbeAnswer, SyncCtx, workflow
from hapax.testing import CrashReport, crash_everywhere

Plan = list[Any]
LEAVES = ("step", "sleep", "value", "failing", "mail", "undoable", "claimed")
BRANCHES = ("all", "race", "scope", "shield", "torn")


def plan_of(rng: random.Random, depth: int) -> Plan:
    """A random list of things to do."""
    found: Plan = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(LEAVES if depth == 0 or rng.random() < 0.5 else BRANCHES)
        if kind in ("all", "race"):
            found.append((kind, [plan_of(rng, depth - 1) for _ in range(rng.randint(2, 3))]))
        elif kind in ("scope", "shield", "torn"):
            found.append((kind, plan_of(rng, depth - 1)))
        else:
            found.append((kind, rng.choice(["a", "b"]), rng.randint(1, 90)))
    return found


def decline(attempt: Attempt) -> None:
    raise PermanentFailure(f"no {attempt.key}")


async def run(ctx: Ctx, plan: Plan) -> int:
    done = 0
    for kind, *rest in plan:
        done += 1
        if kind == "step":
            await ctx.step(rest[0], lambda a: a.key)
        elif kind == "sleep":
            await ctx.sleep(rest[1])
        elif kind == "value":
            done += round(ctx.random() * 2)
        elif kind == "mail":
            await ctx.after_effect(rest[0])
        elif kind == "undoable":
            await ctx.step(rest[0], lambda a: a.key, compensate=lambda output, a: a.key)
        elif kind == "claimed":
            await ctx.step(rest[0], lambda a: a.key, claimed=True, probe=lambda a: ProbeAnswer.happened(a.key))
        elif kind == "failing":
            try:
                await ctx.step(rest[0], decline)
            except PermanentFailure:
                raise AssertionError("a step fails with StepFailed") from None
            except Exception:
                done += 1
        elif kind == "all":
            await ctx.gather(*[run(ctx, branch) for branch in rest[0]])
        elif kind == "race":
            done += await ctx.race(*[run(ctx, branch) for branch in rest[0]])
        elif kind == "scope":
            async with ctx.scope() as inner:
                done += await run(inner, rest[0])
        elif kind == "shield":
            async with ctx.shield() as inner:
                done += await run(inner, rest[0])
        else:
            try:
                async with ctx.scope() as inner:
                    await run(inner, rest[0])
                    raise PermanentFailure("torn")
            except PermanentFailure:
                done += 1
    return done


def run_sync(ctx: SyncCtx, plan: Plan) -> int:
    done = 0
    for kind, *rest in plan:
        done += 1
        if kind in ("step", "claimed", "failing"):
            ctx.step(rest[0], lambda a: a.key)
        elif kind == "undoable":
            ctx.step(rest[0], lambda a: a.key, compensate=lambda output, a: a.key)
        elif kind == "sleep":
            ctx.sleep(rest[1])
        elif kind == "value":
            done += round(ctx.random() * 2)
        elif kind == "mail":
            ctx.after_effect(rest[0])
        elif kind == "all":
            ctx.gather(*[lambda branch=branch: run_sync(ctx, branch) for branch in rest[0]])
        elif kind == "race":
            done += ctx.race(*[lambda branch=branch: run_sync(ctx, branch) for branch in rest[0]])
        elif kind in ("scope", "shield"):
            with ctx.scope() if kind == "scope" else ctx.shield() as inner:
                done += run_sync(inner, rest[0])
        else:
            try:
                with ctx.scope() as inner:
                    run_sync(inner, rest[0])
                    raise PermanentFailure("torn")
            except PermanentFailure:
                done += 1
    return done


@pytest.mark.parametrize("seed", range(30))
def test_a_random_workflow_survives_every_crash(seed: int) -> None:
    plan = plan_of(random.Random(seed), 2)

    @workflow("random")
    async def declared(ctx: Ctx) -> int:
        try:
            return await run(ctx, plan)
        except PermanentFailure:
            return -1

    must_be_repeatable(crash_everywhere(declared, check=False))


def must_be_repeatable(report: CrashReport) -> None:
    """A crash may decide a race otherwise. Then steps run that did not run before, and nothing else."""
    assert report.usual_end == "COMPLETED"
    known = {name for name, effect in report.effects.items() if effect.usual == 0}
    findings = [
        finding for finding in report.findings if not any(f"`{name}` ran twice" in str(finding) for name in known)
    ]
    assert findings == []


@pytest.mark.parametrize("seed", range(12))
def test_a_random_plain_function_survives_every_crash(seed: int) -> None:
    plan = plan_of(random.Random(seed), 1)

    @workflow("random", sync=True)
    def declared(ctx: SyncCtx) -> int:
        return run_sync(ctx, plan)

    must_be_repeatable(crash_everywhere(declared, check=False))
