"""An invoice whose steps call Python code: an action of an entity workflow."""

from __future__ import annotations

import asyncio
from typing import Any

from hapax import ActionCall, Entity, Hapax, Rejected, Worker, action

INVOICES: dict[str, Any] = {
    "name": "invoices",
    "module": "default",
    "entity": "invoice",
    "statusTypes": ["open", "closing", "closed"],
    "steps": [
        {
            "stepId": 1,
            "stepKey": "close",
            "status": "open",
            "claimState": ["closing", "open"],
            "successfulState": "closed",
            "action": {"admin": "CloseInvoiceUseCase"},
        }
    ],
}


@action("CloseInvoiceUseCase")
async def close_invoice(entity: Entity, call: ActionCall) -> dict[str, Any]:
    """Closes an invoice in the books. `call.attempt.key` makes it safe to repeat."""
    if entity.data.get("disputed"):
        raise Rejected("a disputed invoice cannot be closed")
    return {"booking": call.attempt.key, "by": call.requester}


async def main() -> None:
    async with Hapax() as client, Worker(client, actions=[close_invoice]):
        await client.apply_entity_workflow(INVOICES)
        await client.create_entity("invoice", "INV-1", "open", {"total": 500})
        taken = await client.transition("invoice", "INV-1", "close", key="close-INV-1", requester="admin")
        print(taken.operation.status, taken.entity and taken.entity.status, taken.operation.result)


if __name__ == "__main__":
    asyncio.run(main())
