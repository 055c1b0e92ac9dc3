"""Runs the language-neutral fixtures of the protocol against the core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixture_script import Return, run_async, run_sync
from hapax._codec import decode
from hapax._core.context import Ctx
from hapax._core.machine import Machine, RunInfo
from hapax._core.sync_context import SyncCtx
from hapax._json import ExactNumber, RawJson, dumps, loads

FOLDER = Path(__file__).resolve().parents[2] / "fixtures"
FILES = sorted(FOLDER.glob("*.json"))


def test_there_are_fixtures() -> None:
    assert len(FILES) >= 50


class Driver:
    """What a worker does around the machine, without its input and output."""

    def __init__(self, case: dict[str, Any], sync: bool) -> None:
        self.case = case
        self.sync = sync
        self.machine: Machine | None = None

    def begin(self, machine: Machine) -> Any:
        given = decode(self.case.get("input"), RawJson)
        variables = {"input": loads(given.text)}
        if self.sync:

            def body() -> Any:
                try:
                    return run_sync(SyncCtx(machine), self.case["script"], variables)
                except Return as end:
                    return end.value

            return body

        async def coroutine() -> Any:
            try:
                return await run_async(Ctx(machine), self.case["script"], variables)
            except Return as end:
                return end.value

        return coroutine()

    def message(self, message: dict[str, Any]) -> dict[str, Any]:
        kind = message["type"]
        result: dict[str, Any] = {"begin": [], "abort": [], "forgotten": False}
        if kind == "activate":
            self.machine = Machine(
                RunInfo(
                    "run_1", message.get("workflow", ""), message.get("version", 1), key_prefix=message["keyPrefix"]
                ),
                self.begin,
                RawJson.of,
                clock=lambda: self.case["now"],
                entropy=lambda: float(self.case["random"]),
            )
            self.machine.start(message["log"])
            return result
        machine = self.machine
        assert machine is not None
        if kind == "attempt":
            if machine.attempt(message) is not None:
                result["begin"].append(message["op"])
        elif kind == "resolved":
            machine.resolved(message["op"], message)
        elif kind == "ended":
            outcome = {name: message[name] for name in ("output", "failure", "answer") if name in message}
            running = [a for a in machine.attempts.values() if a.op == message["op"] and a.number == message["attempt"]]
            do = running[0].do if running else "effect"
            machine.ended(message["op"], do, message["attempt"], outcome)
        elif kind == "abort":
            result["abort"] = [attempt.op for attempt in machine.abort(message["op"], message.get("attempt"))]
        elif kind == "stop":
            machine.stop()
        elif kind == "evict":
            machine.evict()
            result["forgotten"] = True
        elif kind == "drop":
            result["abort"] = [attempt.op for attempt in machine.attempts.values()]
            machine.drop()
            result["forgotten"] = True
        else:
            raise AssertionError(kind)
        return result


def canonical(value: Any) -> Any:
    """The value with each number as its text, so that they count as they are written."""
    if isinstance(value, ExactNumber):
        return ("number", value.text)
    if isinstance(value, dict):
        return {name: canonical(item) for name, item in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value


def assert_items(given: list[Any], wanted: list[Any]) -> None:
    given = [canonical(loads(dumps(item))) for item in given]
    wanted = [canonical(item) for item in wanted]
    if len(wanted) == 1 and "violation" in wanted[0]:
        assert len(given) == 1 and "violation" in given[0], given
        for part in wanted[0]["violation"]:
            assert part in given[0]["violation"]
        return
    assert given == wanted


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_core_answers_as_the_fixture_says(file: Path, sync: bool) -> None:
    case = loads(file.read_text())
    if sync and case["name"] == "foreign_await":
        pytest.skip("a plain function waits for nothing by await")
    driver = Driver(case, sync)
    for turn in case["turns"]:
        messages = turn["in"] if isinstance(turn["in"], list) else [turn["in"]]
        result: dict[str, Any] = {"begin": [], "abort": [], "forgotten": False}
        for message in messages:
            told = driver.message(message)
            result = {
                "begin": result["begin"] + told["begin"],
                "abort": result["abort"] + told["abort"],
                "forgotten": result["forgotten"] or told["forgotten"],
            }
        assert driver.machine is not None
        assert_items(driver.machine.take_items(), turn["items"])
        for name in ("begin", "abort", "forgotten"):
            assert result[name] == turn.get(name, False if name == "forgotten" else []), json.dumps(str(turn))
