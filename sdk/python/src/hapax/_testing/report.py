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
        return f"{self.crash} → {self.outcome}"


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

    def __str__(self) -> str:
        key = "under its key" if self.reads_key else "with nothing outside that would notice"
        parts = [
            f"{self.name} ({self.effect_class}): entered {self.usual} to {self.most} times",
            key if self.most > self.usual else "",
            "may be in doubt" if self.can_be_in_doubt else "",
            "may be left undone" if self.can_be_left_undone else "",
        ]
        return ", ".join(part for part in parts if part)


@dataclass
class CrashReport:
    """Result of all executions."""

    usual_end: str = ""
    output: object = None
    crashes: int = 0
    zombies: int = 0
    effects: dict[str, EffectReport] = field(default_factory=dict[str, EffectReport])
    findings: list[Finding] = field(default_factory=list[Finding])

    def effect(self, name: str) -> EffectReport:
        """The report on one effect."""
        __tracebackhide__ = True
        found = self.effects.get(name)
        if found is None:
            raise AssertionError(f"the workflow has no effect {name!r}; it has\n{self}")
        return found

    def assert_safe(self) -> None:
        """Raises `AssertionError` with the simplest finding, if there is one."""
        __tracebackhide__ = True
        if self.findings:
            raise AssertionError(f"{self.findings[0]}\n\n{self}")

    def assert_effect(self, name: str, expectation: Expectation) -> None:
        """Raises `AssertionError` unless the effect has this guarantee."""
        __tracebackhide__ = True
        effect = self.effect(name)
        at_most_once = effect.most <= effect.usual
        holds = {
            "at_most_once": at_most_once,
            "at_least_once": not effect.can_be_left_undone,
            "exactly_once": at_most_once and not effect.can_be_left_undone and not effect.can_be_in_doubt,
        }[expectation]
        if not holds:
            raise AssertionError(f"effect {name!r} is not {expectation}: {effect}")

    def expect(self, **effects: Expectation) -> CrashReport:
        """`assert_effect` for several effects whose names are Python names: `report.expect(wire="at_most_once")`."""
        __tracebackhide__ = True
        for name, expectation in effects.items():
            self.assert_effect(name, expectation)
        return self

    def __str__(self) -> str:
        lines = [f"{self.crashes} crashes, {self.zombies} zombies:"]
        return "\n".join([*lines, *(f"  {effect}" for effect in self.effects.values())])


def ordinal(nth: int) -> str:
    """The number as a word."""
    return {1: "first", 2: "second", 3: "third"}.get(nth, f"{nth}th")
