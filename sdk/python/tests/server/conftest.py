"""A real server for tests, from the binary that HAPAX_BIN names."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = os.environ.get("HAPAX_BIN", "")
SDK = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.server)
            if not PROGRAM:
                item.add_marker(pytest.mark.skip(reason="set HAPAX_BIN to the hapax program"))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(condition: Callable[[], Any], seconds: float = 30.0, what: str = "it") -> Any:
    """Waits until something is so, and returns it."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come to pass")
        time.sleep(0.01)


class Server:
    """A `hapax dev` server, which can be killed and started again over the same data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        log = open(self.folder / "server.log", "ab")  # noqa: SIM115 (the process keeps it)
        command = [PROGRAM, "dev", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.folder / "data")]
        self.process = subprocess.Popen([*command, "--log", "warn"], cwd=self.folder, stdout=log, stderr=log)
        until(self.is_ready, 60, "the server's readiness")
        self.key = (self.folder / "data" / "api-key").read_text().strip()

    def is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "server.log").read_text())
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def raw(self, path: str) -> str:
        """The text of an answer, as it is."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "HAPAX_URL": self.url, "HAPAX_API_KEY": self.key, **more}


class ProductionServer(Server):
    """A `hapax serve` server with short leases, an admin and a worker."""

    def start(self) -> None:
        log = open(self.folder / "server.log", "ab")  # noqa: SIM115 (the process keeps it)
        key_file = self.folder / "root.key"
        command = [PROGRAM, "serve", "--listen", f"127.0.0.1:{self.port}", "--lease", "2s", "--log", "warn"]
        store = ["--store", f"sqlite:{self.folder / 'hapax.db'}", "--key-file", str(key_file)]
        self.process = subprocess.Popen([*command, *store], cwd=self.folder, stdout=log, stderr=log)
        until(self.is_ready, 60, "the server's readiness")
        self.root = until(lambda: key_file.exists() and key_file.read_text().strip(), what="the first key")
        self._admin("workspaces", "create", "acme")
        self.key = self._credential("admin")
        self.worker_key = self._credential("worker")

    def _credential(self, role: str) -> str:
        made = self._admin("credentials", "create", role, "--role", role, "--workspace", "acme")
        return json.loads(made)["apiKey"]

    def _admin(self, *words: str) -> str:
        environment = {**os.environ, "HAPAX_SERVER": self.url, "HAPAX_API_KEY": self.root}
        command = [PROGRAM, "admin", *words, "--json"]
        return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


class WorkerProcess:
    """`program_under_test.py` as a process of its own."""

    def __init__(self, server: Server, folder: Path, *arguments: str, key: str | None = None) -> None:
        self.effects = folder / "effects.txt"
        script = Path(__file__).parent / "program_under_test.py"
        more = {} if key is None else {"HAPAX_API_KEY": key}
        environment = server.environment(**more, EFFECTS=str(self.effects), PYTHONPATH=str(SDK / "src"))
        self.process = subprocess.Popen(
            [sys.executable, str(script), *arguments], env=environment, stdout=subprocess.PIPE, cwd=folder
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert json.loads(line)["ready"], line

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    if found.process is not None and found.process.poll() is None:
        found.process.terminate()
        found.process.wait(20)


@pytest.fixture
def production(tmp_path: Path) -> Iterator[ProductionServer]:
    found = ProductionServer(tmp_path)
    yield found
    found.kill()


@pytest.fixture
def start_worker(server: Server, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(*arguments: str) -> WorkerProcess:
        started.append(WorkerProcess(server, tmp_path, *arguments))
        return started[-1]

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.kill()


def lines(path: Path) -> list[str]:
    """The effects that happened, in their order."""
    return path.read_text().splitlines() if path.exists() else []
