"""Scopes, undoing and the end of runs in the in-memory server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from .records import Activation, Json, Record, Run, Scope, may_retry, retry_wait


class Endings(ABC):
    """What happens when a scope or a run ends: effects are undone, last first."""

    def __init__(self) -> None:
        self.now = 0
        self.runs: dict[str, Run] = {}

    @abstractmethod
    def _tell(self, run: Run, message: Json) -> None: ...

    @abstractmethod
    def _tell_outcome(self, run: Run, activation: Activation, op: int, outcome: Json, order: int = 0) -> None: ...

    @abstractmethod
    def _send_attempt(self, run: Run, activation: Activation, record: Record, do: str = "effect") -> None: ...

    @abstractmethod
    def _complete(self, run: Run, record: Record, output: Any, *, is_taken: bool = False) -> None: ...

    @abstractmethod
    def _fail(self, run: Run, record: Record, failure: Json) -> None: ...

    def _is_shielded(self, activation: Activation, scope: int | None) -> bool:
        while scope is not None:
            found = activation.scopes.get(scope)
            if found is None:
                return False
            if found.kind == "shield":
                return True
            scope = found.parent
        return False

    def _merge(self, run: Run, activation: Activation, scope: Scope) -> None:
        """The effects of a scope that is over belong to the scope around it."""
        for record in run.records.values():
            if record.scope == scope.op:
                record.scope = scope.parent
        for other in activation.scopes.values():
            if other.parent == scope.op:
                other.parent = scope.parent
        del activation.scopes[scope.op]

    def _close_scope(self, run: Run, activation: Activation, item: Json) -> None:
        scope = activation.scopes[item["closeScope"]]
        if item.get("ok"):
            self._merge(run, activation, scope)
            return
        scope.failure = item["failure"]
        activation.undoing.append((scope.op, self._to_undo(run, activation, scope.op)))
        self._undo_next(run, activation)

    def _to_undo(self, run: Run, activation: Activation, scope: int | None) -> list[str]:
        """Steps whose effects are to be undone, the last first."""

        def is_inside(record: Record) -> bool:
            at = record.scope
            while scope is not None and at is not None and at != scope:
                around = activation.scopes.get(at)  # a replay may not have asked for it yet
                at = around.parent if around is not None else None
            return scope is None or at == scope

        done = [
            record
            for record in run.records.values()
            if record.fields.get("compensate") and record.status == "COMPLETED" and is_inside(record)
        ]
        done.sort(key=lambda record: record.order, reverse=True)
        return [r.id for r in done if not self._is_undone(run, r.id)]

    def _is_undone(self, run: Run, step: str) -> bool:
        undo = run.records.get(f"{step}~undo")
        return undo is not None and undo.has_outcome

    def _undo_next(self, run: Run, activation: Activation) -> None:
        while activation.undoing:
            scope, steps = activation.undoing[-1]
            if steps:
                step = steps[0]
                fields = {"retry": run.records[step].fields.get("compensateRetry")}
                made = Record(f"{step}~undo", "undo", "RUNNING", fields, first_at=self.now)
                undo = run.records.setdefault(made.id, made)
                if undo.id not in activation.in_flight:
                    undo.attempts += 1
                    self._send_attempt(run, activation, undo, "undo")
                return
            activation.undoing.pop()
            if scope is not None:
                closed = activation.scopes[scope]
                order = run.scope_orders.get(closed.id, 0)
                self._tell_outcome(run, activation, scope, {"failure": closed.failure}, order)
            else:
                self._close(run)
                return

    def _undo_ended(self, run: Run, activation: Activation, undo: Record, item: Json) -> None:
        activation.in_flight.discard(undo.id)
        failure = item.get("failure")
        if failure is None:
            undo.status = "COMPLETED"
            undo.order = run.next_order()
            activation.undoing[-1][1].remove(undo.id.removesuffix("~undo"))
            self._undo_next(run, activation)
        elif failure.get("class") != "permanent" and may_retry(undo.fields, undo.attempts, undo.first_at, self.now):
            undo.due_at = self.now + retry_wait(undo.fields, undo.attempts)
        else:
            # An undo that failed for good needs people.
            undo.status, undo.failure = "IN_DOUBT", failure

    def _begin_stop(self, run: Run) -> None:
        activation = run.activation
        if activation is not None and not any(scope.kind == "shield" for scope in activation.scopes.values()):
            activation.ended = {"stop": run.stop}
            self._go_on_ending(run, activation)

    def _end(self, run: Run, activation: Activation) -> None:
        for record in run.records.values():
            if not record.has_outcome and record.kind != "undo" and record.id not in activation.in_flight:
                record.status = record.status if record.status == "IN_DOUBT" else "CANCELLED"
                record.due_at = None
        self._go_on_ending(run, activation)

    def _go_on_ending(self, run: Run, activation: Activation) -> None:
        """Undoes what is to be undone, once no effect is under way, and closes the run."""
        ended = activation.ended
        if ended is None or run.is_closed or activation.undoing:
            return
        compensable = [step for step in activation.in_flight if run.records[step].fields.get("compensate")]
        if compensable:
            return
        if "throw" in ended or "stop" in ended:
            activation.undoing.append((None, self._to_undo(run, activation, None)))
            self._undo_next(run, activation)
        else:
            self._close(run)

    def _close(self, run: Run) -> None:
        activation = run.activation
        ended = activation.ended if activation is not None else None
        assert ended is not None
        if "continueAsNew" in ended:
            run.input, run.records, run.orders = ended["continueAsNew"], {}, 0
            run.generation += 1
            self._drop(run, "released")
            run.is_ready = True
            return
        if "return" in ended:
            run.status, run.output = "COMPLETED", ended["return"]
        elif "throw" in ended:
            run.status, run.failure = "FAILED", ended["throw"]
        else:
            run.status = "CANCELLED"
            run.failure = {"message": "the run was cancelled", "class": "permanent", "code": "cancelled"}
        self._drop(run, "closed")
        if run.parent is not None:
            parent = self.runs[run.parent[0]]
            record = parent.records.get(run.parent[1])
            if record is not None and record.status == "WAITING":
                if run.status == "COMPLETED":
                    self._complete(parent, record, run.output)
                else:
                    self._fail(parent, record, cast("Json", run.failure))

    def _drop(self, run: Run, why: str) -> None:
        self._tell(run, {"type": "drop", "why": why})
        run.activation = None
