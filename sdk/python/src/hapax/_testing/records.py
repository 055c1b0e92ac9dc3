"""What the in-memory server keeps of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .._durations import to_millis

Json = dict[str, Any]
Status: TypeAlias = Literal["PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "IN_DOUBT"]
RunStatus: TypeAlias = Literal["RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED"]

RETRY_FOR_MS = 24 * 3_600_000


@dataclass
class Record:
    """One operation of a run, as it is durable."""

    id: str
    kind: str
    status: Status
    fields: Json
    output: Any = None
    failure: Json | None = None
    order: int = 0
    """Place in the order in which outcomes reached the code; 0 if it has none."""
    attempts: int = 0
    first_at: int = 0
    due_at: int | None = None
    scope: int | None = None
    promise_id: str | None = None
    child: str | None = None
    probes: int = 0

    @property
    def has_outcome(self) -> bool:
        return self.status in ("COMPLETED", "FAILED")

    @property
    def is_claimed(self) -> bool:
        return bool(self.fields.get("claimed"))

    @property
    def effect_class(self) -> str:
        """How the effect is kept from happening twice."""
        return "claimed" if self.is_claimed else "idempotent"

    def to_log(self) -> Json:
        """The record as the log shows it."""
        shown: Json = {"id": self.id, "kind": self.kind, "status": self.status}
        if self.status == "COMPLETED":
            shown["output"] = self.output
        elif self.failure is not None and self.status == "FAILED":
            shown["failure"] = self.failure
        return shown


@dataclass
class Scope:
    """A scope of one activation."""

    op: int
    kind: str
    parent: int | None
    failure: Json | None = None
    id: str = ""


@dataclass
class Activation:
    """One execution of a run's code in a worker."""

    id: str
    ops: dict[int, str] = field(default_factory=dict[int, str])
    """Step id of each operation."""
    uses: dict[str, int] = field(default_factory=dict[str, int])
    scopes: dict[int, Scope] = field(default_factory=dict[int, Scope])
    in_flight: set[str] = field(default_factory=set[str])
    """Steps with an attempt in the worker."""
    undoing: list[tuple[int | None, list[str]]] = field(default_factory=list[tuple[int | None, list[str]]])
    """Undos to do: for which scope, or for the run, and which steps, the last first."""
    told: set[int] = field(default_factory=set[int])
    """Operations whose outcome the code has, or is being told."""
    telling: int | None = None
    """The operation whose outcome is on its way. The next is told when the code has taken it."""
    is_in_batch: bool = False
    due: list[tuple[int, int, Json]] = field(default_factory=list[tuple[int, int, Json]])
    """Outcomes to tell: their place in the order (0: not told before), operation, outcome."""
    ended: Json | None = None

    def next_id(self, name: str) -> str:
        """The id of the next use of a name."""
        uses = self.uses.get(name, 0) + 1
        self.uses[name] = uses
        return name if uses == 1 else f"{name}#{uses}"

    def op_of(self, step: str) -> int | None:
        """The operation that asked for a step."""
        return next((op for op, found in self.ops.items() if found == step), None)


@dataclass
class Run:
    """A run as the in-memory server keeps it."""

    id: str
    workflow: str
    version: int
    input: Any
    parent: tuple[str, str] | None = None
    status: RunStatus = "RUNNING"
    output: Any = None
    failure: Json | None = None
    violation: str | None = None
    generation: int = 0
    fence: int = 0
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    signals: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    seen_signals: set[str] = field(default_factory=set[str])
    activation: Activation | None = None
    scope_orders: dict[str, int] = field(default_factory=dict[str, int])
    """Place of the outcome of each failed scope."""
    is_ready: bool = True
    """There is a reason to activate it."""
    orders: int = 0
    stop: str | None = None

    @property
    def is_closed(self) -> bool:
        return self.status in ("COMPLETED", "FAILED", "CANCELLED")

    @property
    def key_prefix(self) -> str:
        return self.id if self.generation == 0 else f"{self.id}.{self.generation}"

    def next_order(self) -> int:
        self.orders += 1
        return self.orders

    def log(self) -> list[Json]:
        """Values first, then outcomes in their order, then what is open."""
        for record in self.records.values():
            if record.has_outcome and record.order == 0 and record.kind not in ("value", "undo"):
                record.order = self.next_order()
        shown = [record for record in self.records.values() if record.kind != "undo"]
        values = [record for record in shown if record.kind == "value"]
        others = [record for record in shown if record.kind != "value"]
        others.sort(key=lambda record: record.order or 1 << 62)
        return [record.to_log() for record in values + others]


def retry_wait(fields: Json, attempts: int) -> int:
    """Milliseconds to wait after so many attempts, without jitter."""
    retry: Json = fields.get("retry") or {}
    first = to_millis(retry.get("first", "1s"))
    factor = float(retry.get("factor", 2.0))
    cap = to_millis(retry.get("cap", "60s"))
    return round(min(cap, first * factor ** max(0, attempts - 1)))


def may_retry(fields: Json, attempts: int, since: int, now: int) -> bool:
    """Whether the policy allows another attempt."""
    retry: Json = fields.get("retry") or {}
    give_up_after = to_millis(retry["for"]) if "for" in retry else RETRY_FOR_MS
    return attempts < int(retry.get("maxAttempts", 1 << 31)) and now - since < give_up_after
