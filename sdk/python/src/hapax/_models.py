"""What the server tells about runs, promises, entities and doubts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True)
class _Wire:
    """Fields of an answer. `raw` holds all of them, also those that this version does not know."""

    raw: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, wire: dict[str, Any]) -> Any:
        """From the answer of the server."""
        known = {f.name: wire.get(_camel(f.name)) for f in dataclasses.fields(cls) if f.name != "raw"}
        return cls(raw=wire, **known)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True)
class Run(_Wire):
    """A run."""

    id: str
    status: str
    workflow: str
    version: int
    input: Any
    output: Any
    failure: dict[str, Any] | None
    idempotency_key: str | None
    subject: str | None
    created_at: str
    closed_at: str | None
    current_step_name: str | None
    needs_attention: dict[str, Any] | None

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self.status in ("COMPLETED", "FAILED", "CANCELLED")


@dataclass(frozen=True)
class RunDetail:
    """A run and its steps."""

    run: Run
    steps: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Promise(_Wire):
    """A durable promise."""

    id: str
    status: str
    value: Any
    failure: dict[str, Any] | None
    run_id: str | None
    idempotency_key: str | None


@dataclass(frozen=True)
class Settlement:
    """What became of a settlement."""

    promise: Promise | None
    """The promise, or `None` if the settlement is kept for a promise that is not there yet."""
    is_new: bool
    """False if the promise had been settled with the same value before."""


@dataclass(frozen=True)
class EntityState(_Wire):
    """A business object."""

    type: str
    id: str
    status: str
    version: int
    data: Any


@dataclass(frozen=True)
class Operation(_Wire):
    """One step that was taken with an entity."""

    id: str
    entity_type: str
    entity_id: str
    step_key: str
    status: str
    input: Any
    result: Any
    failure: dict[str, Any] | None
    attempts: int


@dataclass(frozen=True)
class Transition:
    """Answer to a step of an entity."""

    operation: Operation
    entity: EntityState | None
    created: bool


@dataclass(frozen=True)
class Doubt(_Wire):
    """An effect with an unknown outcome."""

    run_id: str
    step_id: str
    effect_key: str
    version: int
    workflow: str
    since: str
    failure: dict[str, Any]
    attempts: int
    resolutions: Sequence[str]


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None


def page_of(kind: type[_Wire], wire: dict[str, Any]) -> Page[Any]:
    """A page from the answer of the server."""
    items = cast("list[dict[str, Any]]", wire["items"])
    return Page([kind.of(item) for item in items], wire.get("nextCursor"))
