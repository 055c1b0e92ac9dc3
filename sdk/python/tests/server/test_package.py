"""The package as people get it: built, installed into an empty environment, and the README's quickstart."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import PROGRAM, SDK, free_port

ROOT = SDK.parents[1]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this platform: the program, without debug symbols, and the SDK."""
    folder = tmp_path_factory.mktemp("wheel")
    program = folder / "hapax"
    if shutil.which("strip"):
        subprocess.run(["strip", "-o", program, PROGRAM], check=True)
    else:
        shutil.copy(PROGRAM, program)
    tag = re.sub(r"[-.]", "_", sysconfig.get_platform())
    files = [SDK / "README.md", ROOT / "LICENSE-MIT", ROOT / "LICENSE-APACHE"]
    command = [sys.executable, ROOT / "packaging/pypi/make_wheel.py", "0.1.0", tag, program, *files, folder]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(made.stdout.strip())


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as found:
        return {name for name in found.namelist() if name.startswith("hapax/")}


def test_the_wheel_of_every_platform_holds_the_same_sdk(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, SDK], check=True)
    pure = next(tmp_path.glob("*.whl"))
    assert pure.name == "hapax-0.1.0-py3-none-any.whl"
    assert names_in(pure) == names_in(wheel)
    assert {"hapax/py.typed", "hapax/__init__.py", "hapax/_core/machine.py"} <= names_in(wheel)


def test_the_quickstart_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    pip = [environment / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)
    folder = tmp_path / "empty"
    folder.mkdir()
    readme = SDK / "README.md"
    (folder / "order.py").write_text(blocks(readme, "python")[0])
    port = free_port()
    given = {
        "PATH": f"{environment / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "HAPAX_LISTEN": f"127.0.0.1:{port}",
        "HAPAX_SERVER": f"http://127.0.0.1:{port}",
    }
    script = f"trap 'kill $(jobs -p)' EXIT\nset -e\n{blocks(readme, 'sh')[0]}"
    ran = subprocess.run(["bash", "-c", script], cwd=folder, env=given, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr + (folder / "hapax.log").read_text()
    wanted = re.escape(blocks(readme, "output")[0]).replace("…", "[0-9a-f]+")
    assert re.fullmatch(wanted, ran.stdout), ran.stdout


def test_the_installed_package_is_typed_and_needs_nothing(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as found:
        metadata = found.read("hapax-0.1.0.dist-info/METADATA").decode()
    assert "Requires-Dist" not in metadata
    assert "Requires-Python: >=3.10" in metadata
    assert os.path.exists(SDK / "src/hapax/py.typed")
