"""Refusals of the server as exceptions. Programs branch on the class, or on `code`."""

from __future__ import annotations

from typing import Any, cast

from ._durations import to_seconds
from ._json import loads, plain


class HapaxError(Exception):
    """Base of what the client raises."""


class Unreachable(HapaxError):
    """The server could not be reached, or hung up. Whether it did what was asked is unknown."""


class Problem(HapaxError):
    """The server refused. `code` is stable; the server explains it at `/errors/<code>`."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.code: str = str(body.get("code", "unknown"))
        self.title: str = str(body.get("title", ""))
        self.detail: str = str(body.get("detail", ""))
        self.is_retryable: bool = body.get("retryable") is True
        self.trace_id: str | None = body.get("traceId")
        self.body = body
        super().__init__(f"{self.code}: {self.detail or self.title or f'status {status}'}")

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next try, if the server said so."""
        wait = self.body.get("retryAfter")
        return None if wait is None else to_seconds(cast("str", wait))


class InvalidRequest(Problem):
    """400, 412, 413, 415, 422: the request breaks a rule. Nothing was stored."""


class Unauthorized(Problem):
    """401: no valid API key."""


class Forbidden(Problem):
    """403: the role of the key does not allow this."""


class NotFound(Problem):
    """404: there is no such thing in this workspace."""


class Conflict(Problem):
    """409, 410: it conflicts with what is there."""


class KeyConflict(InvalidRequest):
    """The idempotency key was used for something else. `differing_paths` says where it differs."""

    @property
    def differing_paths(self) -> list[str]:
        """JSON pointers to the differences."""
        return list(cast("list[str]", self.body.get("differingPaths", [])))


class Unavailable(Problem):
    """429, 5xx: not now."""


class RunFailed(HapaxError):
    """The run failed or was cancelled. `code` and `failure_class` are those of its failure."""

    def __init__(self, run_id: str, status: str, failure: dict[str, Any]) -> None:
        self.run_id = run_id
        self.status = status
        self.failure = failure
        self.code: str | None = failure.get("code")
        self.failure_class: str = str(failure.get("class", "unknown"))
        super().__init__(f"{run_id} is {status}: {failure.get('message', '')}")


class StillOpen(HapaxError):
    """The run has not ended in time. It goes on."""


class SessionReplaced(HapaxError):
    """Another worker with the same instance has taken over. This one has stopped."""


_CLASSES: dict[int, type[Problem]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Conflict,
    429: Unavailable,
}


def problem_of(status: int, body: bytes) -> Problem:
    """The exception for an answer."""
    try:
        found: Any = plain(loads(body))
    except ValueError:
        found = None
    wire = (
        cast("dict[str, Any]", found) if isinstance(found, dict) else {"detail": body[:200].decode("utf-8", "replace")}
    )
    if wire.get("code") in ("idempotency_key_conflict", "promise_key_conflict"):
        return KeyConflict(status, wire)
    kind = _CLASSES.get(status) or (Unavailable if status >= 500 else InvalidRequest)
    return kind(status, wire)
