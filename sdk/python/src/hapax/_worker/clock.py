"""The clock that holds are compared with: it counts time spent suspended."""

from __future__ import annotations

import sys
import time


def _boot_clock() -> int | None:
    if sys.platform == "linux":
        return time.CLOCK_BOOTTIME
    if sys.platform == "darwin":
        return time.CLOCK_MONOTONIC  # goes on while a Mac sleeps
    return None


_CLOCK = _boot_clock()


def held_clock() -> float:
    """Seconds on a clock that goes on while the machine is suspended.

    Linux: `CLOCK_BOOTTIME`. macOS: `CLOCK_MONOTONIC`. Elsewhere `time.monotonic`, which goes on while Windows sleeps.
    """
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
