"""Failures: what user code raises, and what a workflow receives from a step, a promise or a child."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

from ._durations import Duration, to_text
from ._json import payload
from ._limits import MAX_MESSAGE_CHARS, MAX_NAME_CHARS

FailureClass: TypeAlias = Literal["permanent", "retryable", "unknown"]


class Failure(Exception):
    """A failure with a class, which says whether the effect happened.

    `permanent`: it did not happen, and never will. `retryable`: it did not happen, and may be tried again.
    `unknown`: it may have happened. Any other exception counts as `unknown`.
    """

    failure_class: FailureClass = "unknown"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retry_after: Duration | None = None,
        details: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after = retry_after
        self.details = details

    def to_wire(self) -> dict[str, Any]:
        """The failure as the protocol writes it."""
        wire: dict[str, Any] = {"message": _text(self.message, MAX_MESSAGE_CHARS), "class": self.failure_class}
        if self.code is not None:
            wire["code"] = _text(self.code, MAX_NAME_CHARS)
        if self.retry_after is not None:
            wire["retryAfter"] = to_text(self.retry_after)
        if self.details is not None:
            wire["details"] = self.details
        return wire


class PermanentFailure(Failure):
    """The effect did not happen and never will. It is not tried again."""

    failure_class: FailureClass = "permanent"


class RetryableFailure(Failure):
    """The effect did not happen. It may be tried again."""

    failure_class: FailureClass = "retryable"


class UnknownFailure(Failure):
    """The effect may have happened. It is tried again only under the same key."""


class StepFailed(Failure):
    """Failure of an operation, as the workflow receives it.

    `failed_id` names the step, promise, signal or child. `code` is `timed_out` if it was not settled in time.
    """

    def __init__(self, failed_id: str, wire: dict[str, Any]) -> None:
        super().__init__(
            str(wire.get("message", "")),
            code=cast("str | None", wire.get("code")),
            retry_after=wire.get("retryAfter"),
            details=wire.get("details"),
        )
        self.failed_id = failed_id
        self.failure_class = cast("FailureClass", wire.get("class", "unknown"))
        self.wire = wire

    def to_wire(self) -> dict[str, Any]:
        return self.wire


class Rejected(Exception):
    """An entity action decided not to act. Nothing happened, and the entity keeps its status."""


class AttemptCancelled(Exception):
    """This attempt must not go on: the hold has passed, the run is lost, or it is to stop."""


class ForeignAwaitable(RuntimeError):
    """Workflow code awaited something that the context did not make."""


class DecodeError(ValueError):
    """A value does not fit its type hint."""


def failure_of(error: BaseException) -> dict[str, Any]:
    """The failure that an exception of user code stands for, as the protocol writes it."""
    if isinstance(error, Failure):
        wire = error.to_wire()
        return {**wire, "details": _storable(wire["details"])} if "details" in wire else wire
    text = str(error)
    name = type(error).__name__
    return {"message": _text(f"{name}: {text}" if text else name, MAX_MESSAGE_CHARS), "class": "unknown"}


def _storable(details: Any) -> Any:
    try:
        payload(details)
    except (ValueError, TypeError, RecursionError):
        return None
    return details


def _text(text: str, most: int) -> str:
    # The stores cannot hold NUL.
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:most]
