"""A server in memory: the rules of runs in some hundred lines, on a clock that the test drives."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast

from .._durations import to_millis
from .._json import dumps, loads
from .records import Activation, Json, Record, Run, Scope, may_retry, retry_wait

START_MS = 1_790_000_000_000


class MemoryServer:
    """Keeps runs and decides about them, as a Hapax server does. It serves one worker."""

    def __init__(self) -> None:
        self.now = START_MS
        self.runs: dict[str, Run] = {}
        self.promises: dict[str, Json] = {}
        """Settled or open promises by id."""
        self.promise_keys: dict[str, str] = {}
        self.after_effects: list[Json] = []
        self.workflows: dict[str, list[int]] = {}
        self.stale_commits = 0
        self._activations = 0
        self._outbox: list[Json] = []

    # From outside.

    def register(self, name: str, version: int) -> None:
        """Makes a workflow known."""
        self.workflows.setdefault(name, []).append(version)

    def start(self, workflow: str, input: Any, *, parent: tuple[str, str] | None = None) -> Run:
        """Starts a run of the latest version, or of `name@version`."""
        name, _, wanted = workflow.partition("@")
        version = int(wanted) if wanted else max(self.workflows.get(name, [1]))
        run = Run(f"run_{len(self.runs) + 1}", name, version, input, parent)
        self.runs[run.id] = run
        return run

    def signal(self, run_id: str, name: str, value: Any = None, *, signal_id: str | None = None) -> bool:
        """Sends a signal, once per `signal_id`. Returns whether it was stored."""
        run = self.runs[run_id]
        if run.is_closed or (signal_id is not None and signal_id in run.seen_signals):
            return False
        if signal_id is not None:
            run.seen_signals.add(signal_id)
        run.signals.setdefault(name, []).append(value)
        for record in self._waiting(run, "signal"):
            if record.fields["name"] == name:
                self._take_signal(run, record)
                break
        return True

    def settle(self, promise: str, value: Any = None, failure: Json | None = None) -> bool:
        """Settles a promise by id, or by `key:KEY`. The first settlement counts."""
        if promise.startswith("key:"):
            promise = self.promise_keys.get(promise[4:], promise)
        known = self.promises.setdefault(promise, {"status": "PENDING"})
        if known["status"] != "PENDING":
            return False
        known.update({"status": "REJECTED", "failure": failure} if failure else {"status": "RESOLVED", "value": value})
        for run in list(self.runs.values()):
            for record in self._waiting(run, "promise"):
                if record.promise_id == promise:
                    self._settle_record(run, record)
        return True

    def cancel(self, run_id: str) -> None:
        """Asks a run to stop; its effects are undone."""
        run = self.runs[run_id]
        if run.is_closed or run.stop:
            return
        run.stop = "cancel"
        if run.activation is None:
            run.is_ready = True
            return
        self._tell(run, {"type": "stop", "reason": "cancel"})
        self._begin_stop(run)

    # For the worker.

    def poll(self) -> list[Json]:
        """The messages that are due."""
        for run in list(self.runs.values()):
            if run.activation is None and run.is_ready and not run.is_closed and run.status != "PAUSED":
                self._activate(run)
        messages, self._outbox = self._outbox, []
        return messages

    def commit(self, run_id: str, activation_id: str, items: list[Json]) -> None:
        """Carries out what a worker hands in for one run. Under an old activation nothing changes."""
        run = self.runs[run_id]
        activation = run.activation
        if activation is None or activation.id != activation_id:
            self.stale_commits += 1
            return
        taken = {item["took"] for item in items if "took" in item}
        for item in items:
            if run.activation is not activation:
                break
            self._carry_out(run, activation, item, taken)
        self._tell_recorded(run, activation)
        if run.stop is not None and run.activation is activation and activation.ended is None:
            self._begin_stop(run)

    def lose_worker(self) -> None:
        """The worker is gone: its runs are free, its claimed effects in flight are in doubt."""
        self._outbox.clear()
        for run in self.runs.values():
            if run.activation is None:
                continue
            for step in run.activation.in_flight:
                record = run.records[step]
                if record.is_claimed and record.status == "RUNNING":
                    record.status = "IN_DOUBT"
            run.activation = None
            run.is_ready = not run.is_closed and run.status != "PAUSED"

    # Time.

    def next_due(self) -> int | None:
        """When the next timer is due."""
        due = [r.due_at for run in self.runs.values() if not run.is_closed for r in run.records.values()]
        return min((at for at in due if at is not None), default=None)

    def advance_to(self, now: int) -> None:
        """Moves the clock and lets timers end."""
        self.now = max(self.now, now)
        for run in list(self.runs.values()):
            for record in list(run.records.values()):
                if record.due_at is not None and record.due_at <= self.now and not run.is_closed:
                    self._timer_ended(run, record)

    # Inside: items.

    def _carry_out(self, run: Run, activation: Activation, item: Json, taken: set[int]) -> None:
        if "op" in item:
            self._ask(run, activation, item)
        elif "outcome" in item:
            self._outcome(run, activation, item, item["outcome"] in taken)
        elif "abandon" in item:
            self._abandon(run, activation, item["abandon"])
        elif "closeScope" in item:
            self._close_scope(run, activation, item)
        elif "violation" in item:
            run.status, run.violation, run.activation = "PAUSED", item["violation"], None
        elif "evicted" in item:
            run.activation, run.is_ready = None, bool(activation.in_flight)
        elif "took" in item:
            activation.told.add(activation.ops.get(item["took"], ""))
        else:
            activation.ended = item
            self._end(run, activation)

    def _ask(self, run: Run, activation: Activation, item: Json) -> None:
        op, kind = item["op"], item["do"]
        if kind in ("scope", "shield"):
            activation.scopes[op] = Scope(op, kind, item.get("scope"))
            return
        names = {"awaitPromise": "promise", "afterEffect": item.get("target"), "sleep": item.get("name") or "sleep"}
        child = str(item.get("workflow", "")).partition("@")[0]
        default = names.get(kind) or (child if kind == "child" else item["name"])
        step = activation.next_id(item.get("as") or default)
        activation.ops[op] = step
        record = run.records.get(step)
        if record is None:
            record = Record(step, "promise" if kind == "awaitPromise" else kind, "WAITING", item, first_at=self.now)
            record.scope = item.get("scope")
            run.records[step] = record
            self._begin(run, activation, record, item)
        else:
            record.scope, record.fields = item.get("scope"), item
            self._resume(run, activation, record)

    def _begin(self, run: Run, activation: Activation, record: Record, item: Json) -> None:
        kind = item["do"]
        if kind == "step":
            self._send_attempt(run, activation, record)
        elif kind == "value":
            record.status, record.output = "COMPLETED", item["value"]
        elif kind == "sleep":
            record.due_at = self.now + to_millis(item["for"]) if "for" in item else _instant(item["until"])
        elif kind == "signal":
            self._set_timeout(record)
            self._take_signal(run, record)
        elif kind in ("promise", "awaitPromise"):
            self._open_promise(run, record, item)
        elif kind == "child":
            self._start_child(run, record, item)
        elif kind == "afterEffect":
            key = f"{run.key_prefix}:{record.id}"
            self.after_effects.append({"id": key, "target": item["target"], "body": item.get("body")})
            self._complete(run, record, key)

    def _resume(self, run: Run, activation: Activation, record: Record) -> None:
        """Goes on with what a replay has asked for again."""
        if record.kind != "step":
            return
        if record.status == "IN_DOUBT":
            self._decide_doubt(run, activation, record)
        elif record.status in ("WAITING", "RUNNING") and record.id not in activation.in_flight:
            self._send_attempt(run, activation, record)

    def _open_promise(self, run: Run, record: Record, item: Json) -> None:
        promise = item["id"] if item["do"] == "awaitPromise" else f"{run.key_prefix}:{record.id}"
        record.promise_id = promise
        key = item.get("idempotencyKey")
        if key is not None:
            holder = self.promise_keys.setdefault(key, promise)
            early = self.promises.get(f"key:{key}")
            if holder == promise and early is not None:
                self.promises[promise] = early
        self.promises.setdefault(promise, {"status": "PENDING"})
        self._set_timeout(record)
        self._settle_record(run, record)

    def _start_child(self, run: Run, record: Record, item: Json) -> None:
        name = item["workflow"].partition("@")[0]
        if name not in self.workflows:
            text = f"no workflow is called {name}"
            self._fail(run, record, {"message": text, "class": "permanent", "code": "unknown_workflow"})
            return
        record.child = self.start(item["workflow"], item.get("input"), parent=(run.id, record.id)).id

    def _set_timeout(self, record: Record) -> None:
        if record.due_at is None and "timeout" in record.fields:
            record.due_at = self.now + to_millis(record.fields["timeout"])

    # Inside: attempts.

    def _send_attempt(self, run: Run, activation: Activation, record: Record, do: str = "effect") -> None:
        op = activation.op_of(record.id.removesuffix("~undo"))
        if do == "effect":
            record.attempts += 1
            record.status = "RUNNING"
        record.due_at = None
        activation.in_flight.add(record.id)
        message: Json = {
            "type": "attempt",
            "op": op,
            "id": record.id.removesuffix("~undo"),
            "do": do,
            "attempt": record.attempts if do != "probe" else 1,
            "key": f"{run.key_prefix}:{record.id}",
            "fence": run.fence,
        }
        if "timeout" in record.fields:
            message["timeout"] = record.fields["timeout"]
        if do == "undo":
            message["output"] = run.records[message["id"]].output
        self._tell(run, message)

    def _outcome(self, run: Run, activation: Activation, item: Json, is_taken: bool) -> None:
        step = activation.ops[item["outcome"]]
        record = run.records[step]
        undo = run.records.get(f"{step}~undo")
        if undo is not None and undo.id in activation.in_flight:
            self._undo_ended(run, activation, undo, item)
            return
        if step not in activation.in_flight:
            return
        activation.in_flight.discard(step)
        if "answer" in item:
            self._probed(run, activation, record, item)
        elif "failure" in item:
            self._attempt_failed(run, activation, record, item["failure"])
        elif record.status == "CANCELLED":
            # A branch that lost: the effect happened, so it can be undone.
            record.status, record.output = "COMPLETED", item.get("output")
        else:
            self._complete(run, record, item.get("output"), is_taken=is_taken)
        self._go_on_ending(run, activation)

    def _attempt_failed(self, run: Run, activation: Activation, record: Record, failure: Json) -> None:
        if record.status == "CANCELLED":
            return
        failure_class = failure.get("class", "unknown")
        if record.is_claimed and failure_class == "unknown":
            record.status, record.failure = "IN_DOUBT", failure
            self._decide_doubt(run, activation, record)
        elif failure_class == "permanent" or not may_retry(record.fields, record.attempts, record.first_at, self.now):
            self._fail(run, record, failure)
        else:
            wait = to_millis(failure.get("retryAfter", 0)) or retry_wait(record.fields, record.attempts)
            record.status, record.due_at = "PENDING", self.now + wait

    def _decide_doubt(self, run: Run, activation: Activation, record: Record) -> None:
        if record.fields.get("probe") and record.probes < 3:
            record.probes += 1
            self._send_attempt(run, activation, record, "probe")
            return
        on_doubt = record.fields.get("onDoubt", "hold")
        if on_doubt == "retry":
            self._send_attempt(run, activation, record)
        elif on_doubt == "fail":
            text = "nobody knows whether the effect happened"
            self._fail(run, record, {"message": text, "class": "unknown", "code": "in_doubt"})

    def _probed(self, run: Run, activation: Activation, record: Record, item: Json) -> None:
        if item["answer"] == "happened":
            self._complete(run, record, item.get("output"))
        elif item["answer"] == "did_not_happen":
            record.probes = 0
            self._send_attempt(run, activation, record)
        else:
            self._decide_doubt(run, activation, record)

    # Inside: outcomes.

    def _complete(self, run: Run, record: Record, output: Any, *, is_taken: bool = False) -> None:
        record.status, record.output, record.due_at = "COMPLETED", output, None
        record.order = run.next_order()
        self._resolve(run, record, {"output": output}, is_taken=is_taken)

    def _fail(self, run: Run, record: Record, failure: Json) -> None:
        record.status, record.failure, record.due_at = "FAILED", failure, None
        record.order = run.next_order()
        self._resolve(run, record, {"failure": failure})

    def _resolve(self, run: Run, record: Record, outcome: Json, *, is_taken: bool = False) -> None:
        activation = run.activation
        if activation is None:
            run.is_ready = True
            return
        op = activation.op_of(record.id)
        is_stopping = run.stop is not None and not self._is_shielded(activation, record.scope)
        if op is not None and not is_taken and not is_stopping and activation.ended is None:
            activation.told.add(record.id)
            self._tell(run, {"type": "resolved", "op": op, **outcome})

    def _tell_recorded(self, run: Run, activation: Activation) -> None:
        """Behind a failed scope a replay takes nothing from the log, so each outcome is told, in its order."""
        if not activation.has_failed_scope or activation.undoing or run.activation is not activation:
            return
        asked = [run.records[step] for step in activation.ops.values()]
        due = [r for r in asked if r.order and r.has_outcome and r.id not in activation.told]
        if due:
            record = min(due, key=lambda record: record.order)
            failed = record.status == "FAILED"
            self._resolve(run, record, {"failure": record.failure} if failed else {"output": record.output})

    def _waiting(self, run: Run, kind: str) -> list[Record]:
        return [r for r in run.records.values() if r.kind == kind and r.status == "WAITING" and not run.is_closed]

    def _take_signal(self, run: Run, record: Record) -> None:
        queue = run.signals.get(record.fields["name"], [])
        if queue and record.status == "WAITING":
            self._complete(run, record, queue.pop(0))

    def _settle_record(self, run: Run, record: Record) -> None:
        promise = self.promises[cast("str", record.promise_id)]
        if promise["status"] == "RESOLVED":
            self._complete(run, record, promise.get("value"))
        elif promise["status"] == "REJECTED":
            self._fail(run, record, promise["failure"])

    def _timer_ended(self, run: Run, record: Record) -> None:
        record.due_at = None
        if record.kind == "sleep":
            self._complete(run, record, None)
        elif record.kind in ("signal", "promise"):
            text = f"{record.kind} {record.id} did not come in time"
            self._fail(run, record, {"message": text, "class": "permanent", "code": "timed_out"})
        elif run.activation is None:
            run.is_ready, record.status = True, "RUNNING"
        else:
            self._send_attempt(run, run.activation, record, "undo" if record.kind == "undo" else "effect")

    def _abandon(self, run: Run, activation: Activation, op: int) -> None:
        scope = activation.scopes.get(op)
        if scope is not None:
            self._merge(run, activation, scope)
            return
        record = run.records[activation.ops[op]]
        if not record.has_outcome:
            record.status, record.due_at = "CANCELLED", None
            if record.id in activation.in_flight:
                self._tell(run, {"type": "abort", "op": op, "attempt": record.attempts, "why": "abandoned"})

    # Inside: scopes, undoing and the end.

    def _is_shielded(self, activation: Activation, scope: int | None) -> bool:
        while scope is not None:
            found = activation.scopes[scope]
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
        activation.has_failed_scope = True
        activation.undoing.append((scope.op, self._to_undo(run, activation, scope.op)))
        self._undo_next(run, activation)

    def _to_undo(self, run: Run, activation: Activation, scope: int | None) -> list[str]:
        """Steps whose effects are to be undone, the last first."""

        def is_inside(record: Record) -> bool:
            at = record.scope
            while scope is not None and at is not None and at != scope:
                at = activation.scopes[at].parent
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
                failure = activation.scopes[scope].failure
                self._tell(run, {"type": "resolved", "op": scope, "failure": failure})
            else:
                self._close(run)
                return

    def _undo_ended(self, run: Run, activation: Activation, undo: Record, item: Json) -> None:
        activation.in_flight.discard(undo.id)
        failure = item.get("failure")
        if failure is None:
            undo.status = "COMPLETED"
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

    def _activate(self, run: Run) -> None:
        self._activations += 1
        run.fence += 1
        run.activation = Activation(f"a{self._activations}")
        run.is_ready = False
        message: Json = {
            "type": "activate",
            "workflow": run.workflow,
            "version": run.version,
            "fence": run.fence,
            "keyPrefix": run.key_prefix,
            "workspace": "test",
            "input": run.input,
            "log": run.log(),
            "logMore": False,
            "now": self.now,
        }
        self._tell(run, message)
        if run.stop is not None:
            self._tell(run, {"type": "stop", "reason": run.stop})

    def _tell(self, run: Run, message: Json) -> None:
        activation = run.activation
        if activation is not None:
            self._outbox.append({**message, "run": run.id, "activation": activation.id})


def _instant(text: str) -> int:
    at = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(at.timestamp() * 1_000)


def wire_items(items: list[Json]) -> list[Json]:
    """Items as the server reads them."""
    return [loads(dumps(item)) for item in items]
