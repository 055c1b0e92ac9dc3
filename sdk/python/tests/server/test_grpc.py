"""gRPC as other clients see it: generated code, health, reflection, and the program of the docs page."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import SDK, Server

grpc = pytest.importorskip("grpc")
pytest.importorskip("grpc_tools")

PROTO = SDK.parents[1] / "crates/api/proto"
PAGE = SDK.parents[1] / "docs/grpc.md"


def block(start: str) -> str:
    """A code block of the page."""
    return PAGE.read_text().split(start, 1)[1].split("```", 1)[0]


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Code from `protoc`."""
    folder = tmp_path_factory.mktemp("generated")
    ours = [str(path.relative_to(PROTO)) for path in sorted((PROTO / "hapax/v1").glob("*.proto"))]
    files = ["google/api/annotations.proto", "google/api/http.proto", *ours]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(PROTO), "--python_out=.", "--grpc_python_out=."]
    subprocess.run([*command, *files], cwd=folder, check=True)
    return folder


def echo(server: Server) -> None:
    """Uploads the workflow that the page starts."""
    step = {"name": "say", "type": "task", "task": "echo", "input": {"order": "{{ input.order }}"}}
    output = {"order": "{{ steps.say.output.order }}"}
    document = {"name": "echo", "version": 1, "steps": [step], "output": output}
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{server.url}/api/v1/workflow-definitions", json.dumps(document).encode(), headers
    )
    urllib.request.urlopen(request, timeout=30).close()


def test_the_program_of_the_page_prints_what_the_page_says(server: Server, generated: Path, tmp_path: Path) -> None:
    echo(server)
    program = tmp_path / "call.py"
    program.write_text(block("```python\n# call.py\n"))
    environment = {"HAPAX_API_KEY": server.key, "PYTHONPATH": str(generated)}
    command = [sys.executable, str(program), f"127.0.0.1:{server.port}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("```text\n")


def test_health_and_reflection_answer_other_peoples_clients(server: Server) -> None:
    health_pb2: Any = pytest.importorskip("grpc_health.v1.health_pb2")
    health_pb2_grpc: Any = pytest.importorskip("grpc_health.v1.health_pb2_grpc")
    reflection: Any = pytest.importorskip("grpc_reflection.v1alpha.proto_reflection_descriptor_database")
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        database = reflection.ProtoReflectionDescriptorDatabase(channel)
        assert "hapax.v1.Workers" in database.get_services()
        file = database.FindFileContainingSymbol("hapax.v1.SchedulePromise")
        fields = {field.name: field.number for field in file.message_type[0].field}
        wanted = {"name": 1, "timeout_ms": 2, "idempotency_key": 3, "idempotency_key_ttl_seconds": 4}
        assert fields == wanted
