"""Functions that the server sends work to: stateless conversations, and requests that are not the server's."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import io
import json
from pathlib import Path
from typing import Any

import pytest

from fixture_script import Return, run_async, run_sync
from hapax import Ctx, SyncCtx, task, workflow
from hapax._core.machine import StepCode
from hapax._json import RawJson, dumps, loads
from hapax._push.conversation import Conversation
from hapax.push import PushHandler

FOLDER = Path(__file__).resolve().parents[2] / "fixtures"
NOW = dt.datetime(2026, 11, 19, 5, tzinfo=dt.timezone.utc).timestamp()
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
NOT_PUSHED = {
    "abort": "its attempt ends after another message",
    "evicted": "a worker forgets, a function always does",
    "exact_decimals": "the server refuses its numbers",
    "parallel_last_alone": "its attempts end with another message between them",
    "race_loser_stops": "its attempt ends after another message",
    "reload": "it has two activations",
    "stop": "its attempt ends after another message",
}

Json = dict[str, Any]


def case_of(path: Path) -> Json:
    return loads(path.read_text())


def requests_of(case: Json) -> list[tuple[list[Json], list[Json], list[Json]]]:
    """Turns of a fixture as requests: messages, ends of attempts, items."""
    requests: list[tuple[list[Json], list[Json], list[Json]]] = []
    for turn in case["turns"]:
        given = turn["in"] if isinstance(turn["in"], list) else [turn["in"]]
        about = {"run": "run_1", "activation": "a1"}
        ends = [one for one in given if one["type"] == "ended"]
        told = [{**about, **one} for one in given if one["type"] != "ended"]
        for one in told:
            if one["type"] == "activate":
                one["input"] = case.get("input")
        last = requests[-1] if requests else None
        waits = last is not None and any(m["type"] == "attempt" for m in last[0]) and not last[1] and not last[2]
        if last is not None and ((ends and not told) or (waits and all(m["type"] == "attempt" for m in told))):
            last[0].extend(told)
            last[1].extend(ends)
            last[2].extend(turn["items"])
        else:
            requests.append((told, list(ends), list(turn["items"])))
    return requests


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_function_that_forgets_everything_answers_the_fixtures(path: Path, is_sync: bool) -> None:
    if path.stem in NOT_PUSHED:
        pytest.skip(NOT_PUSHED[path.stem])
    if path.stem == "foreign_await" and is_sync:
        pytest.skip("a plain function waits for nothing else")
    case = case_of(path)

    if is_sync:

        @workflow("fixture", sync=True)
        def flow(ctx: SyncCtx, given: RawJson) -> Any:
            try:
                return run_sync(ctx, case["script"], {"input": loads(given.text)})
            except Return as end:
                return end.value
    else:

        @workflow("fixture")
        async def flow(ctx: Ctx, given: RawJson) -> Any:
            try:
                return await run_async(ctx, case["script"], {"input": loads(given.text)})
            except Return as end:
                return end.value

    asyncio.run(plays(case, flow))


async def plays(case: Json, flow: Any) -> None:
    turns: list[Json] = []
    for messages, ends, items in requests_of(case):
        order = [end["op"] for end in ends]

        async def run(code: StepCode, message: Json, ends: list[Json] = ends, order: list[int] = order) -> Json:
            for _ in range(order.index(message["op"])):
                await asyncio.sleep(0)
            end = next(end for end in ends if end["op"] == message["op"])
            return {name: end[name] for name in ("output", "failure", "answer") if name in end}

        conversation = Conversation(turns, messages, flow, lambda: case.get("now", 0))
        conversation.machine.entropy = lambda: float(case.get("random", 0))
        got = loads(dumps(await conversation.carry_on(run, lambda op, number: None)))
        if items and isinstance(items[0].get("violation"), list):
            assert isinstance(got[0]["violation"], str)
            return
        assert got == items, case["name"]
        turns.append({"messages": messages, "items": got})


def test_values_are_played_again_as_they_were_made() -> None:
    @workflow("values")
    async def flow(ctx: Ctx, given: None) -> Any:
        return [str(ctx.now()), ctx.random(), await ctx.step("a", lambda: 7)]

    times = iter(range(5_000, 9_000))
    activate = {"type": "activate", "run": "r", "activation": "a1", "workflow": "values", "version": 1, "log": []}
    attempt = {"type": "attempt", "run": "r", "activation": "a1", "op": 3, "do": "effect", "attempt": 1, "key": "r:a"}

    async def run(code: StepCode, message: Json) -> Json:
        return {"output": 7}

    async def play() -> tuple[list[Json], list[Json]]:
        first = loads(
            dumps(await Conversation([], [activate], flow, lambda: next(times)).carry_on(run, lambda *_: None))
        )
        turns = [{"messages": [activate], "items": first}]
        again = Conversation(turns, [attempt], flow, lambda: next(times))
        return first, loads(dumps(await again.carry_on(run, lambda *_: None)))

    first, second = asyncio.run(play())
    made = [item["value"] for item in first if item["do"] == "value"]
    assert second[2]["return"][1] == made[1]


def test_code_that_does_something_else_is_a_violation() -> None:
    @workflow("x")
    async def flow(ctx: Ctx, given: None) -> Any:
        return await ctx.step("new", lambda: 1)

    activate = {"type": "activate", "run": "r", "activation": "a1", "workflow": "x", "version": 1, "log": []}
    turns = [{"messages": [activate], "items": [{"op": 1, "do": "step", "name": "old"}]}]
    items = asyncio.run(Conversation(turns, [], flow, lambda: 0).carry_on(None, lambda *_: None))  # type: ignore[arg-type]
    assert "old" in items[0]["violation"] and "new" in items[0]["violation"]


def signed(body: bytes, message_id: str = "msg_1", at: float = NOW, secret: str = SECRET) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{message_id}.{int(at)}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,AAAA v1,{base64.b64encode(made).decode()}"
    return {"Webhook-Id": message_id, "Webhook-Timestamp": str(int(at)), "Webhook-Signature": signature}


def work(**changes: Any) -> bytes:
    message = {"type": "task", "call": "c1", "name": "double", "input": 4, "key": "k", "attempt": 1, "fence": 1}
    until = dt.datetime.fromtimestamp(NOW + 10, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return json.dumps({"holdFor": "10s", "notAfter": until, "turns": [], "messages": [message], **changes}).encode()


class Doubling:
    def __init__(self) -> None:
        self.calls = 0

        @task("double")
        def double(number: int) -> int:
            self.calls += 1
            return number * 2

        self.handler = PushHandler([SECRET], tasks=[double], now=lambda: NOW)

    def status(self, headers: dict[str, str], body: bytes) -> int:
        return asyncio.run(self.handler.handle(headers, body))[0]


def test_a_request_of_the_server_is_carried_out() -> None:
    status, answer = asyncio.run(Doubling().handler.handle(signed(work()), work()))
    assert (status, json.loads(answer)) == (200, {"results": [{"call": "c1", "output": 8}]})


def test_requests_that_are_forged_late_or_repeated_run_nothing() -> None:
    served = Doubling()
    other = "whsec_" + base64.b64encode(b"o" * 32).decode()
    assert served.status(signed(work(), secret=other), work()) == 401
    assert served.status(signed(work()), work().replace(b"4", b"5")) == 401
    assert served.status({}, work()) == 401
    for at in (NOW - 301, NOW + 301):
        assert served.status(signed(work(), at=at), work()) == 401
    late = work(notAfter=dt.datetime.fromtimestamp(NOW, dt.timezone.utc).isoformat())
    assert served.status(signed(late), late) == 410
    unknown = work(messages=[{"type": "task", "call": "c", "name": "nobody", "key": "k"}])
    assert served.status(signed(unknown), unknown) == 404
    assert served.calls == 0
    # None of them used the id up.
    assert served.status(signed(work()), work()) == 200
    assert served.status(signed(work()), work()) == 409
    assert served.calls == 1


def test_it_is_an_asgi_and_a_wsgi_application() -> None:
    sent: list[Json] = []

    async def ask_asgi() -> None:
        events = iter(
            [
                {"type": "http.request", "body": work()[:10], "more_body": True},
                {"type": "http.request", "body": work()[10:]},
            ]
        )
        headers = [(name.lower().encode(), value.encode()) for name, value in signed(work()).items()]

        async def receive() -> Json:
            return next(events)

        async def send(event: Json) -> None:
            sent.append(event)

        await Doubling().handler({"type": "http", "method": "POST", "headers": headers}, receive, send)

    asyncio.run(ask_asgi())
    assert (sent[0]["status"], json.loads(sent[1]["body"])["results"][0]["output"]) == (200, 8)

    told: list[str] = []
    environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in signed(work()).items()}
    environ |= {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(work())), "wsgi.input": io.BytesIO(work())}  # type: ignore[dict-item]
    answer = Doubling().handler.wsgi(environ, lambda status, headers: told.append(status))
    assert told == ["200 OK"] and json.loads(b"".join(answer))["results"][0]["output"] == 8
    assert Doubling().handler.wsgi({"REQUEST_METHOD": "GET"}, lambda status, headers: told.append(status))
    assert told[1].startswith("405")
