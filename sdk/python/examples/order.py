"""An order that charges a card at a provider that honours idempotency keys.

Try it:

    hapax dev --stub &                # a server, and a stub payment provider on 127.0.0.1:7272
    export HAPAX_API_KEY=$(cat .hapax/api-key)
    python order.py
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from dataclasses import dataclass
from decimal import Decimal

from hapax import Attempt, Ctx, Hapax, PermanentFailure, Retry, Worker, workflow

PROVIDER = os.environ.get("PROVIDER_URL", "http://127.0.0.1:7272")


@dataclass
class Order:
    id: str
    total: Decimal


@dataclass
class Receipt:
    order: str
    charge: str


def charge_card(attempt: Attempt, order: Order) -> str:
    """Charges the card. It blocks, so Hapax runs it in a thread."""
    if order.total <= 0:
        raise PermanentFailure("there is nothing to pay", code="nothing_to_pay")
    request = urllib.request.Request(
        f"{PROVIDER}/charges",
        data=json.dumps({"amount": str(order.total)}).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": attempt.key},
    )
    attempt.ensure_still_held()  # right before anything leaves the process
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["id"]


@workflow("order", version=1)
async def order(ctx: Ctx, order: Order) -> Receipt:
    charge = await ctx.step(
        "charge", lambda attempt: charge_card(attempt, order), timeout="30s", retry=Retry(max_attempts=5)
    )
    await ctx.after_effect("receipts", {"order": order.id, "charge": charge})
    return Receipt(order.id, charge)


async def main() -> None:
    async with Hapax() as client, Worker(client, workflows=[order], instance="order-0"):
        handle = await client.start(order, Order("4711", Decimal("19.90")), key="order-4711")
        print("started" if handle.created else "was there", handle.id)
        print(await handle.result(timeout="30s"))


if __name__ == "__main__":
    asyncio.run(main())
