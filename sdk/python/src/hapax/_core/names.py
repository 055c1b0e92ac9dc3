"""Names of steps and their ids."""

from __future__ import annotations

import re
from typing import Any

from .._failures import PermanentFailure
from .._limits import MAX_NAME_CHARS

_NAME = re.compile(r"[A-Za-z0-9._-]+")

_KINDS = {
    "effect": "step",
    "claimed": "step",
    "transaction": "step",
    "awaitPromise": "promise",
    "after_effect": "afterEffect",
    "shield": "scope",
}


def checked_name(what: str, name: Any) -> str:
    """The name, if it is one."""
    if isinstance(name, str) and len(name) <= MAX_NAME_CHARS and _NAME.fullmatch(name):
        return name
    shown = repr(name)[:42]
    raise PermanentFailure(
        f"{shown} is not a {what}: use 1 to {MAX_NAME_CHARS} characters from A-Z a-z 0-9 . _ -", code="invalid"
    )


def record_kind(kind: str) -> str:
    """The kind of a record as operations call it."""
    return _KINDS.get(kind, kind)
