"""An agent that answers customers. Its refund tool is safe to repeat, and large refunds need a person.

Each thought and each tool call is a step, so a crash never asks the model twice for what it has said, and never
refunds twice. Put your model in place of `think`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hapax import Attempt, Ctx, Hapax, PermanentFailure, ProbeAnswer, StepFailed, Worker, workflow

MOST_TURNS = 10
NEEDS_A_PERSON = 10_000
"""Refunds of more cents than this are decided by a person."""

BANK: dict[str, int] = {}
"""Stands for a bank that ignores keys, but can be asked what it did."""


@dataclass
class Ticket:
    id: str
    text: str
    cents: int


@dataclass
class Thought:
    """What the model wants: to call a tool, or to answer."""

    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    answer: str = ""


async def think(ticket: Ticket, transcript: list[str]) -> Thought:
    """The model. This one refunds once and then answers."""
    if not transcript:
        return Thought("refund", {"cents": ticket.cents})
    return Thought(answer=f"Done: {transcript[-1]}")


async def refund(attempt: Attempt, cents: int) -> str:
    attempt.ensure_still_held()
    BANK[attempt.key] = cents
    return f"refunded {cents} cents"


async def find_refund(attempt: Attempt) -> ProbeAnswer:
    """After a crash in the middle, the bank is asked instead of refunding again."""
    if attempt.key in BANK:
        return ProbeAnswer.happened(f"refunded {BANK[attempt.key]} cents")
    return ProbeAnswer.did_not_happen()


async def use_tool(ctx: Ctx, ticket: Ticket, thought: Thought) -> str:
    if thought.tool != "refund":
        raise PermanentFailure(f"there is no tool {thought.tool}")
    cents = int(thought.arguments["cents"])
    if cents > NEEDS_A_PERSON:
        approved = await ctx.promise("approve-refund", key=f"refund:{ticket.id}", timeout="2d", returns=bool)
        if not approved:
            return "a person declined the refund"
    # Money that the model moves is claimed: it happens at most once, whatever crashes.
    return await ctx.step(
        "refund",
        lambda attempt: refund(attempt, cents),
        claimed=True,
        non_idempotent=True,
        probe=find_refund,
        timeout="30s",
        returns=str,
    )


@workflow("support", version=1)
async def support(ctx: Ctx, ticket: Ticket) -> str:
    transcript: list[str] = []
    for _ in range(MOST_TURNS):
        # Asking a model again is harmless, so this step needs no key.
        thought = await ctx.step("think", partial(think, ticket, list(transcript)), timeout="2m")
        if thought.tool is None:
            return thought.answer
        try:
            transcript.append(await use_tool(ctx, ticket, thought))
        except StepFailed as failure:
            transcript.append(f"the tool failed: {failure.message}")
    return "I pass this on to a colleague."


async def main() -> None:
    async with Hapax() as client, Worker(client, workflows=[support]):
        handle = await client.start(support, Ticket("t-9", "It arrived broken", 2_500), key="ticket-t-9")
        print(await handle.result(timeout="30s"))


if __name__ == "__main__":
    asyncio.run(main())
