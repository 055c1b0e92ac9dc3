"""A server in memory: the rules of runs in some hundred lines, on a clock that the test drives."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast

from .._durations import to_millis
from .._json import dumps, loads
from .endings import Endings
from .records import Activation, Json, Record, Run, Scope, may_retry, retry_wait

START_MS = 1_790_000_000_000


class MemoryServer(Endings):
    """Keeps runs and decides about them, as a Hapax server does. It serves one worker."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START_MS
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
        activation.is_in_batch = True
        for item in items:
            if run.activation is not activation:
                break
            self._carry_out(run, activation, item, taken)
        activation.is_in_batch = False
        self._tell_next(run, activation)
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
            activation.told.add(item["took"])
            if activation.telling == item["took"]:
                activation.telling = None
        else:
            activation.ended = item
            self._end(run, activation)

    def _ask(self, run: Run, activation: Activation, item: Json) -> None:
        op, kind = item["op"], item["do"]
        if kind in ("scope", "shield"):
            activation.scopes[op] = Scope(op, kind, item.get("scope"), id=activation.next_id("~scope"))
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
        op = activation.op_of(record.id)
        if record.has_outcome and record.kind != "value" and op is not None:
            # The worker takes it from the log, unless a failed scope stands before it.
            failed = record.status == "FAILED"
            outcome = {"failure": record.failure} if failed else {"output": record.output}
            activation.due.append((record.order, op, outcome))
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
        if item.get("do") == "undo":
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
        if is_taken:
            record.order = run.next_order()
        else:
            self._resolve(run, record, {"output": output})

    def _fail(self, run: Run, record: Record, failure: Json) -> None:
        record.status, record.failure, record.due_at = "FAILED", failure, None
        self._resolve(run, record, {"failure": failure})

    def _resolve(self, run: Run, record: Record, outcome: Json) -> None:
        activation = run.activation
        if activation is None:
            run.is_ready = True
            return
        op = activation.op_of(record.id)
        if op is not None:
            self._tell_outcome(run, activation, op, outcome)

    def _tell_outcome(self, run: Run, activation: Activation, op: int, outcome: Json, order: int = 0) -> None:
        """Tells an outcome when all before it are taken, so that a replay can give them in the same order."""
        activation.due.append((order, op, outcome))
        self._tell_next(run, activation)

    def _tell_next(self, run: Run, activation: Activation) -> None:
        is_gone = run.activation is not activation or activation.ended is not None or activation.is_in_batch
        while activation.due and activation.telling is None and not is_gone:
            # Outcomes of earlier activations come first, in their order.
            order, op, outcome = min(activation.due, key=_place)
            activation.due.remove((order, op, outcome))
            record = run.records.get(activation.ops.get(op, ""))
            scope = activation.scopes.get(op)
            is_lost = record is not None and record.status == "CANCELLED"
            is_stopping = run.stop is not None and not self._is_shielded(activation, record.scope if record else op)
            if op in activation.told or is_lost or is_stopping or (record is None and scope is None):
                continue
            if record is not None:
                record.order = record.order or run.next_order()
            elif scope is not None:
                run.scope_orders.setdefault(scope.id, run.next_order())
            activation.told.add(op)
            activation.telling = op
            self._tell(run, {"type": "resolved", "op": op, **outcome})

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
        activation.told.add(op)
        scope = activation.scopes.get(op)
        if scope is not None:
            self._merge(run, activation, scope)
            return
        record = run.records[activation.ops[op]]
        if not record.has_outcome:
            record.status, record.due_at = "CANCELLED", None
            if record.id in activation.in_flight:
                self._tell(run, {"type": "abort", "op": op, "attempt": record.attempts, "why": "abandoned"})

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


def _place(due: tuple[int, int, Json]) -> int:
    return due[0] or 1 << 62


def _instant(text: str) -> int:
    at = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(at.timestamp() * 1_000)


def wire_items(items: list[Json]) -> list[Json]:
    """Items as the server reads them."""
    return [loads(dumps(item)) for item in items]
