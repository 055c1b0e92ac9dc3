"""Runs the scripts of the fixtures, as a workflow that is a coroutine and as one that is a plain function."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

from hapax import ExactJson, Failure, PermanentFailure, Retry, RetryableFailure, UnknownFailure
from hapax._core.context import Ctx
from hapax._core.sync_context import SyncCtx

CLASSES = {"permanent": PermanentFailure, "retryable": RetryableFailure, "unknown": UnknownFailure}


class Return(BaseException):
    def __init__(self, value: Any) -> None:
        self.value = value


def evaluate(expr: Any, variables: dict[str, Any]) -> Any:
    if isinstance(expr, dict):
        if list(expr) == ["var"]:
            value: Any = variables
            for part in expr["var"].split("."):
                value = value[part] if isinstance(value, dict) else getattr(value, part)
            return value
        return {name: evaluate(item, variables) for name, item in expr.items()}
    if isinstance(expr, list):
        return [evaluate(item, variables) for item in expr]
    return expr


def step_options(options: dict[str, Any]) -> dict[str, Any]:
    names = {
        "onDoubt": "on_doubt",
        "probeSettle": "probe_settle",
        "probeTimeout": "probe_timeout",
        "nonIdempotent": "non_idempotent",
        "rejectsStaleFences": "rejects_stale_fences",
        "compensateRetry": "compensate_retry",
    }
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("retry", "compensateRetry"):
            value = Retry(
                give_up_after=value.get("for"),
                max_attempts=value.get("maxAttempts"),
                first=value.get("first"),
                factor=value.get("factor"),
                cap=value.get("cap"),
                on_exhausted=value.get("onExhausted"),
            )
        if name in ("probe", "compensate"):
            value = (lambda *_: None) if value else None
        found[names.get(name, name)] = value
    return found


def instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00"))


def fail(failure: dict[str, Any]) -> Failure:
    return CLASSES[failure["class"]](failure["message"], code=failure.get("code"))


def error_view(error: Failure) -> dict[str, Any]:
    return {"message": error.message, "class": error.failure_class, "code": error.code}


async def run_async(ctx: Ctx, block: list[Any], variables: dict[str, Any]) -> Any:
    value: Any = None
    for statement in block:
        value = await statement_async(ctx, statement, variables)
        if "as" in statement:
            variables[statement["as"]] = value
    return value


async def statement_async(ctx: Ctx, s: dict[str, Any], variables: dict[str, Any]) -> Any:
    o = s.get("options", {})
    timeout = o.get("timeout")
    if "step" in s:
        return await ctx.step(s["step"], lambda: None, **step_options(o), returns=RETURNS)
    if "promise" in s:
        promise = ctx.promise(s["promise"], key=o.get("key"), timeout=timeout, returns=RETURNS)
        if "open" in s:
            variables[s["open"]] = promise
            return None
        return await promise
    if "wait" in s:
        return await variables[s["wait"]]
    if "awaitPromise" in s:
        return await ctx.await_promise(s["awaitPromise"], timeout=timeout, returns=RETURNS)
    if "signal" in s:
        return await ctx.signal(s["signal"], recorded_as=o.get("as"), timeout=timeout, returns=RETURNS)
    if "sleep" in s:
        return await ctx.sleep(s["sleep"], name=s.get("name"))
    if "sleepUntil" in s:
        return await ctx.sleep_until(instant(s["sleepUntil"]), name=s.get("name"))
    if "child" in s:
        given = evaluate(s.get("input"), variables)
        return await ctx.child(s["child"], given, recorded_as=o.get("as"), on_close=o.get("onClose"), returns=RETURNS)
    if "afterEffect" in s:
        return await ctx.after_effect(s["afterEffect"], evaluate(s.get("body"), variables))
    if "now" in s:
        return round(ctx.now().timestamp() * 1000)
    if "random" in s:
        return ctx.random()
    if "remember" in s:
        return ctx.remember(s["remember"], lambda: evaluate(s.get("value"), variables), returns=RETURNS)
    if "all" in s:
        return list(await ctx.all([run_async(ctx, block, variables) for block in s["all"]]))
    if "race" in s:
        branches = {f"b{n}": run_async(ctx, block, variables) for n, block in enumerate(s["race"])}
        which, value = await ctx.select(**branches)
        return {"index": int(which[1:]), "value": value}
    if "scope" in s:
        async with ctx.scope() as inner:
            return await run_async(inner, s["scope"], variables)
    if "shield" in s:
        async with ctx.shield() as inner:
            return await run_async(inner, s["shield"], variables)
    if "try" in s:
        try:
            return await run_async(ctx, s["try"], variables)
        except Failure as error:
            variables["error"] = error_view(error)
        return await run_async(ctx, s["catch"], variables)
    if "repeat" in s:
        for _ in range(s["repeat"]):
            await run_async(ctx, s["do"], variables)
        return None
    if "foreign" in s:
        return await asyncio.Event().wait()
    return end(ctx, s, variables)


def end(ctx: Ctx | SyncCtx, s: dict[str, Any], variables: dict[str, Any]) -> Any:
    if "return" in s:
        raise Return(evaluate(s["return"], variables))
    if "throw" in s:
        raise fail(s["throw"])
    if "continueAsNew" in s:
        ctx.continue_as_new(evaluate(s["continueAsNew"], variables))
    raise AssertionError(f"unknown statement {s}")


def run_sync(ctx: SyncCtx, block: list[Any], variables: dict[str, Any]) -> Any:
    value: Any = None
    for statement in block:
        value = statement_sync(ctx, statement, variables)
        if "as" in statement:
            variables[statement["as"]] = value
    return value


def statement_sync(ctx: SyncCtx, s: dict[str, Any], variables: dict[str, Any]) -> Any:
    o = s.get("options", {})
    timeout = o.get("timeout")
    if "step" in s:
        return ctx.step(s["step"], lambda: None, **step_options(o), returns=RETURNS)
    if "promise" in s:
        promise = ctx.promise(s["promise"], key=o.get("key"), timeout=timeout, returns=RETURNS)
        if "open" in s:
            variables[s["open"]] = promise
            return None
        return promise.result()
    if "wait" in s:
        return variables[s["wait"]].result()
    if "awaitPromise" in s:
        return ctx.await_promise(s["awaitPromise"], timeout=timeout, returns=RETURNS)
    if "signal" in s:
        return ctx.signal(s["signal"], recorded_as=o.get("as"), timeout=timeout, returns=RETURNS)
    if "sleep" in s:
        return ctx.sleep(s["sleep"], name=s.get("name"))
    if "sleepUntil" in s:
        return ctx.sleep_until(instant(s["sleepUntil"]), name=s.get("name"))
    if "child" in s:
        given = evaluate(s.get("input"), variables)
        return ctx.child(s["child"], given, recorded_as=o.get("as"), on_close=o.get("onClose"), returns=RETURNS)
    if "afterEffect" in s:
        return ctx.after_effect(s["afterEffect"], evaluate(s.get("body"), variables))
    if "now" in s:
        return round(ctx.now().timestamp() * 1000)
    if "random" in s:
        return ctx.random()
    if "remember" in s:
        return ctx.remember(s["remember"], lambda: evaluate(s.get("value"), variables), returns=RETURNS)
    if "all" in s:
        return list(ctx.all([lambda block=block: run_sync(ctx, block, variables) for block in s["all"]]))
    if "race" in s:
        blocks = enumerate(s["race"])
        branches = {f"b{n}": lambda block=block: run_sync(ctx, block, variables) for n, block in blocks}
        which, value = ctx.select(**branches)
        return {"index": int(which[1:]), "value": value}
    if "scope" in s:
        with ctx.scope() as inner:
            return run_sync(inner, s["scope"], variables)
    if "shield" in s:
        with ctx.shield() as inner:
            return run_sync(inner, s["shield"], variables)
    if "try" in s:
        try:
            return run_sync(ctx, s["try"], variables)
        except Failure as error:
            variables["error"] = error_view(error)
        return run_sync(ctx, s["catch"], variables)
    if "repeat" in s:
        for _ in range(s["repeat"]):
            run_sync(ctx, s["do"], variables)
        return None
    return end(ctx, s, variables)


RETURNS: Any = ExactJson
