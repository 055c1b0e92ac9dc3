"""One attempt at an effect, as the code of a step sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ._failures import AttemptCancelled


class Attempt:
    """One attempt at an effect: its key, its number, its fence, and whether it may go on."""

    def __init__(
        self,
        key: str,
        number: int,
        fence: int,
        *,
        timeout: float | None = None,
        still_held: Callable[[], bool] | None = None,
        on_key_read: Callable[[], None] | None = None,
    ) -> None:
        self._key = key
        self.number = number
        """Number of the attempt, from 1."""
        self.fence = fence
        """Number that rises with every takeover. Send it to receivers that reject lower ones."""
        self.timeout = timeout
        """Seconds that the attempt may take, if limited."""
        self._still_held = still_held
        self._on_key_read = on_key_read
        # One thread writes it once, others read it.
        self._is_cancelled = False
        self._watchers: list[Callable[[], None]] = []
        self._why = "the run was lost"

    @property
    def key(self) -> str:
        """Idempotency key of the effect. It is the same for every attempt; send it to the provider."""
        if self._on_key_read is not None:
            self._on_key_read()
        return self._key

    @property
    def is_cancelled(self) -> bool:
        """Whether the attempt is to stop. For code that blocks."""
        return self._is_cancelled

    async def cancelled(self) -> None:
        """Ends when the attempt is to stop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

        self._watchers.append(wake)
        if self._is_cancelled:
            wake()
        await future

    def ensure_still_held(self) -> None:
        """Raises `AttemptCancelled` unless this worker may send the effect now.

        Call it right before anything leaves the process.
        """
        if self._is_cancelled:
            raise AttemptCancelled(f"attempt {self.number} of {self._key} must not go on: {self._why}")
        if self._still_held is not None and not self._still_held():
            raise AttemptCancelled(
                f"attempt {self.number} of {self._key} must not go on: the worker has not heard from the server "
                "in time, so another may have taken over"
            )

    def cancel(self, why: str) -> None:
        """Tells the code to stop."""
        self._why = why
        self._is_cancelled = True
        for watcher in list(self._watchers):
            watcher()


@dataclass(frozen=True)
class ProbeAnswer:
    """What a probe found out: whether the effect happened, and its output."""

    answer: Literal["happened", "did_not_happen", "unknown"]
    output: Any = None

    @classmethod
    def happened(cls, output: Any = None) -> ProbeAnswer:
        """The effect happened, with this output."""
        return cls("happened", output)

    @classmethod
    def did_not_happen(cls) -> ProbeAnswer:
        """The provider does not know the key."""
        return cls("did_not_happen")

    @classmethod
    def unknown(cls) -> ProbeAnswer:
        """The provider cannot tell."""
        return cls("unknown")
