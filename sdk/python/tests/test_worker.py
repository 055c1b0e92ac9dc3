"""The worker over HTTP, against the in-memory server with faults on its connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hapax import (
    ActionCall,
    Attempt,
    AttemptCancelled,
    Ctx,
    EffectLogFilter,
    Entity,
    Hapax,
    PermanentFailure,
    Rejected,
    RunFailed,
    SessionReplaced,
    SyncCtx,
    Unauthorized,
    Worker,
    action,
    task,
    workflow,
)
from hapax._worker.attempts import CodeRunner
from hapax._worker.session import Offer, Session
from protocol_server import ProtocolServer


async def key_of(attempt: Attempt) -> str:
    return attempt.key


@workflow("order")
async def order(ctx: Ctx, input: dict[str, Any]) -> list[str]:
    first = await ctx.step("charge", key_of)
    second = await ctx.step("ship", lambda attempt: attempt.key)
    return [first, second, str(input["n"])]


@workflow("plain", sync=True)
def plain(ctx: SyncCtx) -> list[str]:
    return list(ctx.gather(lambda: ctx.step("a", lambda a: a.key), lambda: ctx.step("b", key_of)))


@workflow("wait")
async def wait(ctx: Ctx) -> Any:
    got = await ctx.signal("go")
    await ctx.step("after", key_of)
    return got


def run(test: Callable[[ProtocolServer, Hapax], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with ProtocolServer(**options) as server, Hapax(server.url, "hpx_test") as client:
            await asyncio.wait_for(test(server, client), 30)

    asyncio.run(main())


def worker(client: Hapax, **options: Any) -> Worker:
    return Worker(client, **{"workflows": [order, plain, wait], "handle_signals": False, **options})


def test_a_workflow_runs_from_start_to_result() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, name="w", instance="w-0"):
            handle = await client.start(order, {"n": 1})
            assert await handle.result(timeout=10) == ["run_1:charge", "run_1:ship", "1"]
            sync = await client.start(plain)
            assert await sync.result(timeout=10) == ["run_2:a", "run_2:b"]
        assert server.opened[0]["workflows"][0] == {"name": "order", "version": 1}
        assert server.opened[0]["instance"] == "w-0" and server.opened[0]["sdk"] == "python"
        assert server.deleted == ["wks_1"]

    run(test)


def test_one_commit_carries_the_outcome_and_what_follows() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client):
            await (await client.start(order, {"n": 1})).result(timeout=10)
        items = [
            next(iter(item))
            for verb, body in server.requests
            if verb == "commit"
            for r in body["runs"]
            for item in r["items"]
        ]
        assert items == ["op", "outcome", "took", "op", "outcome", "took", "return"]
        assert sum(verb == "commit" for verb, _ in server.requests) == 3

    run(test)


def test_an_answer_that_is_cut_off_is_asked_for_again_and_nothing_is_done_twice() -> None:
    entered: list[str] = []

    @workflow("count")
    async def count(ctx: Ctx) -> None:
        for _ in range(3):
            await ctx.step("tick", lambda a: entered.append(a.key))

    async def test(server: ProtocolServer, client: Hapax) -> None:
        server.cut_answers = {"poll": 3, "commit": 4, "open": 0}
        async with worker(client, workflows=[count]):
            await (await client.start(count)).result(timeout=20)
        assert entered == ["run_1:tick", "run_1:tick#2", "run_1:tick#3"]
        assert server.memory.stale_commits == 0

    run(test)


def test_a_session_that_is_gone_is_opened_again_and_runs_go_on() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client):
            handle = await client.start(wait)
            await server.until(lambda: bool(server.memory.runs["run_1"].records))
            server.lose_session()
            await handle.signal("go", {"by": "ada"})
            assert await handle.result(timeout=10) == {"by": "ada"}
        assert server.sessions == 2

    run(test)


def test_a_success_of_a_session_that_is_gone_is_handed_in_late() -> None:
    release = threading.Event()

    @workflow("slow")
    async def slow(ctx: Ctx) -> str:
        return await ctx.step("wire", lambda a: release.wait(10) and a.key, claimed=True)

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[slow]):
            await client.start(slow)
            await server.until(lambda: "wire" in server.memory.runs["run_1"].records)
            await asyncio.sleep(0.05)
            server.lose_session()
            await server.until(lambda: server.sessions == 2)
            release.set()
            await asyncio.sleep(0.1)
            server.lose_session()
            await server.until(lambda: any("late" in result for result in server.results))
        late = next(result["late"] for result in server.results if "late" in result)
        assert late == {"key": "run_1:wire", "attempt": 1, "fence": 1, "output": "run_1:wire"}

    run(test)


def test_a_success_whose_commit_finds_no_session_is_handed_in_late() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        @workflow("pay")
        async def pay(ctx: Ctx) -> str:
            return await ctx.step("charge", charge)

        async def charge(attempt: Attempt) -> str:
            if attempt.number == 1:
                server.lose_session()
            return f"ch_{attempt.number}"

        async with worker(client, workflows=[pay]):
            handle = await client.start(pay)
            assert await handle.result(timeout=10) == "ch_2"
            await server.until(lambda: bool(server.results))
        assert server.results == [{"late": {"key": "run_1:charge", "attempt": 1, "fence": 1, "output": "ch_1"}}]

    run(test)


def test_a_message_that_overtakes_its_activation_waits_for_it() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        offer = Offer({(order.name, order.version): order}, {}, {})
        opened = {"sessionId": "wks_1", "leaseFor": "30s", "pollFor": "5s"}
        runner = CodeRunner(1)
        session = Session(client, opened, 0.0, offer, runner, concurrency=1, max_cached_runs=1, late=[])
        about = {"run": "run_1", "activation": "a1", "fence": 1}
        attempt = {"type": "attempt", "op": 1, "do": "effect", "attempt": 1, "key": "k", **about}
        session._receive(attempt)
        session._receive({**attempt, "activation": "a0"})
        assert not session._code
        activate = {"type": "activate", "workflow": "order", "version": 1, "input": {"n": 1}, "log": [], **about}
        session._receive(activate)
        assert [running.message["activation"] for running in session._code] == ["a1"]
        session.close()
        runner.close()

    run(test)


def test_a_replaced_worker_stops() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        first = worker(client, instance="w-0")
        running = asyncio.create_task(first.run())
        await first.ready()
        async with worker(client, instance="w-0"):
            with pytest.raises(SessionReplaced):
                await asyncio.wait_for(running, 5)

    run(test)


def test_a_refused_key_ends_the_worker() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        server.refuse = lambda verb: (401, {"code": "unauthorized", "detail": "no"}) if verb == "open" else None
        with pytest.raises(Unauthorized):
            await worker(client).run()

    run(test)


def test_a_busy_server_is_asked_again() -> None:
    left = {"n": 3}

    def refuse(verb: str) -> tuple[int, dict[str, Any]] | None:
        if verb == "commit" and left["n"]:
            left["n"] -= 1
            return 503, {"code": "store_unavailable", "detail": "later", "retryable": True}
        return None

    async def test(server: ProtocolServer, client: Hapax) -> None:
        server.refuse = refuse
        async with worker(client):
            assert await (await client.start(order, {"n": 2})).result(timeout=10) == ["run_1:charge", "run_1:ship", "2"]
        assert left["n"] == 0 and server.sessions == 1

    run(test)


def test_no_effect_begins_and_running_code_is_told_when_the_hold_has_passed() -> None:
    seen: list[str] = []
    began = threading.Event()

    @workflow("slow")
    async def slow(ctx: Ctx) -> str:
        return await ctx.step("wire", wire)

    async def wire(attempt: Attempt) -> str:
        began.set()
        if attempt.number > 1:
            return "second"
        try:
            await attempt.cancelled()
        finally:
            with contextlib.suppress(AttemptCancelled):
                attempt.ensure_still_held()
                seen.append("still held")
            seen.append("told")
        return "first"

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[slow]):
            handle = await client.start(slow)
            await server.until(began.is_set)
            server.is_answering.clear()
            await server.until(lambda: bool(seen), 5)
            assert seen == ["told"]
            server.is_answering.set()
            assert await handle.result(timeout=10) == "second"

    run(test, hold=0.6, poll=0.2)


def test_runs_beyond_the_cache_are_evicted_and_come_back_with_their_log() -> None:
    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, max_cached_runs=2):
            handles = [await client.start(wait) for _ in range(5)]
            await server.until(
                lambda: sum(r.activation is None and bool(r.records) for r in server.memory.runs.values()) >= 3
            )
            for place, handle in enumerate(handles):
                await handle.signal("go", place)
            assert [await handle.result(timeout=10) for handle in handles] == [0, 1, 2, 3, 4]

    run(test)


def test_a_long_log_is_read_page_by_page() -> None:
    @workflow("long")
    async def long(ctx: Ctx) -> int:
        total = 0
        for _ in range(25):
            total += await ctx.step("one", one)
        await ctx.signal("go")
        return total

    async def one() -> int:
        return 1

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[long]):
            handle = await client.start(long)
            await server.until(lambda: "go" in server.memory.runs["run_1"].records)
            server.lose_session()
            await handle.signal("go")
            assert await handle.result(timeout=10) == 25

    run(test, log_page=10)


def test_tasks_and_actions_answer_with_results() -> None:
    @task("send-mail")
    async def send_mail(input: dict[str, Any], attempt: Attempt) -> str:
        return f"{input['to']} {attempt.key}"

    @task("broken")
    def broken() -> None:
        raise PermanentFailure("no", code="nope")

    @action("CloseInvoice")
    def close(entity: Entity, call: ActionCall) -> dict[str, Any]:
        if entity.status == "draft":
            raise Rejected("a draft cannot be closed")
        return {"id": entity.id, "by": call.requester, "step": call.step, "n": call.input["n"]}

    def about(status: str) -> dict[str, Any]:
        return {"type": "invoice", "id": "INV-1", "status": status, "data": {"total": 5}}

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[], tasks=[send_mail, broken], actions=[close]):
            common = {"key": "k", "attempt": 1, "fence": 3, "timeout": "30s"}
            server.call({"type": "task", "call": "c1", "name": "send-mail", "input": {"to": "ada"}, **common})
            server.call({"type": "task", "call": "c2", "name": "broken", "input": None, **common})
            entity = {
                "type": "action",
                "name": "CloseInvoice",
                "step": "close",
                "requester": "admin",
                "input": {"n": 1},
            }
            server.call({**entity, "call": "c3", "entity": about("approved"), **common})
            server.call({**entity, "call": "c4", "entity": about("draft"), **common})
            server.call({"type": "task", "call": "c5", "name": "unknown", **common})
            await server.until(lambda: len(server.results) == 5)
        results = {result.pop("call"): result for result in server.results}
        assert results["c1"] == {"output": "ada k"}
        assert results["c2"] == {"failure": {"message": "no", "class": "permanent", "code": "nope"}}
        assert results["c3"] == {"output": {"id": "INV-1", "by": "admin", "step": "close", "n": 1}}
        assert results["c4"] == {"rejected": "a draft cannot be closed"}
        assert results["c5"]["failure"]["class"] == "retryable"

    run(test)


def test_a_call_that_nobody_waits_for_is_told_to_stop() -> None:
    told: list[str] = []

    @task("slow")
    async def slow(input: None, attempt: Attempt) -> None:
        told.append("began")
        try:
            await attempt.cancelled()
        finally:
            told.append("stopped")

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[], tasks=[slow]):
            server.call({"type": "task", "call": "c1", "name": "slow", "input": None, "key": "k", "attempt": 1})
            await server.until(lambda: told == ["began"])
            server.call({"type": "abort", "call": "c1", "why": "cancelled"})
            await server.until(lambda: told == ["began", "stopped"])

    run(test)


def test_a_signal_to_the_process_lets_running_attempts_end() -> None:
    began = threading.Event()

    @workflow("slow")
    async def slow(ctx: Ctx) -> str:
        return await ctx.step("work", work)

    async def work(attempt: Attempt) -> str:
        began.set()
        await asyncio.sleep(0.3)
        return "done"

    async def test(server: ProtocolServer, client: Hapax) -> None:
        running = asyncio.create_task(worker(client, workflows=[slow], handle_signals=True).run())
        await client.start(slow)
        await server.until(began.is_set)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 5)
        assert server.memory.runs["run_1"].output == "done"
        assert server.deleted == ["wks_1"]
        last = [body for verb, body in server.requests if verb == "commit"][-1]
        assert last["free"] == 0

    run(test)


def test_a_violation_pauses_the_run_and_the_worker_goes_on() -> None:
    @workflow("bad")
    async def bad(ctx: Ctx) -> None:
        await ctx.step("a", key_of)
        await asyncio.sleep(5)

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[bad, order]):
            await client.start(bad)
            await server.until(lambda: server.memory.runs["run_1"].status == "PAUSED")
            assert "not the context's" in str(server.memory.runs["run_1"].violation)
            await (await client.start(order, {"n": 1})).result(timeout=10)

    run(test)


def test_a_failure_reaches_the_caller() -> None:
    @workflow("fail")
    async def fail(ctx: Ctx) -> None:
        await ctx.step("charge", decline)

    def decline() -> None:
        raise PermanentFailure("card declined", code="declined")

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[fail]):
            with pytest.raises(RunFailed, match="card declined") as caught:
                await (await client.start(fail)).result(timeout=10)
            assert caught.value.code == "declined"

    run(test)


def test_health_tells_whether_the_worker_hears_from_the_server() -> None:
    async def get(port: int | None, path: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        status = int((await reader.readline()).split()[1])
        writer.close()
        return status

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, health=("127.0.0.1", 0)) as running:
            assert await get(running.health_port, "/healthz") == 200
            assert await get(running.health_port, "/readyz") == 200
            assert await get(running.health_port, "/other") == 404
            server.is_answering.clear()
            end = time.monotonic() + 5
            while await get(running.health_port, "/healthz") == 200:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            server.is_answering.set()

    run(test, hold=0.6, poll=0.2)


def test_log_records_in_a_step_carry_the_effect_key(caplog: pytest.LogCaptureFixture) -> None:
    @workflow("logs")
    async def logs(ctx: Ctx) -> None:
        await ctx.step("speak", speak)

    def speak() -> None:
        logging.getLogger("mine").warning("hello")

    caplog.handler.addFilter(EffectLogFilter())

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[logs]):
            await (await client.start(logs)).result(timeout=10)

    run(test)
    record: Any = next(record for record in caplog.records if record.name == "mine")
    assert (record.hapax_run, record.hapax_step, record.hapax_effect_key) == ("run_1", "speak", "run_1:speak")


def test_many_runs_share_commits_and_the_concurrency_is_kept() -> None:
    now = {"running": 0, "most": 0}

    @workflow("busy")
    async def busy(ctx: Ctx) -> None:
        await ctx.step("work", work)

    async def work() -> None:
        now["running"] += 1
        now["most"] = max(now["most"], now["running"])
        await asyncio.sleep(0.01)
        now["running"] -= 1

    async def test(server: ProtocolServer, client: Hapax) -> None:
        async with worker(client, workflows=[busy], concurrency=64):
            handles = await asyncio.gather(*[client.start(busy) for _ in range(60)])
            await asyncio.gather(*[handle.result(timeout=10) for handle in handles])
        commits = sum(verb == "commit" for verb, _ in server.requests)
        assert commits < 60 and now["most"] <= 64

    run(test)
