"""Durations: `timedelta`, seconds, or text such as `30s` and `1h30m`."""

from __future__ import annotations

import datetime as dt
import re
from typing import TypeAlias

Duration: TypeAlias = "dt.timedelta | float | int | str"
"""A span of time: a `timedelta`, seconds as a number, or text such as `500ms`, `30s`, `24h` or `7d`."""

_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_TEXT = re.compile(r"(?:[0-9]+w)?(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?(?:[0-9]+ms)?")
_PART = re.compile(r"([0-9]+)(ms|[wdhms])")


def to_millis(duration: Duration) -> int:
    """The span in whole milliseconds."""
    if isinstance(duration, dt.timedelta):
        millis = round(duration.total_seconds() * 1_000)
    elif isinstance(duration, str):
        if not duration or _TEXT.fullmatch(duration) is None:
            raise ValueError(f"{duration!r} is not a duration; write it like 500ms, 30s, 1h30m or 7d")
        millis = sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(duration))
    else:
        millis = round(duration * 1_000)
    if millis < 0:
        raise ValueError(f"the duration {duration} is negative")
    return millis


def to_text(duration: Duration) -> str:
    """The span as the server reads it."""
    if isinstance(duration, str):
        to_millis(duration)
        return duration
    millis = to_millis(duration)
    seconds, rest = divmod(millis, 1_000)
    return f"{seconds}s" if rest == 0 else f"{millis}ms"


def to_seconds(duration: Duration) -> float:
    """The span in seconds."""
    return to_millis(duration) / 1_000
