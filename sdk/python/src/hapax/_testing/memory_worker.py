"""A worker without a network: one message, one attempt, one commit after the other, with a fault at one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .._attempt import Attempt, ProbeAnswer
from .._core.machine import Machine, RunInfo, StepCode
from .._definitions import Workflow, awaited, call_step, call_undo
from .._failures import failure_of
from .._json import RawJson, dumps, loads
from .memory_server import MemoryServer, wire_items
from .records import Json


class Crash(BaseException):
    """The process dies here."""


@dataclass(frozen=True)
class Place:
    """A position in an execution: the `nth` time that this point is reached."""

    point: str
    step: str | None
    nth: int


@dataclass
class Trace:
    """What happened in one execution."""

    places: list[Place] = field(default_factory=list[Place])
    counts: dict[tuple[str, str | None], int] = field(default_factory=dict[tuple[str, "str | None"], int])
    entered: dict[str, int] = field(default_factory=dict[str, int])
    keys_read: set[str] = field(default_factory=set[str])
    fault: Place | None = None
    is_zombie: bool = False
    has_faulted: bool = False
    entered_before: int = 0

    def reach(self, point: str, step: str | None = None) -> None:
        """Notes a place, and raises the fault if it is to happen here."""
        name = (point, step)
        self.counts[name] = self.counts.get(name, 0) + 1
        place = Place(point, step, self.counts[name])
        if place == self.fault and not self.has_faulted:
            self.has_faulted = True
            self.entered_before = sum(self.entered.values())
            raise Crash
        if not self.has_faulted:
            self.places.append(place)


class MemoryWorker:
    """Runs the code of workflows against a `MemoryServer`."""

    def __init__(self, server: MemoryServer, workflows: Iterable[Workflow[Any, Any]], trace: Trace) -> None:
        self.server = server
        self.trace = trace
        self._workflows = {(found.name, found.version): found for found in workflows}
        self._machines: dict[tuple[str, str], Machine] = {}
        self._entropy = 0
        self._unsent: tuple[str, str, list[Json]] | None = None

    async def turn(self) -> bool:
        """Handles what the server has to say. Returns whether there was something."""
        messages = self.server.poll()
        for message in messages:
            self.trace.reach("before_message")
            await self._handle(message)
        return bool(messages)

    def come_back(self) -> None:
        """Hands in what this worker was about to hand in when it stopped."""
        if self._unsent is not None:
            self.server.commit(*self._unsent)

    async def _handle(self, message: Json) -> None:
        name = (message["run"], message["activation"])
        kind = message["type"]
        if kind == "activate":
            self._machines[name] = self._activate(message)
        machine = self._machines.get(name)
        if machine is None:
            return
        if kind == "resolved":
            machine.resolved(message["op"], message)
        elif kind == "attempt":
            await self._attempt(name, machine, message)
        elif kind == "abort":
            machine.abort(message["op"], message.get("attempt"))
        elif kind == "stop":
            machine.stop()
        elif kind == "drop":
            machine.drop()
            del self._machines[name]
        self._commit(name, machine)

    def _activate(self, message: Json) -> Machine:
        workflow = self._workflows[message["workflow"], message["version"]]
        info = RunInfo(
            message["run"],
            workflow.name,
            workflow.version,
            message["workspace"],
            message["keyPrefix"],
            message["fence"],
        )
        given = loads(dumps(message["input"]))
        machine = Machine(
            info,
            lambda machine: workflow.begin(machine, given),
            workflow.encode_output,
            clock=lambda: self.server.now,
            entropy=self._random,
        )
        machine.start(loads(dumps(message["log"])))
        return machine

    def _random(self) -> float:
        # Another number in every execution of the code, so that code that does not record it is found.
        self._entropy += 1
        return (self._entropy * 0.618_033_988_749_895) % 1.0

    async def _attempt(self, name: tuple[str, str], machine: Machine, message: Json) -> None:
        code = machine.attempt(message)
        if code is None:
            return
        step = message["id"] if message["do"] != "undo" else f"{message['id']}~undo"
        is_effect = message["do"] != "probe"
        if is_effect:
            self.trace.reach("before_effect", step)
            self.trace.entered[step] = self.trace.entered.get(step, 0) + 1
        outcome = await run_code(code, message, lambda: self.trace.keys_read.add(step))
        if is_effect:
            try:
                self.trace.reach("after_effect", step)
            except Crash:
                if self.trace.is_zombie:
                    machine.ended(message["op"], message["do"], message["attempt"], outcome)
                    self._unsent = (*name, wire_items(machine.take_items()))
                raise
        machine.ended(message["op"], message["do"], message["attempt"], outcome)

    def _commit(self, name: tuple[str, str], machine: Machine) -> None:
        if not machine.has_items:
            return
        items = wire_items(machine.take_items())
        try:
            self.trace.reach("before_commit")
        except Crash:
            self._unsent = (*name, items) if self.trace.is_zombie else None
            raise
        self.server.commit(*name, items)
        self.trace.reach("after_commit")

    def close(self) -> None:
        """Forgets all code."""
        for machine in self._machines.values():
            machine.drop()


async def run_code(code: StepCode, message: Json, on_key_read: Any = None) -> Json:
    """Runs the code of an attempt. Returns what the worker hands in."""
    attempt = Attempt(message["key"], message["attempt"], message.get("fence", 0), on_key_read=on_key_read)
    try:
        if message["do"] == "undo":
            output = loads(dumps(message.get("output")))
            from .._codec import plain

            await awaited(call_undo(code.compensate or _nothing, plain(output), attempt))
            return {"output": RawJson("null")}
        if message["do"] == "probe":
            assert code.probe is not None
            return probe_outcome(await awaited(code.probe(attempt)))
        return {"output": RawJson.of(await awaited(call_step(code.effect, attempt)))}
    except Exception as error:
        if message["do"] == "probe":
            return {"answer": "unknown"}
        return {"failure": failure_of(error)}


def probe_outcome(answer: ProbeAnswer) -> Json:
    """The answer of a probe as an outcome."""
    if answer.answer == "happened":
        return {"answer": "happened", "output": RawJson.of(answer.output)}
    return {"answer": answer.answer}


def _nothing() -> None:
    return None
