"""The code of one activation, which may have begun in another process."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

from .._core.machine import Machine, RunInfo, StepCode
from .._definitions import Workflow
from .._failures import UnknownFailure, failure_of
from .._json import RawJson, dumps

Json = dict[str, Any]
RunAttempt = Callable[[StepCode, Json], Awaitable[Json]]


class Differs(Exception):
    """The code does not do again what it did before."""


class Conversation:
    """Brings the code to where it was, then tells it what is new."""

    def __init__(
        self, turns: list[Json], messages: list[Json], workflow: Workflow[Any, Any], now_ms: Callable[[], int]
    ) -> None:
        self._turns = turns
        self._messages = messages
        self._kinds: dict[int, str] = {}
        self._begins: list[tuple[StepCode, Json]] = []
        self._unknown: list[Json] = []
        activate = activate_of(turns, messages)
        first: list[Json] = turns[0]["messages"] if turns else messages
        pages = [record for message in first if message["type"] == "log" for record in message["log"]]
        self._log: list[Json] = [*activate.get("log", []), *pages]
        run = activate["run"]
        prefix = activate.get("keyPrefix", run)
        info = RunInfo(
            run, workflow.name, workflow.version, activate.get("workspace", ""), prefix, activate.get("fence", 0)
        )
        given = activate.get("input")
        self.machine = Machine(
            info,
            lambda machine: workflow.begin(machine, given),
            workflow.encode_output,
            clock=now_ms,
            entropy=random.SystemRandom().random,
            values=_values_of(turns),
        )

    async def carry_on(self, run: RunAttempt, on_abort: Callable[[int, int], None]) -> list[Json]:
        """Plays the turns again, then carries out the messages. Returns what is new."""
        try:
            for turn in self._turns:
                self._play_again(turn, on_abort)
            self._hear(self._messages, on_abort)
            await asyncio.gather(*(self._attempt(run, code, message) for code, message in self._begins))
            return [*self._unknown, *self.machine.take_items()]
        except Differs as error:
            return [{"violation": str(error)}]
        finally:
            # A plain function waits in a thread, which must end.
            self.machine.drop()

    def _play_again(self, turn: Json, on_abort: Callable[[int, int], None]) -> None:
        self._hear(turn["messages"], on_abort)
        self._begins = []
        for item in turn["items"]:
            if "outcome" in item:
                outcome = {name: item[name] for name in ("output", "failure", "answer") if name in item}
                op = item["outcome"]
                self.machine.ended(op, self._kinds.get(op, "effect"), item["attempt"], outcome)
        before = [_canonical(item) for item in turn["items"]]
        now = [_canonical(item) for item in [*self._unknown, *self.machine.take_items()]]
        self._unknown = []
        for place in range(max(len(before), len(now))):
            was = before[place] if place < len(before) else "nothing more"
            does = now[place] if place < len(now) else "nothing more"
            if was != does:
                raise Differs(f"the code did {was} before, and now does {does}")

    def _hear(self, messages: list[Json], on_abort: Callable[[int, int], None]) -> None:
        machine = self.machine
        for message in messages:
            kind = message["type"]
            if kind == "activate":
                machine.start(self._log)
            elif kind == "resolved":
                machine.resolved(message["op"], message)
            elif kind == "attempt":
                self._kinds[message["op"]] = message["do"]
                code = machine.attempt(message)
                if code is None:
                    missing = UnknownFailure(f"operation {message['op']} has no code to run", code="invalid")
                    outcome = {"outcome": message["op"], "attempt": message["attempt"], "failure": failure_of(missing)}
                    self._unknown.append(outcome)
                else:
                    self._begins.append((code, message))
            elif kind == "abort":
                for attempt in machine.abort(message["op"], message.get("attempt")):
                    on_abort(attempt.op, attempt.number)
            elif kind == "stop":
                machine.stop()

    async def _attempt(self, run: RunAttempt, code: StepCode, message: Json) -> None:
        outcome = await run(code, message)
        self.machine.ended(message["op"], message["do"], message["attempt"], outcome)


def activate_of(turns: list[Json], messages: list[Json]) -> Json:
    """The message that began the activation."""
    first: list[Json] = turns[0]["messages"] if turns else messages
    if not first or first[0]["type"] != "activate":
        raise ValueError("the first message about a run is `activate`")
    return first[0]


def _values_of(turns: list[Json]) -> dict[int, RawJson]:
    """Values that the code made for itself, by operation."""
    items = [item for turn in turns for item in turn["items"]]
    return {item["op"]: RawJson.of(item["value"]) for item in items if item.get("do") == "value"}


def _canonical(item: Json) -> str:
    """Text that is the same for the same item, whatever the order of its members."""
    return json.dumps(json.loads(dumps(item)), sort_keys=True)


__all__ = ["Conversation", "Json", "activate_of"]
