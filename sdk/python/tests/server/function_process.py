"""A function that cannot poll, in a process of its own. It tells what it does line by line."""

from __future__ import annotations

import sys
import time
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from hapax import ActionCall, Attempt, Entity, Rejected, SyncCtx, action, task, workflow
from hapax.push import PushHandler


def say(*words: object) -> None:
    print(*words, flush=True)


@workflow("pushed-order", sync=True)
def order(ctx: SyncCtx, given: dict[str, Any]) -> dict[str, Any]:
    def charge(attempt: Attempt) -> str:
        say("charge", attempt.key, attempt.number)
        return f"ch_{given['amount']}"

    made = ctx.now()
    charged = ctx.step("charge", charge)
    if given.get("stall"):

        def wire() -> None:
            say("wire")
            time.sleep(600)

        ctx.step("wire", wire, claimed=True)
    approved = ctx.signal("approved")
    return {"charge": charged, "by": approved["by"], "made": made.year > 2000}


@task("pushed-mail")
def mail(message: dict[str, Any]) -> dict[str, Any]:
    return {"to": message["to"]}


@action("PushedClose")
def close(entity: Entity, call: ActionCall) -> dict[str, Any]:
    if entity.id == "INV-2":
        raise Rejected("it has open items")
    return {"closed": entity.id}


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    handlers: list[PushHandler] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/secret":
            secret = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
            handlers[:] = [PushHandler(secret, workflows=[order], tasks=[mail], actions=[close])]
            start_response("200 OK", [("Content-Length", "0")])
            return []
        return handlers[0].wsgi(environ, start_response)

    server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
    say("ready", server.server_port)
    sys.exit(server.serve_forever())
