"""A trip: three bookings, undone last first if one of them fails. A plain function this time."""

from __future__ import annotations

from dataclasses import dataclass

from hapax import Attempt, Hapax, PermanentFailure, StepFailed, SyncCtx, Worker, workflow

BOOKED: dict[str, str] = {}
"""Stands for the systems of an airline, a hotel and a car rental. They honour keys."""


@dataclass
class Trip:
    id: str
    cars_left: int = 0


def book(attempt: Attempt, what: str) -> str:
    BOOKED[attempt.key] = what
    return attempt.key


def cancel(booking: str, attempt: Attempt) -> None:
    """Undoes a booking. `booking` is what the step returned."""
    attempt.ensure_still_held()
    BOOKED.pop(booking, None)


def rent_car(attempt: Attempt, trip: Trip) -> str:
    key = attempt.key  # the rental is asked under it, so asking twice books one car
    if trip.cars_left == 0:
        raise PermanentFailure("no car is left", code="sold_out")
    BOOKED[key] = "car"
    return key


@workflow("trip", version=1, sync=True)
def trip(ctx: SyncCtx, trip: Trip) -> str:
    try:
        with ctx.scope() as saga:
            saga.step("flight", lambda attempt: book(attempt, "flight"), compensate=cancel)
            saga.step("hotel", lambda attempt: book(attempt, "hotel"), compensate=cancel)
            saga.step("car", lambda attempt: rent_car(attempt, trip), compensate=cancel)
    except StepFailed as failure:
        # Flight and hotel are cancelled by now.
        return f"no trip: {failure.message}"
    return "booked"


async def main() -> None:
    async with Hapax() as client, Worker(client, workflows=[trip]):
        print(await (await client.start(trip, Trip("t-1"), key="trip-1")).result(timeout="30s"))


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
