"""A function in its own process, which a real server sends work to."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SDK, Server, until

from hapax import SyncHapax


class FunctionProcess:
    def __init__(self, folder: Path) -> None:
        self.log = folder / "function.txt"
        script = Path(__file__).parent / "function_process.py"
        environment = {"PYTHONPATH": str(SDK / "src")}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, str(script)], env=environment, stdout=out)
        ready = until(lambda: self.said("ready"), 30, "the function")
        self.url = f"http://127.0.0.1:{ready[0].split()[1]}/"

    def said(self, start: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(start)]


@pytest.fixture
def function(tmp_path: Path) -> Iterator[FunctionProcess]:
    found = FunctionProcess(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()


def send(url: str, body: str, headers: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(url, body.encode(), headers or {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    return json.loads(text) if text else None


def register(server: Server, function: FunctionProcess, **more: Any) -> None:
    asked = {"name": "lambda", "url": function.url, "workflows": [{"name": "pushed-order"}], "tasks": ["pushed-mail"]}
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    made = send(f"{server.url}/api/v1/push-workers", json.dumps({**asked, **more}), headers)
    send(f"{function.url}secret", made["secret"])


def test_a_function_runs_workflows_and_tasks(server: Server, function: FunctionProcess) -> None:
    register(server, function)
    with SyncHapax(server.url, server.key) as hapax:
        run = hapax.start("pushed-order", {"amount": 5})
        until(lambda: function.said("charge"), 30, "the charge")
        run.signal("approved", {"by": "ada"})
        assert run.result(timeout=30) == {"charge": "ch_5", "by": "ada", "made": True}
    assert len(function.said("charge")) == 1, "the code is played again, the effect is not"


def test_a_function_that_does_not_answer_leaves_a_claimed_effect_in_doubt(
    server: Server, function: FunctionProcess
) -> None:
    register(server, function, timeout="2s")
    with SyncHapax(server.url, server.key) as hapax:
        hapax.start("pushed-order", {"amount": 1, "stall": True})
        until(lambda: function.said("wire"), 30, "the transfer")
    found = until(lambda: json.loads(server.raw("/api/v1/doubts"))["items"], 60, "the doubt")
    assert found[0]["stepId"] == "wire"
    assert len(function.said("wire")) == 1
