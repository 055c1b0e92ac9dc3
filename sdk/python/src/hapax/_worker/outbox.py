"""What a session has to hand in, and what becomes of it if nobody takes it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from .._core.machine import Machine
from .._limits import MAX_BODY_BYTES, MAX_ITEMS, MAX_LATE_OUTCOMES, MAX_RUNS_PER_COMMIT
from .attempts import RunningCode

Json = dict[str, Any]


@dataclass(eq=False)
class Slot:
    """A run that the worker keeps."""

    run: str
    activation: str
    machine: Machine
    trace: str | None
    uses_thread: bool = False
    running: dict[tuple[int, str, int], RunningCode] = field(default_factory=dict[tuple[int, str, int], RunningCode])
    waiting: list[Json] | None = None
    """Messages that came while the log was read, or `None` if it is read."""


class Outbox:
    """Items of runs, results of tasks and actions, and late outcomes, until the server has confirmed them."""

    def __init__(self, limits: Json, late: list[Json]) -> None:
        self.work = asyncio.Event()
        """Set when there is something to hand in."""
        self._max_body = min(MAX_BODY_BYTES, limits.get("maxBodyBytes", MAX_BODY_BYTES))
        self._max_items = min(MAX_ITEMS, limits.get("maxItems", MAX_ITEMS))
        self._max_runs = min(MAX_RUNS_PER_COMMIT, limits.get("maxRunsPerCommit", MAX_RUNS_PER_COMMIT))
        self._dirty: OrderedDict[tuple[str, str], Slot] = OrderedDict()
        self._leaving: list[tuple[str, str, list[Json]]] = []
        self._results: list[Json] = [{"late": each} for each in late]
        self._late = late
        """What succeeded and was not taken by a session. It outlives this one."""
        late.clear()
        self._unconfirmed: dict[tuple[Any, ...], Json] = {}
        """Successes whose commit the server has not confirmed."""
        self._is_closed = False
        if self._results:
            self.work.set()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to hand in."""
        return not (self._dirty or self._leaving or self._results)

    def mark(self, slot: Slot) -> None:
        """Notes that the machine of a run may have items."""
        if slot.machine.has_items:
            self._dirty[slot.run, slot.activation] = slot
            self.work.set()

    def leave(self, run: str, activation: str, items: list[Json]) -> None:
        """Items of a run that the worker does not keep any more."""
        self._leaving.append((run, activation, items))
        self.work.set()

    def add_result(self, result: Json) -> None:
        """The result of a task or an action."""
        self._results.append(result)
        self.work.set()

    def remember(self, name: tuple[Any, ...], running: RunningCode, output: Any) -> None:
        """Keeps a success until the server has confirmed it."""
        attempt = running.attempt
        late = {"key": running.message["key"], "attempt": attempt.number, "fence": attempt.fence, "output": output}
        if self._is_closed:
            self._late.append(late)
        else:
            self._unconfirmed[name] = late

    def collect(self) -> Json | None:
        """The body of the next commit, within the limits of one request. `None` if there is nothing."""
        self.work.clear()
        runs: list[Json] = []
        results: list[Json] = []
        room, items = self._max_body // 2, self._max_items
        while self._leaving and len(runs) < self._max_runs and room > 0:
            run, activation, left = self._leaving.pop(0)
            runs.append({"run": run, "activation": activation, "items": left})
            room -= sum(map(_size_of, left))
        while self._dirty and len(runs) < self._max_runs and room > 0 and items > 0:
            _, slot = self._dirty.popitem(last=False)
            taken = slot.machine.take_items()
            if taken:
                runs.append({"run": slot.run, "activation": slot.activation, "items": taken})
                items -= len(taken)
                room -= sum(map(_size_of, taken))
        while self._results and len(results) < self._max_runs and room > 0:
            results.append(self._results.pop(0))
            room -= _size_of(results[-1].get("late", results[-1]))
        if not runs and not results:
            return None
        return {"runs": runs, **({"results": results} if results else {})}

    def confirm(self, body: Json) -> None:
        """The server has taken a commit."""
        for run in body["runs"]:
            for item in run["items"]:
                if "outcome" in item:
                    self._unconfirmed.pop((run["run"], run["activation"], item["outcome"], item["attempt"]), None)
        for result in body.get("results", []):
            self._unconfirmed.pop((result.get("call"),), None)

    def refused(self, body: Json) -> None:
        """The session is over, and has not taken a commit: late outcomes wait for the next session."""
        self._late.extend(result["late"] for result in body.get("results", []) if "late" in result)

    def close(self) -> None:
        """The session is over. What succeeded and is not confirmed becomes late."""
        self._is_closed = True
        self._late.extend(result["late"] for result in self._results if "late" in result)
        self._late.extend(self._unconfirmed.values())
        del self._late[:-MAX_LATE_OUTCOMES]


def _size_of(item: Json) -> int:
    return 64 + sum(len(value.text) for value in item.values() if hasattr(value, "text"))
