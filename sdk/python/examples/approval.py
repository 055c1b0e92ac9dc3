"""An expense that a person approves, or that is rejected after three days."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hapax import Attempt, Ctx, Hapax, Worker, workflow


@dataclass
class Expense:
    id: str
    cents: int
    approver: str


@dataclass
class Decision:
    approved: bool
    by: str


async def ask(attempt: Attempt, expense: Expense, promise: str) -> None:
    """Sends a mail with a link that settles the promise, once per `attempt.key`."""
    print(f"to {expense.approver}: approve {expense.cents} cents? promise {promise}, mail {attempt.key}")


@workflow("expense", version=1)
async def expense(ctx: Ctx, expense: Expense) -> str:
    # Anybody who knows the key can settle it, also before the run gets here.
    approval = ctx.promise("approval", key=f"expense:{expense.id}", returns=Decision)
    await ctx.step("ask", lambda attempt: ask(attempt, expense, approval.id))
    decided, decision = await ctx.select(decision=approval, late=ctx.sleep("3d"))
    if decided == "late" or not isinstance(decision, Decision):
        return "nobody decided in time"
    if not decision.approved:
        return f"rejected by {decision.by}"
    reference = await ctx.step("pay", lambda attempt: attempt.key)
    return f"approved by {decision.by}, paid as {reference}"


async def main() -> None:
    async with Hapax() as client, Worker(client, workflows=[expense]):
        handle = await client.start(expense, Expense("e-7", 12_000, "ada"), key="expense-e-7")
        await client.resolve(Decision(True, "ada"), key="expense:e-7")
        print(await handle.result(timeout="30s"))


if __name__ == "__main__":
    asyncio.run(main())
