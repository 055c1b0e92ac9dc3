"""The worker that `hapax bench workers --worker 'python sdk/python/bench/steps.py'` measures.

It finds the server in HAPAX_URL and HAPAX_API_KEY.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from hapax import Ctx, Hapax, Worker, Workflow

NAMES = ["reserve", "charge", "ship", "mail", "book"]


async def give(number: int) -> int:
    return number


async def take_steps(ctx: Ctx, job: dict[str, Any]) -> int:
    order = int(job["order"])
    total = 0
    for nth in range(int(job["steps"])):
        total += await ctx.step(NAMES[nth % len(NAMES)], partial(give, order + nth))
    return total


async def main() -> None:
    async with Hapax() as client:
        await Worker(client, workflows=[Workflow("bench-steps", 1, take_steps)], concurrency=256).run()


if __name__ == "__main__":
    asyncio.run(main())
