"""The worker that the tests kill. Each effect appends a line to the file EFFECTS."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from hapax import (
    ActionCall,
    Attempt,
    Ctx,
    Entity,
    ExactJson,
    Hapax,
    RawJson,
    Rejected,
    SyncCtx,
    Worker,
    action,
    task,
    workflow,
)

EFFECTS = Path(os.environ.get("EFFECTS", "effects.txt"))


def effect(text: str) -> str:
    with EFFECTS.open("a") as file:
        file.write(text + "\n")
    return text


def hold(name: str) -> None:
    """Waits until the test has made a file of this name."""
    effect(f"waiting for {name}")
    while not (EFFECTS.parent / name).exists():
        time.sleep(0.005)


@workflow("five")
async def five(ctx: Ctx, input: dict[str, Any]) -> list[str]:
    keys: list[str] = []
    for number in range(5):
        keys.append(await ctx.step("work", lambda attempt: effect(attempt.key)))
        if number == input.get("holdAfter"):
            await ctx.step("hold", lambda attempt: hold("release"))
    return keys


@workflow("wire")
async def wire(ctx: Ctx) -> str:
    def send(attempt: Attempt) -> str:
        effect(attempt.key)
        hold("release")
        return "W-1"

    return await ctx.step("wire", send, claimed=True, timeout="1s")


@workflow("echo")
async def echo(ctx: Ctx, input: ExactJson) -> ExactJson:
    given = await ctx.step("give", lambda: input, returns=ExactJson)
    return await ctx.step("raw", lambda: RawJson.of(given), returns=ExactJson)


@workflow("everything", sync=True)
def everything(ctx: SyncCtx, input: dict[str, Any]) -> dict[str, Any]:
    number, at = ctx.random(), ctx.now()
    with ctx.scope() as saga:
        kept = saga.step("kept", lambda attempt: effect(attempt.key), compensate=lambda: effect("undone"))
    both = ctx.gather(lambda: ctx.step("a", lambda a: a.key), lambda: ctx.step("b", lambda a: a.key))
    first = ctx.select(word=lambda: ctx.signal("word"), late=lambda: ctx.sleep("1h"))
    ctx.sleep("10ms")
    promise = ctx.promise("paid", key=input["key"])
    paid = promise.result()
    child = ctx.child("five", {})
    assert ctx.random() != number and ctx.now() >= at
    return {"kept": kept, "both": list(both), "first": list(first), "paid": paid, "child": len(child), "id": promise.id}


@workflow("undo")
async def undo(ctx: Ctx) -> str:
    async def fail() -> None:
        from hapax import PermanentFailure

        raise PermanentFailure("no car", code="sold_out")

    try:
        async with ctx.scope() as saga:
            await saga.step("flight", lambda a: effect(a.key), compensate=lambda output, a: effect(f"undo {output}"))
            await saga.step("hotel", lambda a: effect(a.key), compensate=lambda output, a: effect(f"undo {output}"))
            await saga.step("car", fail)
    except Exception as failure:
        await ctx.step("after", lambda a: effect("after"))
        return str(failure)
    return "booked"


@workflow("flow")
async def flow(ctx: Ctx) -> str:
    """Its step has another name in each deploy."""
    await ctx.step(os.environ.get("STEP", "first"), lambda a: effect(a.key))
    return await ctx.signal("go", returns=str)


@workflow("large")
async def large(ctx: Ctx, input: dict[str, Any]) -> str:
    """Twice as long after each step."""

    async def double(text: str) -> str:
        return await ctx.step("double", lambda: text * 2, returns=str)

    return await double(await double(await double(input["text"])))


@workflow("dice")
async def dice(ctx: Ctx) -> None:
    await asyncio.sleep(1)


@task("double")
async def double(input: dict[str, Any]) -> dict[str, Any]:
    return {"n": input["n"] * 2}


@action("CloseInvoiceUseCase")
def close_invoice(entity: Entity, call: ActionCall) -> dict[str, Any]:
    if entity.data.get("disputed"):
        raise Rejected("a disputed invoice cannot be closed")
    return {"booking": effect(call.attempt.key), "n": call.input.get("n")}


async def main() -> None:
    instance = sys.argv[1] if len(sys.argv) > 1 else None
    async with Hapax() as client:
        worker = Worker(
            client,
            workflows=[five, wire, echo, everything, undo, flow, large, dice],
            tasks=[double],
            actions=[close_invoice],
            instance=instance,
        )
        serving = asyncio.create_task(worker.run())
        ready = asyncio.ensure_future(worker.ready())
        await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
        print(json.dumps({"ready": True}), flush=True)
        await serving


if __name__ == "__main__":
    if "HAPAX_WORKER_LOG" in os.environ:
        logging.basicConfig(level=os.environ["HAPAX_WORKER_LOG"], filename="worker.log")
    asyncio.run(main())
