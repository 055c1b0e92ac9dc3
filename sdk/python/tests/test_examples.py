"""The examples, crashed everywhere in memory."""

from __future__ import annotations

import importlib.util
import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hapax import Attempt, StepFailed
from hapax.testing import World, crash_everywhere, run_workflow

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_an_order_charges_under_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("order")
    charged: set[str] = set()

    def charge_card(attempt: Attempt, order: Any) -> str:
        assert order.total == Decimal("19.90")
        charged.add(attempt.key)
        return "ch_1"

    monkeypatch.setattr(example, "charge_card", charge_card)
    report = crash_everywhere(example.order, example.Order("4711", Decimal("19.90")))
    report.expect(charge="at_least_once")
    assert charged == {"run_1:charge"}


def test_an_order_of_nothing_fails_without_a_request() -> None:
    example = load("order")
    with pytest.raises(StepFailed, match="nothing to pay") as failed:
        run_workflow(example.order, example.Order("4711", Decimal(0)))
    assert failed.value.code == "nothing_to_pay"


def test_a_trip_without_a_car_leaves_nothing_booked() -> None:
    example = load("saga")
    report = crash_everywhere(example.trip, example.Trip("t-1"), repeatable=["flight~undo", "hotel~undo"])
    assert report.output == "no trip: no car is left" and example.BOOKED == {}
    assert run_workflow(example.trip, example.Trip("t-1", cars_left=1)) == "booked"
    assert sorted(example.BOOKED.values()) == ["car", "flight", "hotel"]


def test_an_expense_waits_for_a_person_or_three_days() -> None:
    example = load("approval")
    expense = example.Expense("e-7", 100, "ada")

    def approve(world: World) -> None:
        world.resolve("key:expense:e-7", {"approved": True, "by": "ada"})

    report = crash_everywhere(example.expense, expense, outside=approve)
    assert report.output == "approved by ada, paid as run_1:pay"
    report.expect(pay="at_least_once")
    assert run_workflow(example.expense, expense) == "nobody decided in time"


def test_an_agent_refunds_once() -> None:
    example = load("agent")
    example.BANK.clear()
    report = crash_everywhere(example.support, example.Ticket("t-9", "broken", 2_500), repeatable=["think", "think#2"])
    report.expect(refund="exactly_once")
    assert report.output == "Done: refunded 2500 cents"


def test_an_agent_asks_a_person_for_large_refunds() -> None:
    example = load("agent")
    ticket = example.Ticket("t-9", "broken", 250_000)
    answer = run_workflow(example.support, ticket, outside=lambda world: world.resolve("key:refund:t-9", False))
    assert answer == "Done: a person declined the refund"
    assert "not come in time" in run_workflow(example.support, ticket)
