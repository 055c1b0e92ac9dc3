"""The public worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from .._client import Hapax
from .._definitions import Action, Task, Workflow
from .._durations import Duration, to_seconds
from .._json import dumps, loads
from .._problems import SessionReplaced, Unreachable, problem_of
from .._version import VERSION
from .attempts import CodeRunner
from .clock import held_clock
from .health import HealthServer
from .session import FIRST_BACKOFF, LONGEST_BACKOFF, Json, Offer, Session, SessionGone
from .telemetry import logger


class Worker:
    """Runs workflows, tasks and actions in this process.

        worker = Worker(client, workflows=[order], concurrency=64)
        await worker.run()

    `instance` names one worker slot over restarts, such as the name of a pod of a StatefulSet: a new worker of the
    same instance takes over at once. `concurrency` is how many attempts run at the same time. `max_cached_runs` is
    how many suspended functions are kept. `health` is `(host, port)` of an endpoint with `/healthz` and `/readyz`.
    SIGTERM and SIGINT let running attempts end for up to `shutdown_timeout`.
    """

    def __init__(
        self,
        client: Hapax,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        tasks: Iterable[Task] = (),
        actions: Iterable[Action] = (),
        name: str | None = None,
        instance: str | None = None,
        concurrency: int = 64,
        max_cached_runs: int = 2_000,
        shutdown_timeout: Duration = 10,
        health: tuple[str, int] | None = None,
        handle_signals: bool = True,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self._client = client
        self._offer = Offer(
            {(found.name, found.version): found for found in workflows},
            {found.name: found for found in tasks},
            {found.name: found for found in actions},
        )
        if not (self._offer.workflows or self._offer.tasks or self._offer.actions):
            raise ValueError("a worker needs at least one workflow, task or action")
        self._name = name or instance or f"python-{socket.gethostname()}-{os.getpid()}"
        self._instance = instance
        self._concurrency = concurrency
        self._max_cached_runs = max_cached_runs
        self._shutdown_timeout = to_seconds(shutdown_timeout)
        self._health = None if health is None else HealthServer(*health, self._is_healthy, self._is_ready)
        self._handle_signals = handle_signals
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()
        self._session: Session | None = None
        self._late: list[Json] = []
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Works until `stop` is called or a signal comes.

        Raises `SessionReplaced` if another worker of the same instance takes over, and a `Problem` if the server
        refuses the worker, for example for its key.
        """
        runner = CodeRunner(self._concurrency)
        with self._signals():
            try:
                if self._health is not None:
                    await self._health.start()
                while not self._stopping.is_set():
                    await self._one_session(runner)
            finally:
                runner.close()
                if self._health is not None:
                    await self._health.close()

    def stop(self) -> None:
        """Begins to stop: the worker takes nothing new, and `run` returns when what runs has ended."""
        self._stopping.set()

    async def ready(self) -> None:
        """Ends when a session is open."""
        await self._ready.wait()

    @property
    def health_port(self) -> int | None:
        """Port of the health endpoint."""
        return None if self._health is None else self._health.port

    async def __aenter__(self) -> Worker:
        """Runs in the background until the block ends."""
        self._task = asyncio.create_task(self.run())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait([self._task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self.stop()
        await self._task

    async def _one_session(self, runner: CodeRunner) -> None:
        found = await self._open()
        if found is None:
            return
        opened, opened_at = found
        session = Session(
            self._client,
            opened,
            opened_at,
            self._offer,
            runner,
            concurrency=self._concurrency,
            max_cached_runs=self._max_cached_runs,
            late=self._late,
        )
        logger.info("session %s is open as %s", session.id, self._name)
        self._session = session
        self._ready.set()
        serving = asyncio.create_task(session.serve(), name="hapax session")
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                draining = asyncio.create_task(session.drain(self._shutdown_timeout))
                await asyncio.wait([serving, draining], return_when=asyncio.FIRST_COMPLETED)
                draining.cancel()
            if serving.done():
                serving.result()
            else:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving
                await session.delete()
        except SessionGone as gone:
            logger.warning("the session is over, opening another: %s", gone)
            await self._pause(FIRST_BACKOFF)
        except SessionReplaced:
            logger.warning("another worker has taken over instance %s", self._instance)
            raise
        finally:
            serving.cancel()
            stopping.cancel()
            session.close()
            self._session = None

    async def _open(self) -> tuple[Json, float] | None:
        """Opens a session. Tries again while the server is away."""
        body = {
            "name": self._name,
            "instance": self._instance,
            "sdk": "python",
            "sdkVersion": VERSION,
            "host": socket.gethostname(),
            "concurrency": self._concurrency,
            "workflows": [{"name": name, "version": version} for name, version in self._offer.workflows],
            "tasks": list(self._offer.tasks),
            "actions": list(self._offer.actions),
        }
        data = dumps({name: value for name, value in body.items() if value is not None}).encode()
        backoff = FIRST_BACKOFF
        while not self._stopping.is_set():
            opened_at = held_clock()
            try:
                answer = await self._client.send_once("POST", "/api/v1/worker-sessions", data, timeout=15.0)
            except Unreachable as error:
                logger.warning("no session yet: %s", error)
            else:
                if answer.status < 400:
                    return loads(answer.body), opened_at
                problem = problem_of(answer.status, answer.body)
                if not problem.is_retryable and problem.status < 500 and problem.status != 429:
                    raise problem
                logger.warning("no session yet: %s", problem)
                backoff = max(backoff, problem.retry_after or 0.0)
            await self._pause(backoff)
            backoff = min(LONGEST_BACKOFF, backoff * 2)
        return None

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds * random.uniform(0.5, 1.0))

    def _is_healthy(self) -> bool:
        session = self._session
        return session is not None and held_clock() - session.heard_at < session.lease_for

    def _is_ready(self) -> bool:
        return self._is_healthy() and not self._stopping.is_set()

    @contextlib.contextmanager
    def _signals(self) -> Any:
        loop = asyncio.get_running_loop()
        added: list[int] = []
        if self._handle_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                    loop.add_signal_handler(number, self.stop)
                    added.append(number)
        try:
            yield
        finally:
            for number in added:
                loop.remove_signal_handler(number)
