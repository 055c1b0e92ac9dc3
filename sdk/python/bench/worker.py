"""A worker whose runs have five steps that do nothing, and a load for it.

    python bench/worker.py                                   # only the worker; prints one JSON line when it is ready
    python bench/worker.py --runs 2000 --outstanding 256     # also starts runs, and prints what it measured

It takes the server from HAPAX_URL and HAPAX_API_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
import uuid
from typing import Any

from hapax import Ctx, Hapax, Worker, Workflow


async def nothing() -> int:
    return 1


def workflow_of(name: str, steps: int, claimed: bool) -> Workflow[Any, int]:
    async def run(ctx: Ctx) -> int:
        total = 0
        for _ in range(steps):
            total += await ctx.step("step", nothing, claimed=claimed)
        return total

    return Workflow(name, 1, run)


async def load(client: Hapax, name: str, runs: int, outstanding: int, steps: int) -> dict[str, Any]:
    """Starts runs, so many at a time, and waits for their results."""
    latencies: list[float] = []
    left = iter(range(runs))
    batch = uuid.uuid4().hex

    async def keep_one_open() -> None:
        for number in left:
            began = time.perf_counter()
            handle = await client.start(name, key=f"{batch}-{number}")
            await handle.result(timeout="5m")
            latencies.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*[keep_one_open() for _ in range(outstanding)])
    took = time.perf_counter() - began
    latencies.sort()
    return {
        "runs": runs,
        "stepsPerRun": steps,
        "outstanding": outstanding,
        "seconds": round(took, 3),
        "stepsPerSecond": round(runs * steps / took, 1),
        "runMsP50": round(statistics.median(latencies) * 1_000, 2),
        "runMsP99": round(latencies[int(len(latencies) * 0.99)] * 1_000, 2),
        "cpuSeconds": round(time.process_time() - cpu, 3),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workflow", default="bench-steps")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--claimed", action="store_true", help="claim each step before it begins")
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--runs", type=int, default=0, help="how many runs to start; 0 only serves")
    parser.add_argument("--outstanding", type=int, default=256)
    parser.add_argument("--instance")
    parser.add_argument("--no-worker", action="store_true", help="only the load")
    options = parser.parse_args()
    workflow = workflow_of(options.workflow, options.steps, options.claimed)
    async with Hapax() as client:
        worker = Worker(client, workflows=[workflow], concurrency=options.concurrency, instance=options.instance)
        serving = None if options.no_worker else asyncio.create_task(worker.run())
        if serving is not None:
            await asyncio.wait([serving, asyncio.ensure_future(worker.ready())], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            print(json.dumps({"ready": True, "pid": os.getpid()}), flush=True)
        if options.runs:
            found = await load(client, options.workflow, options.runs, options.outstanding, options.steps)
            print(json.dumps(found), flush=True)
            worker.stop()
        if serving is not None:
            await serving


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
