"""The code on README and the guide."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import types
from pathlib import Path

import pytest

SDK = Path(__file__).resolve().parents[1]
GUIDE = SDK.parents[1] / "docs/python.md"


def python_blocks(page: Path) -> list[str]:
    return [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)]


def run_test_of(program: str, test: str) -> None:
    """Runs the test of the README on a program, as if both stood in one file."""
    module = types.ModuleType("readme_order")
    sys.modules[module.__name__] = module
    exec(program.replace("asyncio.run(main())", "") + test, module.__dict__)
    module.__dict__["test_no_crash_does_harm"]()


def test_the_readme_tests_its_own_workflow() -> None:
    program, test = python_blocks(SDK / "README.md")
    run_test_of(program, test)
    broken = program.replace('print(f"shipping as {attempt.key}")', 'print("shipping")')
    with pytest.raises(AssertionError, match="crash after `ship` ran and before it was recorded → `ship` ran twice"):
        run_test_of(broken, test)


def test_the_readme_quickstart_is_short() -> None:
    lines = [line for line in python_blocks(SDK / "README.md")[0].splitlines() if line.strip()]
    assert len(lines) <= 30


@pytest.mark.parametrize("block", python_blocks(GUIDE), ids=lambda block: block.splitlines()[0][:40])
def test_the_code_of_the_guide_is_python(block: str) -> None:
    compile(block, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_names_on_the_guide_exist() -> None:
    import hapax
    import hapax.testing
    from hapax import Ctx, Hapax, RunHandle

    text = GUIDE.read_text()
    for name in re.findall(r"`(?:async with )?ctx\.(\w+)", text):
        assert hasattr(Ctx, name), name
    for name in re.findall(r"`client\.(\w+)", text):
        assert hasattr(Hapax, name), name
    for name in re.findall(r"`handle\.(\w+)\(", text):
        assert hasattr(RunHandle, name), name
    for name in re.findall(r"`([A-Z][a-z]+[A-Za-z]*)`", text):
        known = hasattr(hapax, name) or hasattr(hapax.testing, name)
        assert known or name in ("TypedDict", "Decimal"), name
