"""JSON, type hints, durations and failures."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import math
import uuid
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict

import pytest

from hapax import DecodeError, ExactJson, PermanentFailure, RawJson, RetryableFailure, StepFailed
from hapax._codec import decode
from hapax._durations import to_millis, to_text
from hapax._failures import failure_of
from hapax._json import dumps, loads, payload


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal
    count: int = 1


class Address(TypedDict, total=False):
    street: str


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    lines: list[Line]
    at: dt.datetime
    colour: Colour
    note: str | None = None
    address: Address = dataclasses.field(default_factory=lambda: Address())
    point: Point | None = None
    kind: Literal["a", "b"] = "a"
    next: Order | None = None


def test_numbers_keep_their_digits() -> None:
    text = '{"big":9007199254740993,"huge":123456789012345678901234567890,"price":1.10,"tiny":1e-400,"e":1E+2}'
    assert dumps(loads(text)) == text
    assert decode(loads(text), RawJson).text == text
    exact = decode(loads(text), ExactJson)
    assert exact["price"] == Decimal("1.10") and str(exact["price"].text) == "1.10"
    assert decode(loads(text), Any)["price"] == 1.1 and type(decode(loads(text), Any)["price"]) is float
    assert RawJson(text).parse()["big"] == 9007199254740993


def test_decimals_are_written_as_numbers() -> None:
    assert dumps({"total": Decimal("1.10"), "raw": RawJson('{"a": 1.50}')}) == '{"total":1.10,"raw":{"a": 1.50}}'
    assert decode(loads("1.10"), Decimal) == Decimal("1.10") and str(decode(loads("1.10"), Decimal)) == "1.10"
    assert str(decode("1.10", Decimal)) == "1.10"
    for bad in (Decimal("NaN"), math.inf):
        with pytest.raises(ValueError):
            dumps(bad)
    with pytest.raises(ValueError, match="NUL"):
        dumps([Decimal(1), "\x000\x00"])


def test_what_the_server_would_refuse_is_refused_here() -> None:
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    good = [deep, 18446744073709551615, -9223372036854775808, "\\u0000", "é" * 500_000, ["a"] * 200]
    for value in good:
        assert loads(payload(value).text) == value
    bad = [[deep], 1 << 64, -(1 << 63) - 1, "\x00", "a\\\x00", "x" * 2_100_000, "é" * 1_100_000, RawJson("1e400")]
    for value in bad:
        with pytest.raises(ValueError):
            payload(value)


def test_any_text_survives() -> None:
    for text in ("Žluťoučký 🐎 é 日本", '\u2028 \\ " \t', "\x00", "a" * 100_000):
        assert loads(dumps(text)) == text
    with pytest.raises(ValueError):
        RawJson("{")
    with pytest.raises(ValueError, match="NaN"):
        loads("NaN")


def test_type_hints_come_back_as_they_were() -> None:
    order = Order(
        uuid.uuid4(),
        [Line("a", Decimal("1.10"), 2), Line("b", Decimal("0.30"))],
        dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc),
        Colour.RED,
        address={"street": "Main"},
        point=Point(1, 2),
        next=Order(uuid.uuid4(), [], dt.datetime(2026, 1, 1), Colour.RED),
    )
    assert decode(loads(dumps(order)), Order) == order


@pytest.mark.parametrize(
    ("value", "hint", "words"),
    [
        ('{"sku":"a"}', Line, "Line misses price"),
        ('[{"sku":1,"price":1}]', list[Line], r"\[0\].sku: expected a text, got 1"),
        ('{"a":"x"}', dict[str, int], ".a: expected an integer"),
        ("true", int, "expected an integer, got true"),
        ('"blue"', Colour, "one of Colour"),
        ('"c"', Literal["a", "b"], "one of 'a', 'b'"),
        ("[1]", tuple[int, str], "a list of 2"),
        ('"x"', int | None, "expected an integer"),
        ('"yesterday"', dt.datetime, "expected a time"),
        ("5", object().__class__ | None, None),
    ],
)
def test_what_does_not_fit_says_where(value: str, hint: Any, words: str | None) -> None:
    if words is None:
        assert decode(loads(value), hint) == 5
        return
    with pytest.raises(DecodeError, match=words):
        decode(loads(value), hint)


def test_more_hints() -> None:
    assert decode([1, 2], tuple[int, ...]) == (1, 2)
    assert decode([1, 2, 2], set[int]) == {1, 2}
    assert decode(loads("[1.5]"), list[float]) == [1.5]
    assert decode({"1": "a"}, dict[int, str]) == {1: "a"}
    assert decode(None, int | None) is None
    assert decode("2026-01-02T03:04:05Z", dt.datetime).tzinfo is not None
    assert decode({"sku": "a", "price": 1, "new": True}, Line) == Line("a", Decimal(1))
    assert decode({"street": "Main"}, Address) == {"street": "Main"}
    with pytest.raises(DecodeError, match="not a type that JSON is decoded to"):
        decode(1, type("Odd", (), {}))
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        dumps(object())


def test_the_type_of_a_step_is_that_of_its_function() -> None:
    from hapax._core.hints import returns_of

    def make(model: type[Any]) -> Any:
        def step():  # type: ignore[no-untyped-def]
            return model

        step.__annotations__["return"] = model
        return step

    class Charge:
        async def __call__(self) -> Line: ...

        def method(self) -> Colour: ...

    assert returns_of(make(Line), None) is Line and returns_of(make(Order), None) is Order
    assert returns_of(Charge().method, None) is Colour
    assert returns_of(functools.partial(make(Line), 1), None) is Line
    assert returns_of(lambda: 1, None) is Any and returns_of(make(Line), Order) is Order


def test_pydantic_models_are_validated() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        price: Decimal
        big: int

    found = decode(loads('{"price":1.10,"big":12345678901234567890}'), Model)
    assert str(found.price) == "1.10" and found.big == 12345678901234567890
    assert decode(loads(dumps(found)), Model) == found
    with pytest.raises(ValueError, match="price"):
        decode({"big": 1}, Model)


def test_durations_are_read_and_written() -> None:
    assert [to_millis(d) for d in ("1h30m", "500ms", 2, 0.25, dt.timedelta(days=1))] == [
        5_400_000,
        500,
        2_000,
        250,
        86_400_000,
    ]
    assert [to_text(d) for d in ("7d", 2, 0.25)] == ["7d", "2s", "250ms"]
    for bad in ("", "1", "1x", "1s1h", -1):
        with pytest.raises(ValueError):
            to_text(bad)


def test_failures_say_whether_the_effect_happened() -> None:
    assert failure_of(ValueError("odd")) == {"message": "ValueError: odd", "class": "unknown"}
    assert failure_of(PermanentFailure("no", code="c")) == {"message": "no", "class": "permanent", "code": "c"}
    retry = RetryableFailure("busy", retry_after=2, details={"a": 1})
    wire = {"message": "busy", "class": "retryable", "retryAfter": "2s", "details": {"a": 1}}
    assert failure_of(retry) == wire
    assert failure_of(StepFailed("charge", {**wire, "more": 1})) == {**wire, "more": 1}
    assert len(failure_of(ValueError("x" * 10_000))["message"]) == 2_000
    assert failure_of(PermanentFailure("no", details="x" * 3_000_000))["details"] is None
    assert failure_of(ValueError("a\0b \ud800"))["message"] == "ValueError: ab ?"
