"""One session with the server: a poll lane, a commit lane, and the runs that the worker holds."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from .._attempt import Attempt
from .._client import Hapax
from .._core.machine import Machine, RunInfo, kind_of
from .._definitions import Action, Task, Workflow
from .._durations import to_seconds
from .._json import dumps, loads
from .._limits import MAX_CACHED_THREADS, MAX_EARLY_MESSAGES
from .._problems import Problem, SessionReplaced, Unreachable, problem_of
from .attempts import CodeRunner, RunningCode
from .clock import held_clock
from .outbox import Outbox, Slot
from .telemetry import log_fields, logger

Json = dict[str, Any]
FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 2.0


_LOGGED = ("type", "run", "activation", "op", "id", "do", "attempt", "why", "reason", "call", "name")
"""What a debug log shows of a message: no payloads."""


class SessionGone(Exception):
    """The server does not know the session any more."""


@dataclass
class Offer:
    """The code that a worker offers."""

    workflows: Mapping[tuple[str, int], Workflow[Any, Any]]
    tasks: Mapping[str, Task]
    actions: Mapping[str, Action]


class Session:
    """Talks to the server for one session."""

    def __init__(
        self,
        client: Hapax,
        opened: Json,
        opened_at: float,
        offer: Offer,
        runner: CodeRunner,
        *,
        concurrency: int,
        max_cached_runs: int,
        late: list[Json],
    ) -> None:
        self.id: str = opened["sessionId"]
        self.lease_for = to_seconds(opened["leaseFor"])
        self.heard_at = held_clock()
        self.hold_until = opened_at
        """When the right to begin effects ends. Answers to polls and commits give it."""
        self._client = client
        self._offer = offer
        self._runner = runner
        self._concurrency = concurrency
        self._max_cached_runs = max_cached_runs
        self._poll_for = to_seconds(opened["pollFor"])
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._threads = 0
        self._early: OrderedDict[tuple[str, str], list[Json]] = OrderedDict()
        """Messages of activations that are still on their way in the other lane."""
        self._outbox = Outbox(opened.get("limits", {}), late)
        self._code: set[RunningCode] = set()
        self._calls: dict[str, RunningCode] = {}
        self._held_back: list[tuple[Callable[[], None], RunningCode]] = []
        self._quiet = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_stopping = False
        self._is_ending = False
        self._requests = 0
        self._is_committing = False

    # Lanes.

    async def serve(self) -> None:
        """Works until the session ends or `drain` is called. Raises `SessionGone` or `SessionReplaced`."""
        lanes = [
            asyncio.create_task(lane, name=f"hapax {name}")
            for name, lane in (("poll", self._poll()), ("commit", self._commit()), ("hold", self._watch_hold()))
        ]
        try:
            done, _ = await asyncio.wait(lanes, return_when=asyncio.FIRST_COMPLETED)
            for lane in done:
                lane.result()
        finally:
            # The flag ends a lane whose cancellation is swallowed by `asyncio.wait_for` before Python 3.12.
            self._is_ending = True
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def _poll(self) -> None:
        while not self._is_ending:
            await self._exchange("poll", {}, self._poll_for + 15.0)

    async def _commit(self) -> None:
        while not self._is_ending:
            await self._outbox.work.wait()
            body = self._outbox.collect()
            while body is not None and not self._is_ending:
                self._is_committing = True
                try:
                    await self._exchange("commit", body, 30.0)
                    self._outbox.confirm(body)
                finally:
                    self._is_committing = False
                body = self._outbox.collect()
            self._look_quiet()

    async def _exchange(self, verb: str, body: Json, timeout: float) -> None:
        """Sends one poll or commit until an answer comes: always the same body, with the same number."""
        self._requests += 1
        data = dumps({"sequence": self._requests, "free": self._free(), **body}).encode()
        path = f"/api/v1/worker-sessions/{quote(self.id, safe='')}/{verb}"
        sent_at = held_clock()
        backoff = FIRST_BACKOFF
        while True:
            try:
                answer = await self._client.send_once("POST", path, data, timeout=timeout)
                if answer.status < 400:
                    found = cast("Json", loads(answer.body))
                    break
                problem = problem_of(answer.status, answer.body)
                self._judge(problem, body)
                logger.warning("%s refused, sending it again: %s", verb, problem)
                backoff = max(backoff, problem.retry_after or 0.0)
            except (Unreachable, ValueError) as error:
                logger.warning("%s: no answer, sending it again: %s", verb, error)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(LONGEST_BACKOFF, backoff * 2)
        self.heard_at = held_clock()
        self.hold_until = max(self.hold_until, sent_at + to_seconds(found["holdFor"]))
        for message in found["messages"]:
            try:
                self._receive(message)
            except Exception:
                logger.exception("a message cannot be understood")
        self._begin_held_back()
        self._evict()

    def _judge(self, problem: Problem, body: Json) -> None:
        """Raises what ends the session. Returns if the same may be sent again."""
        is_passing = problem.is_retryable or problem.status >= 500 or problem.status == 429
        is_over = problem.code in ("session_unknown", "session_replaced") or problem.status == 404
        if is_passing and not is_over:
            return
        self._outbox.refused(body)
        if problem.code == "session_replaced":
            raise SessionReplaced(str(problem))
        raise SessionGone(str(problem)) from problem

    async def _watch_hold(self) -> None:
        """Tells running code when the hold has passed."""
        while not self._is_ending:
            left = self.hold_until - held_clock()
            if left > 0:
                await asyncio.sleep(min(left, 1.0))
                continue
            for running in list(self._code):
                if not running.attempt.is_cancelled and running.task is not None:
                    logger.warning("the hold has passed", extra=log_fields(running.fields))
                    running.stop("the worker has not heard from the server in time")
            await asyncio.sleep(0.05)

    # Messages.

    def _receive(self, message: Json) -> None:
        kind = message["type"]
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("received %s", {name: message[name] for name in _LOGGED if name in message})
        if kind == "task" or kind == "action":
            self._call(message)
            return
        if kind == "activate":
            self._activate(message)
            return
        if "call" in message:
            # Nobody waits for a task or an action any more.
            self._stop_unwanted(self._calls.get(message["call"]), str(message.get("why")))
            return
        slot = self._slots.get(message["run"])
        if slot is None or slot.activation != message["activation"]:
            # It may have overtaken its activation, which comes in the other lane.
            self._early.setdefault((message["run"], message["activation"]), []).append(message)
            while len(self._early) > MAX_EARLY_MESSAGES:
                self._early.popitem(last=False)
            return
        self._slots.move_to_end(slot.run)
        if slot.waiting is not None and kind != "drop":
            slot.waiting.append(message)
        else:
            self._handle(slot, message)

    def _activate(self, message: Json) -> None:
        run = message["run"]
        known = self._slots.get(run)
        if known is not None:
            if known.activation == message["activation"]:
                return
            self._forget(known, "another activation has begun")
        workflow = self._offer.workflows.get((message["workflow"], message["version"]))
        if workflow is None:
            logger.error("the server sent a run of %s@%s", message["workflow"], message["version"])
            self._outbox.leave(run, message["activation"], [{"evicted": True}])
            return
        info = RunInfo(
            run,
            workflow.name,
            workflow.version,
            message.get("workspace", ""),
            message.get("keyPrefix", run),
            message.get("fence", 0),
        )
        given = message.get("input")
        machine = Machine(
            info,
            lambda machine: workflow.begin(machine, given),
            workflow.encode_output,
            clock=lambda: round(time.time() * 1_000),
            entropy=random.SystemRandom().random,
        )
        slot = Slot(run, message["activation"], machine, message.get("trace"), uses_thread=not workflow.is_async)
        self._slots[run] = slot
        self._threads += slot.uses_thread
        if message.get("logMore"):
            slot.waiting = []
            self._spawn(self._read_log(slot, message["log"]))
        else:
            self._start(slot, message["log"])

    async def _read_log(self, slot: Slot, log: list[Json]) -> None:
        """Reads the rest of a long log, page by page."""
        path = f"/api/v1/worker-sessions/{quote(self.id, safe='')}/runs/{quote(slot.run, safe='')}/log"
        backoff = FIRST_BACKOFF
        while self._slots.get(slot.run) is slot:
            query = f"?activation={quote(slot.activation, safe='')}&after={len(log)}"
            try:
                answer = await self._client.send_once("GET", path + query)
                if answer.status >= 400:
                    problem = problem_of(answer.status, answer.body)
                    if not problem.is_retryable and problem.status < 500:
                        logger.warning("the log of %s cannot be read: %s", slot.run, problem)
                        return
                    raise Unreachable(str(problem))
            except Unreachable as error:
                logger.warning("the log of %s: %s", slot.run, error)
                await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
                backoff = min(LONGEST_BACKOFF, backoff * 2)
                continue
            page = cast("Json", loads(answer.body))
            records = cast("list[Json]", page.get("log", page.get("records", [])))
            log.extend(records)
            if not page.get("logMore", page.get("more", False)) or not records:
                self._start(slot, log)
                return

    def _start(self, slot: Slot, log: list[Json]) -> None:
        self._guarded(slot, lambda: slot.machine.start(log))
        waiting, slot.waiting = slot.waiting or [], None
        waiting.extend(self._early.pop((slot.run, slot.activation), []))
        for message in waiting:
            if self._slots.get(slot.run) is slot:
                self._handle(slot, message)

    def _handle(self, slot: Slot, message: Json) -> None:
        kind = message["type"]
        if kind == "attempt":
            self._attempt(slot, message)
        elif kind == "resolved":
            self._guarded(slot, lambda: slot.machine.resolved(message["op"], message))
        elif kind == "abort":
            for attempt in slot.machine.abort(message["op"], message.get("attempt")):
                self._stop_unwanted(slot.running.get((attempt.op, attempt.do, attempt.number)), str(message.get("why")))
        elif kind == "stop":
            slot.machine.stop()
        elif kind == "drop":
            if message.get("problem"):
                logger.error("the server refused %s: %s", slot.run, message["problem"])
            self._forget(slot, str(message.get("why")))
        else:
            logger.warning("unknown message %s", kind)

    def _guarded(self, slot: Slot, act: Callable[[], None]) -> None:
        """Runs workflow code. A fault of the SDK itself must not end the worker."""
        try:
            act()
        except Exception:
            logger.exception("the SDK failed in %s", slot.run)
            failed = {"violation": "the worker's SDK failed; see its log"}
            self._outbox.leave(slot.run, slot.activation, [failed])
            self._forget(slot, "violation")
        self._outbox.mark(slot)

    def _forget(self, slot: Slot, why: str) -> None:
        """Drops a run. What its running code still brings is evidence."""
        slot.machine.drop()
        if self._slots.get(slot.run) is slot:
            self._remove(slot)
        for running in slot.running.values():
            self._stop_unwanted(running, why)

    def _stop_unwanted(self, running: RunningCode | None, why: str) -> None:
        if running is not None:
            running.is_unwanted = True
            running.stop(why)

    def _evict(self) -> None:
        """Forgets the runs that were used longest ago, if there are too many."""
        if not self._is_crowded():
            return
        for slot in list(self._slots.values()):
            is_idle = not slot.running and slot.waiting is None and not slot.machine.has_items
            is_one_too_many = len(self._slots) > self._max_cached_runs or slot.uses_thread
            if is_idle and is_one_too_many and not slot.machine.is_over:
                slot.machine.evict()
                self._remove(slot)
                self._outbox.mark(slot)
                if not self._is_crowded():
                    return

    def _is_crowded(self) -> bool:
        return len(self._slots) > self._max_cached_runs or self._threads > MAX_CACHED_THREADS

    def _remove(self, slot: Slot) -> None:
        del self._slots[slot.run]
        self._threads -= slot.uses_thread

    # Attempts and calls.

    def _attempt(self, slot: Slot, message: Json) -> None:
        name = (message["op"], message["do"], message["attempt"])
        if name in slot.running:
            return
        code = slot.machine.attempt(message)
        if code is None:
            logger.error("an attempt of %s names operation %s, which has no code", slot.run, message["op"])
            failure = {"message": "the worker has no code for this operation", "class": "retryable"}
            slot.machine.ended(*name, {"failure": failure})
            self._outbox.mark(slot)
            return
        message = {"id": f"op {message['op']}", "trace": slot.trace, **message}
        running = self._running_code(message, {"run": slot.run, "step": message["id"]})
        slot.running[name] = running

        async def run() -> None:
            outcome = await self._runner.effect(code, running)
            slot.running.pop(name, None)
            self._attempt_ended(slot, running, outcome)

        self._begin(running, run)

    def _attempt_ended(self, slot: Slot, running: RunningCode, outcome: Json) -> None:
        op, do, number = running.message["op"], running.message["do"], running.message["attempt"]
        self._code.discard(running)
        is_current = self._slots.get(slot.run) is slot
        is_evidence = "output" in outcome and do == "effect"
        if is_evidence:
            self._outbox.remember((slot.run, slot.activation, op, number), running, outcome["output"])
        if running.is_unwanted and not is_evidence:
            slot.machine.attempts.pop((op, do, number), None)
        elif is_current:
            self._guarded(slot, lambda: slot.machine.ended(op, do, number, outcome))
        else:
            item = {"outcome": op, "attempt": number, **kind_of(do), **outcome}
            self._outbox.leave(slot.run, slot.activation, [item])
        self._look_quiet()

    def _call(self, message: Json) -> None:
        """A task or an action."""
        name = message["name"]
        offered = self._offer.tasks.get(name) if message["type"] == "task" else self._offer.actions.get(name)
        if offered is None:
            failure = {"message": f"this worker has no {message['type']} {name}", "class": "retryable"}
            self._outbox.add_result({"call": message["call"], "failure": failure})
            return
        running = self._running_code(message, {"step": name})
        self._calls[message["call"]] = running

        async def run() -> None:
            if isinstance(offered, Task):
                outcome = await self._runner.task(offered, running)
            else:
                outcome = await self._runner.action(offered, running)
            self._code.discard(running)
            self._calls.pop(message["call"], None)
            if "output" in outcome:
                self._outbox.remember((message["call"],), running, outcome["output"])
            self._outbox.add_result({"call": message["call"], **outcome})
            self._look_quiet()

        self._begin(running, run)

    def _running_code(self, message: Json, fields: Json) -> RunningCode:
        timeout = message.get("timeout")
        attempt = Attempt(
            message["key"],
            message.get("attempt", 1),
            message.get("fence", 0),
            timeout=None if timeout is None else to_seconds(timeout),
            still_held=self._is_held,
        )
        fields = {**fields, "effect_key": message["key"], "attempt": attempt.number}
        return RunningCode(message, attempt, fields=fields)

    def _begin(self, running: RunningCode, run: Callable[[], Any]) -> None:
        """Begins user code if the hold lasts, else when the server has given a new one."""

        def begin() -> None:
            running.task = self._spawn(run())

        self._code.add(running)
        if self._is_held():
            begin()
        else:
            self._held_back.append((begin, running))

    def _begin_held_back(self) -> None:
        if not self._is_held():
            return
        held_back, self._held_back = self._held_back, []
        for begin, running in held_back:
            if running.is_unwanted:
                self._code.discard(running)
            else:
                begin()

    def _is_held(self) -> bool:
        return held_clock() < self.hold_until

    def _free(self) -> int:
        return 0 if self._is_stopping else max(0, self._concurrency - len(self._code))

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("the worker failed inside", exc_info=task.exception())

    # The end.

    async def drain(self, timeout: float) -> None:
        """Takes no more work, and waits until what runs has ended and is handed in."""
        self._is_stopping = True
        self._look_quiet()
        try:
            await asyncio.wait_for(self._quiet.wait(), timeout)
        except (TimeoutError, asyncio.TimeoutError):
            logger.warning("%d attempts did not end in time", len(self._code))

    def _look_quiet(self) -> None:
        if self._is_stopping and not self._code and self._outbox.is_empty and not self._is_committing:
            self._quiet.set()

    async def delete(self) -> None:
        """Gives everything back at once."""
        path = f"/api/v1/worker-sessions/{quote(self.id, safe='')}"
        try:
            await self._client.send_once("DELETE", path, timeout=5.0)
        except Unreachable as error:
            logger.warning("the session could not be ended, its lease will: %s", error)

    def close(self) -> None:
        """Stops everything. What succeeded and is not confirmed becomes late."""
        for slot in list(self._slots.values()):
            self._forget(slot, "the session is over")
        for running in list(self._code):
            running.stop("the session is over")
        self._outbox.close()
