"""Runs user code: attempts at effects, probes, undos, tasks and actions."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .._attempt import Attempt, ProbeAnswer
from .._codec import plain
from .._core.machine import StepCode
from .._definitions import Action, Task, awaited, call_step, call_undo, is_async
from .._durations import to_seconds
from .._failures import AttemptCancelled, PermanentFailure, Rejected, failure_of
from .._json import RawJson, payload
from .._limits import MAX_MESSAGE_CHARS
from .telemetry import attempt_context, log_fields, logger

Json = dict[str, Any]
NOTHING = RawJson("null")


@dataclass(eq=False)
class RunningCode:
    """User code that is under way."""

    message: Json
    attempt: Attempt
    task: asyncio.Task[None] | None = None
    is_unwanted: bool = False
    """The server said that its outcome does not count any more, except as evidence."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])

    is_in_thread: bool = False

    def stop(self, why: str) -> None:
        """Tells the code to stop. A thread cannot be stopped; it looks at its attempt."""
        self.attempt.cancel(why)
        if self.task is not None and not self.is_in_thread:
            self.task.cancel(why)


class CodeRunner:
    """Runs coroutines on the event loop, and plain functions in threads."""

    def __init__(self, concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="hapax step")

    async def effect(self, code: StepCode, running: RunningCode) -> Json:
        """Runs an attempt at a step. Returns its outcome."""
        message, attempt = running.message, running.attempt
        do = message["do"]
        if do == "probe":
            return await self._probe(code, running)
        if do == "undo":
            undo = code.compensate
            if undo is None:
                missing = PermanentFailure("the code gives no compensation for this step", code="no_compensation")
                return {"failure": failure_of(missing)}
            output = plain(message.get("output"))
            return await self._outcome(running, undo, lambda: call_undo(undo, output, attempt), is_undo=True)
        return await self._outcome(running, code.effect, lambda: call_step(code.effect, attempt))

    async def task(self, found: Task, running: RunningCode) -> Json:
        """Runs a task of a document."""
        try:
            call = found.bind(running.message.get("input"), running.attempt)
        except PermanentFailure as failure:
            return {"failure": failure.to_wire()}
        return await self._outcome(running, found.fn, call)

    async def action(self, found: Action, running: RunningCode) -> Json:
        """Runs an action of an entity workflow."""
        call = found.bind(running.message, running.attempt)
        return await self._outcome(running, found.fn, call)

    async def _probe(self, code: StepCode, running: RunningCode) -> Json:
        probe = code.probe
        if probe is None:
            return {"answer": "unknown"}
        outcome = await self._outcome(running, probe, lambda: probe(running.attempt), is_probe=True)
        return outcome if "answer" in outcome else {"answer": "unknown"}

    async def _outcome(
        self,
        running: RunningCode,
        fn: Callable[..., Any],
        call: Callable[[], Any],
        *,
        is_undo: bool = False,
        is_probe: bool = False,
    ) -> Json:
        message, attempt = running.message, running.attempt
        name = str(message.get("id") or message.get("name"))
        try:
            with attempt_context(f"hapax.step {name}", message.get("trace"), running.fields):
                output = await self._within_timeout(running, self._call(running, fn, call))
                if is_probe:
                    return _probe_outcome(output)
                return {"output": NOTHING} if is_undo else _output(name, output)
        except _NotBegun as not_begun:
            return {"failure": {"message": str(not_begun), "class": "retryable", "code": "not_begun"}}
        except Rejected as rejected:
            return {"rejected": str(rejected)}
        except asyncio.CancelledError as error:
            why = str(error) or "cancelled"
            return {"failure": {"message": f"the attempt was stopped: {why}", "class": "unknown", "code": "stopped"}}
        except (TimeoutError, asyncio.TimeoutError) as error:
            wire = failure_of(error)
            return {"failure": {**wire, "code": "timed_out"} if attempt.is_cancelled else wire}
        except Exception as error:
            logger.info("%s failed: %s", name, error, extra=log_fields(running.fields))
            return {"failure": failure_of(error)}

    async def _within_timeout(self, running: RunningCode, call: Any) -> Any:
        timeout = running.message.get("timeout")
        if timeout is None:
            return await call
        # The server's own timeout decides. This one tells the code in time.
        loop = asyncio.get_running_loop()
        timer = loop.call_later(to_seconds(timeout), running.stop, "its timeout has passed")
        try:
            return await call
        finally:
            timer.cancel()

    async def _call(self, running: RunningCode, fn: Callable[..., Any], call: Callable[[], Any]) -> Any:
        if is_async(fn):
            return await _WhileHeld(running, call())
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        running.is_in_thread = True
        result = await loop.run_in_executor(self._pool, lambda: context.run(_checked, running, call))
        running.is_in_thread = False
        return await _WhileHeld(running, result) if inspect.isawaitable(result) else result

    def close(self) -> None:
        """Takes no more work. Threads that still run are not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _output(name: str, output: Any) -> Json:
    try:
        return {"output": payload(output)}
    except (ValueError, TypeError, RecursionError) as error:
        # It happened, but its answer cannot be kept.
        text = f"the output of {name} cannot be stored: {error}"
        return {"failure": {"message": text[:MAX_MESSAGE_CHARS], "class": "unknown", "code": "invalid_output"}}


class _NotBegun(Exception):
    """The hold had passed before the code was entered, so nothing happened."""


def _checked(running: RunningCode, call: Callable[[], Any]) -> Any:
    """Enters the code if the worker may."""
    try:
        running.attempt.ensure_still_held()
    except AttemptCancelled as error:
        raise _NotBegun(str(error)) from None
    return call()


class _WhileHeld:
    """Enters a coroutine, and resumes it after each of its awaits, only while the worker may."""

    def __init__(self, running: RunningCode, coroutine: Any) -> None:
        self._running = running
        self._coroutine = coroutine if inspect.iscoroutine(coroutine) else awaited(coroutine)

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        try:
            _checked(self._running, lambda: None)
        except _NotBegun:
            steps.close()
            raise
        try:
            waits_for = next(steps)
            while True:
                try:
                    sent = yield waits_for
                    self._running.attempt.ensure_still_held()
                except BaseException as error:
                    waits_for = steps.throw(error)
                else:
                    waits_for = steps.send(sent)
        except StopIteration as ended:
            return ended.value


def _probe_outcome(output: Any) -> Json:
    if not isinstance(output, ProbeAnswer):
        raise TypeError("a probe must return ProbeAnswer.happened(output), .did_not_happen() or .unknown()")
    if output.answer == "happened":
        return {"answer": "happened", "output": payload(output.output)}
    return {"answer": output.answer}
