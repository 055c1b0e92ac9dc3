"""What `crash_everywhere` found out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Expectation: TypeAlias = Literal["at_most_once", "at_least_once", "exactly_once"]
ExpectedEnd: TypeAlias = Literal["completed", "failed", "waiting"]


@dataclass(frozen=True)
class Finding:
    """A fault and the harm that it does."""

    crash: str
    outcome: str
    length: int

    def __str__(self) -> str:
        return f"{self.crash}: {self.outcome}"


@dataclass
class EffectReport:
    """What crashes do to one effect."""

    name: str
    effect_class: str
    usual: int
    most: int
    reads_key: bool = False
    can_happen_twice: bool = False
    can_be_in_doubt: bool = False
    can_be_left_undone: bool = False


@dataclass
class CrashReport:
    """Result of all executions."""

    usual_end: str = ""
    output: object = None
    crashes: int = 0
    zombies: int = 0
    effects: dict[str, EffectReport] = field(default_factory=dict[str, EffectReport])
    findings: list[Finding] = field(default_factory=list[Finding])

    def assert_safe(self) -> None:
        """Raises `AssertionError` with the shortest finding, if there is one."""
        __tracebackhide__ = True
        if self.findings:
            more = len(self.findings) - 1
            rest = f" ({more} more)" if more else ""
            raise AssertionError(f"{self.findings[0]}{rest}")

    def expect(self, **effects: Expectation) -> CrashReport:
        """Raises `AssertionError` unless each effect is what you expect; `-` and `.` in names are written `_`."""
        __tracebackhide__ = True
        known = {name.replace("-", "_").replace(".", "_"): effect for name, effect in self.effects.items()}
        for name, expectation in effects.items():
            effect = known.get(name)
            if effect is None:
                raise AssertionError(f"no effect is called {name}; there are {', '.join(sorted(known)) or 'none'}")
            problem = _mismatch(effect, expectation)
            if problem:
                raise AssertionError(f"`{effect.name}` {problem}, expected {expectation}")
        return self


def _mismatch(effect: EffectReport, expectation: Expectation) -> str | None:
    may_repeat = effect.most > effect.usual
    may_miss = effect.can_be_in_doubt or effect.can_be_left_undone
    if expectation in ("at_most_once", "exactly_once") and may_repeat:
        return f"ran up to {effect.most} times"
    if expectation in ("at_least_once", "exactly_once") and may_miss:
        return "may be left undone or in doubt"
    return None


def ordinal(nth: int) -> str:
    """The number as a word."""
    return {1: "first", 2: "second", 3: "third"}.get(nth, f"{nth}th")
