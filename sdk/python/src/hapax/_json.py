"""JSON that keeps integers of any size and the digits of decimals.

Python's `json` keeps integers. For other numbers this module reads an `ExactNumber`, which remembers its text, and
writes `decimal.Decimal`, `ExactNumber` and `RawJson` as they are.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from ._limits import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH


class ExactNumber(Decimal):
    """A JSON number with a fraction or an exponent, and the text it was read from."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> ExactNumber:
        try:
            number = super().__new__(cls, text)
        except InvalidOperation:
            raise ValueError(f"the number {text[:40]} is out of range") from None
        number.text = text
        return number


class RawJson:
    """JSON text. As an input, an output or a type hint it keeps the digits of every number."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        loads(text)
        self.text = text

    @classmethod
    def of(cls, value: object) -> RawJson:
        """The JSON text of a value."""
        return trusted_raw(dumps(value))

    def parse(self) -> Any:
        """The value, with floats for numbers that have a fraction."""
        return plain(loads(self.text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawJson) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"RawJson({self.text!r})"


def trusted_raw(text: str) -> RawJson:
    """`RawJson` of a text that `dumps` has made, without reading it again."""
    raw = RawJson.__new__(RawJson)
    raw.text = text
    return raw


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(parse_float=ExactNumber, parse_constant=_no_constant)


def loads(text: str | bytes) -> Any:
    """Reads JSON. Numbers with a fraction or an exponent become `ExactNumber`."""
    return _decoder.decode(text if isinstance(text, str) else text.decode())


def plain(value: Any) -> Any:
    """The same value with a float for every `ExactNumber`."""
    kind = cast("Any", type(value))
    if kind is ExactNumber:
        return float(value)
    if kind is dict:
        return {name: plain(item) for name, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    return value


def payload(value: object) -> RawJson:
    """JSON text that the server stores. Raises `ValueError` or `TypeError` for what it would refuse."""
    text = dumps(value)
    if len(text) > MAX_PAYLOAD_BYTES // 4 and len(text.encode()) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"it has more than {MAX_PAYLOAD_BYTES} bytes of JSON; store the data elsewhere and pass a reference"
        )
    if "\\u0000" in text and _NUL.search(text):
        raise ValueError("text cannot hold NUL")
    if _LONG_NUMBER.search(text):
        _check_numbers(text)
    if text.count("[") + text.count("{") > MAX_PAYLOAD_DEPTH and _depth_of(loads(text)) > MAX_PAYLOAD_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_PAYLOAD_DEPTH} levels")
    return trusted_raw(text)


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_LONG_NUMBER = re.compile(r"\d{19}|\d[eE]")


def _check_numbers(text: str) -> None:
    def check_int(number: str) -> int:
        if not -(1 << 63) <= int(number) < 1 << 64:
            raise ValueError(f"the integer {number[:40]} does not fit 64 bits; write it as text")
        return 0

    def check_float(number: str) -> float:
        if math.isinf(float(number)):
            raise ValueError(f"the number {number[:40]} is out of range; write it as text")
        return 0.0

    json.loads(text, parse_int=check_int, parse_float=check_float)


def _depth_of(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        nested: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                nested.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                nested.extend(cast("list[Any]", item))
            else:
                continue
        if not any(isinstance(item, (dict, list)) for item in level):
            break
        deepest += 1
        level = nested
    return deepest


_HOLE = re.compile(r'"\\u0000(\d+)\\u0000"')


def dumps(value: object) -> str:
    """Writes compact JSON.

    Dataclasses, pydantic models, enums, dates, UUIDs, sets and bytes are written as a reader with the same type
    hint takes them. `Decimal` is written as a number with all its digits.
    """
    holes: list[str] = []

    def default(item: object) -> Any:
        exact = _exact_text(item)
        if exact is None:
            return _jsonable(item)
        holes.append(exact)
        return f"\x00{len(holes) - 1}\x00"

    text = json.dumps(value, default=default, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not holes:
        return text
    if text.count("\\u0000") != 2 * len(holes):
        raise ValueError("text in JSON cannot hold NUL")
    return _HOLE.sub(lambda found: holes[int(found[1])], text)


def _exact_text(item: object) -> str | None:
    if isinstance(item, RawJson):
        return item.text
    if isinstance(item, ExactNumber):
        return item.text
    if isinstance(item, Decimal):
        if not item.is_finite():
            raise ValueError(f"{item} is not JSON")
        return str(item)
    return None


def _kind_of(item: Any) -> str:
    return type(item).__name__


def _jsonable(item: Any) -> Any:
    model_dump: Callable[..., Any] | None = getattr(item, "model_dump", None)
    if model_dump is not None and not isinstance(item, type):
        return model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    if isinstance(item, enum.Enum):
        return item.value
    if isinstance(item, (dt.datetime, dt.date, dt.time)):
        return item.isoformat()
    if isinstance(item, dt.timedelta):
        return item.total_seconds()
    if isinstance(item, uuid.UUID):
        return str(item)
    if isinstance(item, (bytes, bytearray)):
        return base64.b64encode(item).decode()
    if isinstance(item, (set, frozenset)):
        return sorted(cast("set[Any]", item))
    if isinstance(item, Mapping):
        return dict(cast("Any", item))
    raise TypeError(f"a {_kind_of(item)} cannot be written as JSON; use plain JSON, a dataclass or a pydantic model")
