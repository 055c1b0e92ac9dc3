"""The SDK against the real server: runs, kills, takeovers, numbers, entities."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import ProductionServer, Server, WorkerProcess, lines, until

from hapax import RawJson, RunFailed, SyncHapax

Start = Callable[..., WorkerProcess]


@pytest.fixture
def client(server: Server) -> Any:
    with SyncHapax(server.url, server.key, retry_for=30) as found:
        yield found


def test_a_run_goes_from_start_to_result_once_per_key(client: SyncHapax, start_worker: Start) -> None:
    worker = start_worker()
    handle = client.start("five", {"n": 1}, key="order-1")
    again = client.start("five", {"n": 1}, key="order-1")
    assert handle.created and not again.created and again.id == handle.id
    keys = [f"{handle.id}:work"] + [f"{handle.id}:work#{n}" for n in range(2, 6)]
    assert handle.result(timeout="30s") == keys
    assert lines(worker.effects) == keys
    assert worker.terminate() == 0


def test_a_killed_worker_is_replaced_and_no_effect_is_lost_or_repeated(
    client: SyncHapax, start_worker: Start, tmp_path: Any
) -> None:
    first = start_worker("slot-0")
    handle = client.start("five", {"holdAfter": 2})
    until(lambda: "waiting for release" in lines(first.effects))
    first.kill()
    (tmp_path / "release").touch()
    began = time.monotonic()
    start_worker("slot-0")
    keys = handle.result(timeout="30s")
    assert time.monotonic() - began < 5
    done = [line for line in lines(first.effects) if line.startswith("run_")]
    assert done == keys and len(set(done)) == 5


def test_a_killed_server_comes_back_and_the_worker_goes_on(
    client: SyncHapax, server: Server, start_worker: Start, tmp_path: Any
) -> None:
    worker = start_worker("slot-0")
    handle = client.start("five", {"holdAfter": 2})
    until(lambda: "waiting for release" in lines(worker.effects))
    server.kill()
    (tmp_path / "release").touch()
    server.start()
    keys = handle.result(timeout="60s")
    done = [line for line in lines(worker.effects) if line.startswith("run_")]
    assert done == keys and len(keys) == 5
    assert worker.process.poll() is None


def test_a_replaced_worker_ends_and_the_new_one_goes_on(client: SyncHapax, start_worker: Start, tmp_path: Any) -> None:
    first = start_worker("slot-0")
    handle = client.start("five", {"holdAfter": 0})
    until(lambda: "waiting for release" in lines(first.effects))
    second = start_worker("slot-0")
    (tmp_path / "release").touch()
    assert len(handle.result(timeout="30s")) == 5
    assert first.process.wait(30) != 0
    assert second.process.poll() is None


def test_a_claimed_step_whose_worker_died_is_in_doubt_and_people_decide(
    client: SyncHapax, start_worker: Start, tmp_path: Any
) -> None:
    first = start_worker("slot-0")
    handle = client.start("wire")
    until(lambda: "waiting for release" in lines(first.effects))
    first.kill()
    start_worker("slot-0")
    doubts = until(lambda: client.list_doubts().items, 60, "a doubt")
    assert doubts[0].run_id == handle.id and doubts[0].step_id == "wire"
    client.resolve_doubt(doubts[0], "happened", output="W-7", reason="The bank shows it.")
    assert handle.result(timeout="30s") == "W-7"
    assert sum(line.startswith("run_") for line in lines(first.effects)) == 1


def test_numbers_and_texts_survive_byte_for_byte(client: SyncHapax, server: Server, start_worker: Start) -> None:
    start_worker()
    numbers = '"big":9007199254740993,"least":-9223372036854775808,"most":18446744073709551615,"price":1.10,"e":1E+2'
    text = f'{{{numbers},"t":"\u017dlu\u0165 \U0001f40e \\""}}'
    handle = client.start("echo", RawJson(text))
    assert handle.result(timeout="30s", returns=RawJson).text == text
    assert f'"output":{text}' in server.raw(f"/api/v1/workflow-runs/{handle.id}/result")
    steps = server.raw(f"/api/v1/workflow-runs/{handle.id}")
    assert steps.count(text) >= 4  # input, two steps, output


def test_signals_promises_children_scopes_and_branches(client: SyncHapax, start_worker: Start) -> None:
    start_worker()
    handle = client.start("everything", {"key": "stripe:ch_7"})
    assert handle.signal("word", {"by": "ada"}, signal_id="evt-1")
    assert not handle.signal("word", {"by": "ada"}, signal_id="evt-1")
    client.resolve(500, key="stripe:ch_7")
    assert handle.result(timeout="30s") == {
        "kept": f"{handle.id}:kept",
        "both": [f"{handle.id}:a", f"{handle.id}:b"],
        "first": ["word", {"by": "ada"}],
        "paid": 500,
        "child": 5,
        "id": f"{handle.id}:paid",
    }


def test_a_failed_scope_is_undone_last_first_and_the_code_goes_on(client: SyncHapax, start_worker: Start) -> None:
    worker = start_worker()
    handle = client.start("undo")
    assert handle.result(timeout="30s") == "no car"
    flight, hotel = f"{handle.id}:flight", f"{handle.id}:hotel"
    assert lines(worker.effects) == [flight, hotel, f"undo {hotel}", f"undo {flight}", "after"]


def test_a_cancelled_run_ends(client: SyncHapax, start_worker: Start) -> None:
    start_worker()
    handle = client.start("everything", {"key": "never"})
    until(lambda: any(step["id"] == "word" for step in handle.get().steps))
    handle.cancel("the customer withdrew")
    with pytest.raises(RunFailed, match="CANCELLED"):
        handle.result(timeout="30s")


def test_code_that_waits_for_something_else_pauses_its_run(client: SyncHapax, start_worker: Start) -> None:
    start_worker()
    handle = client.start("dice")
    run = until(lambda: (found := handle.get().run).needs_attention and found)
    assert "not the context's" in json.dumps(run.raw)


def test_code_that_does_not_fit_its_history_pauses_the_run_and_a_deploy_resumes_it(
    client: SyncHapax, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start_worker()
    handle = client.start("flow")
    until(lambda: any(step["id"] == "go" for step in handle.get().steps))
    assert worker.terminate() == 0
    monkeypatch.setenv("STEP", "second")
    worker = start_worker()
    handle.signal("go", "there")
    run = until(lambda: (found := handle.get().run).status == "PAUSED" and found)
    why = json.dumps(run.raw)
    assert "`first`" in why and "`second`" in why, "it names what the history has, and what the code asks for"
    assert worker.terminate() == 0
    monkeypatch.setenv("STEP", "first")
    worker = start_worker()
    handle.resume("the right code is back")
    assert handle.result(timeout="30s") == "there"
    assert lines(worker.effects) == [f"{handle.id}:first"]


def test_large_texts_survive(client: SyncHapax, start_worker: Start) -> None:
    start_worker()
    text = "\u017dlu\u0165ou\u010dk\u00fd k\u016f\u0148 \U0001f40e \u2028 " * 4_000
    handle = client.start("large", {"text": text})
    assert handle.result(timeout="60s") == text * 8


def test_a_worker_stopped_past_its_lease_begins_nothing_and_its_late_outcome_settles_the_doubt(
    production: ProductionServer, tmp_path: Any
) -> None:
    (tmp_path / "other").mkdir()
    with SyncHapax(production.url, production.key) as client:
        paused = WorkerProcess(production, tmp_path, key=production.worker_key)
        other: WorkerProcess | None = None
        try:
            wired = client.start("wire")
            held = client.start("five", {"holdAfter": 0})
            until(lambda: lines(paused.effects).count("waiting for release") == 2)
            paused.pause()
            other = WorkerProcess(production, tmp_path / "other", key=production.worker_key)
            (tmp_path / "other" / "release").touch()
            # The other one makes the step again that may be repeated, and goes on. What is claimed waits for a person.
            assert len(held.result(timeout="60s")) == 5
            until(lambda: [doubt for doubt in client.list_doubts().items if doubt.run_id == wired.id], 60, "a doubt")
            assert not any("wire" in line for line in lines(other.effects))
            before = lines(paused.effects)
            (tmp_path / "release").touch()
            paused.go_on()
            # The effect did happen. Its outcome comes late, and settles the doubt: nobody has to rule.
            assert wired.result(timeout="60s") == "W-1"
            assert not any("wire" in line for line in lines(other.effects))
            assert lines(paused.effects) == before, "it began nothing of its old session"
            assert other.terminate() == 0
            # It has a new session, and works on.
            assert len(client.start("five", {}).result(timeout="60s")) == 5
            assert paused.terminate() == 0
        finally:
            for worker in (paused, other):
                if worker is not None and worker.process.poll() is None:
                    worker.go_on()
                    worker.kill()


def test_a_document_calls_a_task(client: SyncHapax, start_worker: Start) -> None:
    start_worker()
    client.apply_workflow(
        {
            "name": "twice",
            "version": 1,
            "steps": [{"name": "double", "type": "task", "task": "double", "input": {"n": "{{ input.n }}"}}],
        }
    )
    assert client.start("twice", {"n": 21}).result(timeout="30s") == {"n": 42}


def test_an_entity_action_runs_once_per_key(client: SyncHapax, start_worker: Start) -> None:
    worker = start_worker()
    client.apply_entity_workflow(
        {
            "name": "invoices",
            "module": "default",
            "entity": "invoice",
            "statusTypes": ["open", "closing", "closed"],
            "steps": [
                {
                    "stepId": 1,
                    "stepKey": "close",
                    "status": "open",
                    "claimState": ["closing", "open"],
                    "successfulState": "closed",
                    "action": {"admin": "CloseInvoiceUseCase"},
                }
            ],
        }
    )
    client.create_entity("invoice", "INV-1", "open", {"total": 5})
    client.create_entity("invoice", "INV-2", "open", {"disputed": True})
    taken = client.transition("invoice", "INV-1", "close", {"n": 9007199254740993}, key="k1", requester="admin")
    again = client.transition("invoice", "INV-1", "close", {"n": 9007199254740993}, key="k1", requester="admin")
    assert taken.operation.status == "DONE" and taken.entity is not None and taken.entity.status == "closed"
    assert taken.operation.result["n"] == 9007199254740993 and again.operation.id == taken.operation.id
    assert len(lines(worker.effects)) == 1
    with pytest.raises(Exception, match="disputed invoice cannot be closed"):
        client.transition("invoice", "INV-2", "close", requester="admin")
    assert client.get_entity("invoice", "INV-2").status == "open"
