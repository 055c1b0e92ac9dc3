"""Branches of workflow code, driven by hand: coroutines, and plain functions in threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from .._failures import ForeignAwaitable
from .deferred import Deferred


class Closed(BaseException):
    """Ends the code of a branch that nobody waits for any more."""


class Fiber(ABC):
    """One branch of the code. It runs until it waits for a `Deferred`, or ends."""

    def __init__(self, parent: Fiber | None) -> None:
        self.parent = parent
        self.result: Deferred[Any] = Deferred()
        self.is_closed = False

    @abstractmethod
    def advance(self) -> Any:
        """Runs the code as far as it goes. Returns what it waits for; `result` is settled if it has ended."""

    @abstractmethod
    def close(self) -> None:
        """Ends the code where it stands."""

    def is_within(self, ancestor: Fiber) -> bool:
        """Whether this is the branch, or a branch of it."""
        fiber: Fiber | None = self
        while fiber is not None:
            if fiber is ancestor:
                return True
            fiber = fiber.parent
        return False


class GuardLoop:
    """Stands in for the event loop while workflow code runs, so that asyncio calls are detected."""

    def __init__(self, on_use: Callable[[str], ForeignAwaitable]) -> None:
        self._on_use = on_use

    def __getattr__(self, name: str) -> Any:
        raise self._on_use(f"the event loop ({name})")


class CoroutineFiber(Fiber):
    """A branch that is a coroutine."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], parent: Fiber | None, guard: GuardLoop) -> None:
        super().__init__(parent)
        self._coroutine = coroutine
        self._guard: Any = guard

    def advance(self) -> Any:
        before = asyncio._get_running_loop()  # pyright: ignore
        asyncio._set_running_loop(self._guard)  # pyright: ignore
        try:
            return self._coroutine.send(None)
        except StopIteration as ended:
            self.result.settle(ended.value)
        except BaseException as error:
            self.result.settle(error=error)
        finally:
            asyncio._set_running_loop(before)  # pyright: ignore
        return None

    def close(self) -> None:
        self.is_closed = True
        before = asyncio._get_running_loop()  # pyright: ignore
        asyncio._set_running_loop(self._guard)  # pyright: ignore
        try:
            # Code that waits in a `finally` cannot be given anything any more.
            with contextlib.suppress(BaseException):
                self._coroutine.close()
        finally:
            asyncio._set_running_loop(before)  # pyright: ignore


class ThreadFiber(Fiber):
    """A branch that is a plain function. It has a thread, which runs only while `advance` waits for it."""

    def __init__(self, function: Callable[[], Any], parent: Fiber | None, name: str) -> None:
        super().__init__(parent)
        self._function = function
        self._may_run = threading.Semaphore(0)
        self._has_paused = threading.Semaphore(0)
        self._waits_for: Any = None
        self._thread: threading.Thread | None = None
        self._name = name

    def advance(self) -> Any:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"hapax {self._name}", daemon=True)
            self._thread.start()
        else:
            self._may_run.release()
        self._has_paused.acquire()
        return self._waits_for

    def _run(self) -> None:
        try:
            self.result.settle(self._function())
        except BaseException as error:
            self.result.settle(error=error)
        finally:
            self._waits_for = None
            self._has_paused.release()

    def wait_for(self, deferred: Deferred[Any]) -> Any:
        """Waits, in the thread of this branch."""
        if self.is_closed:
            raise Closed
        if not deferred.is_done:
            self._waits_for = deferred
            self._has_paused.release()
            self._may_run.acquire()
            if self.is_closed:
                raise Closed
        return deferred.taken()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._thread is not None and not self.result.is_done:
            self._may_run.release()
            self._has_paused.acquire()
