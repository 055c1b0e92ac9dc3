"""What workflow code waits for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that workflow code can await. It is known once, and stays."""

    __slots__ = ("_error", "_value", "_watchers", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._watchers: list[Callable[[], None]] = []

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_done:
            yield self
        return self.taken()

    def taken(self) -> T:
        """The value, or its error."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    @property
    def error(self) -> BaseException | None:
        """The error, if it failed."""
        return self._error

    def watch(self, watcher: Callable[[], None]) -> None:
        """Calls `watcher` once the value is known."""
        if self.is_done:
            watcher()
        else:
            self._watchers.append(watcher)

    def settle(self, value: T | None = None, error: BaseException | None = None) -> None:
        """Makes the value known."""
        if self.is_done:
            return
        self.is_done, self._value, self._error = True, value, error
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()


class Group(Deferred[T]):
    """Several branches at once, as one value."""

    __slots__ = ("branches",)

    def __init__(self, branches: list[Deferred[Any]]) -> None:
        super().__init__()
        self.branches = branches


def with_branches(deferreds: list[Deferred[Any]]) -> list[Deferred[Any]]:
    """These, and all branches within them."""
    found: list[Deferred[Any]] = []
    for deferred in deferreds:
        found.append(deferred)
        if isinstance(deferred, Group):
            found.extend(with_branches(deferred.branches))
    return found
