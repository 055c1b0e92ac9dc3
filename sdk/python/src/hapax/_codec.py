"""Type hints to values: dataclasses, pydantic models, TypedDict, plain JSON."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import inspect
import types
import typing
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from ._failures import DecodeError
from ._json import ExactNumber, RawJson, dumps, plain, trusted_raw

Decoder = Callable[[Any], Any]


class _KeepNumbers:
    """Marks a hint whose numbers are taken as they are written."""


ExactJson: TypeAlias = Annotated[Any, _KeepNumbers]
"""Type hint for plain JSON in which numbers with a fraction are `Decimal`s with all their digits."""


def decode(value: Any, hint: Any) -> Any:
    """The value that `hint` asks for, from JSON that `_json.loads` has read."""
    return decoder_of(hint)(value)


def decoder_of(hint: Any) -> Decoder:
    """The function that decodes values of this hint."""
    try:
        return _cached_decoder(hint)
    except TypeError:  # a hint that cannot be hashed
        return _make_decoder(hint)


@functools.lru_cache(maxsize=1024)
def _cached_decoder(hint: Any) -> Decoder:
    return _make_decoder(hint)


def _make_decoder(hint: Any) -> Decoder:
    if hint is Any or hint is object or hint is inspect.Parameter.empty or isinstance(hint, (str, typing.TypeVar)):
        return plain
    if hint is None or hint is type(None):
        return _decode_none
    if isinstance(hint, typing.NewType):
        return decoder_of(hint.__supertype__)
    origin = get_origin(hint)
    if origin is not None:
        return _generic_decoder(hint, origin, get_args(hint))
    if isinstance(hint, type):
        return _class_decoder(cast("type[Any]", hint))
    return plain


def _generic_decoder(hint: Any, origin: Any, args: tuple[Any, ...]) -> Decoder:
    if origin is Union or origin is types.UnionType:
        return _union_decoder(hint, args)
    if origin is Literal:
        return functools.partial(_decode_literal, args)
    if origin is Annotated:
        return _as_read if _KeepNumbers in args else decoder_of(args[0])
    if origin is tuple:
        return _tuple_decoder(args)
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection):
        return _list_decoder(list, args[0])
    if origin in (set, frozenset, collections.abc.Set):
        return _list_decoder(frozenset if origin is frozenset else set, args[0])
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return functools.partial(_decode_dict, decoder_of(args[0]), decoder_of(args[1]))
    if hasattr(hint, "model_validate"):
        return functools.partial(_decode_model, hint)
    return decoder_of(origin)


def _class_decoder(hint: type[Any]) -> Decoder:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hasattr(hint, "model_validate"):
        return functools.partial(_decode_model, hint)
    if dataclasses.is_dataclass(hint):
        return _dataclass_decoder(hint)
    if typing.is_typeddict(hint):
        return _typed_dict_decoder(hint)
    if issubclass(hint, enum.Enum):
        return functools.partial(_decode_enum, hint)
    if issubclass(hint, tuple) and hasattr(cast("Any", hint), "_fields"):
        return _named_tuple_decoder(cast("Any", hint))
    raise DecodeError(
        f"{hint.__name__} is not a type that JSON is decoded to; use plain JSON, a dataclass or a pydantic model"
    )


def _as_read(value: Any) -> Any:
    return value


def _wrong(wanted: str, value: Any) -> DecodeError:
    text = dumps(value)
    return DecodeError(f"expected {wanted}, got {text if len(text) <= 60 else text[:60] + '…'}")


def _decode_none(_value: Any) -> None:
    """Leaves the value out: code that returns nothing gets nothing."""


def _decode_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong("a boolean", value)


def _decode_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong("an integer", value)


def _decode_float(value: Any) -> float:
    if isinstance(value, (ExactNumber, int, float)) and not isinstance(value, bool):
        return float(value)
    raise _wrong("a number", value)


def _decode_decimal(value: Any) -> Decimal:
    if isinstance(value, ExactNumber):
        return Decimal(value.text)
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return Decimal(value)
        except ArithmeticError:
            pass
    raise _wrong("a decimal", value)


def _decode_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _wrong("a text", value)


def _decode_raw(value: Any) -> RawJson:
    return trusted_raw(dumps(value))


def _parsed(wanted: str, parse: Callable[[str], Any]) -> Decoder:
    def decode_text(value: Any) -> Any:
        if isinstance(value, str):
            try:
                return parse(value)
            except ValueError:
                pass
        raise _wrong(wanted, value)

    return decode_text


def _parse_datetime(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def _decode_timedelta(value: Any) -> dt.timedelta:
    return dt.timedelta(seconds=_decode_float(value))


def _decode_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return plain(value)
    raise _wrong("a list", value)


def _decode_plain_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return plain(value)
    raise _wrong("an object", value)


_SIMPLE: dict[type[Any], Decoder] = {
    bool: _decode_bool,
    int: _decode_int,
    float: _decode_float,
    Decimal: _decode_decimal,
    str: _decode_str,
    RawJson: _decode_raw,
    dt.datetime: _parsed("a time", _parse_datetime),
    dt.date: _parsed("a date", dt.date.fromisoformat),
    dt.time: _parsed("a time of day", dt.time.fromisoformat),
    dt.timedelta: _decode_timedelta,
    uuid.UUID: _parsed("a UUID", uuid.UUID),
    bytes: _parsed("base64", lambda text: base64.b64decode(text, validate=True)),
    list: _decode_list,
    dict: _decode_plain_dict,
}


def _decode_model(model: Any, value: Any) -> Any:
    return model.model_validate(_for_model(value))


def _for_model(value: Any) -> Any:
    kind = cast("Any", type(value))
    if kind is ExactNumber:
        # pydantic takes a Decimal for fields of both kinds, and keeps its digits.
        return Decimal(value.text)
    if kind is dict:
        return {name: _for_model(item) for name, item in value.items()}
    if kind is list:
        return [_for_model(item) for item in value]
    return value


def _decode_enum(hint: type[enum.Enum], value: Any) -> enum.Enum:
    try:
        return hint(plain(value))
    except ValueError:
        raise _wrong(f"one of {hint.__name__}", value) from None


def _decode_literal(choices: tuple[Any, ...], value: Any) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return value
    raise _wrong(f"one of {', '.join(map(repr, choices))}", value)


def _union_decoder(hint: Any, args: tuple[Any, ...]) -> Decoder:
    decoders = [decoder_of(arg) for arg in args if arg is not type(None)]
    takes_none = type(None) in args

    def decode_union(value: Any) -> Any:
        if value is None and takes_none:
            return None
        problems: list[str] = []
        for decoder in decoders:
            try:
                return decoder(value)
            except (ValueError, TypeError) as error:
                problems.append(str(error))
        if len(problems) == 1:
            raise DecodeError(problems[0])
        raise _wrong(str(hint), value)

    return decode_union


def _tuple_decoder(args: tuple[Any, ...]) -> Decoder:
    if len(args) == 2 and args[1] is Ellipsis:
        return _list_decoder(tuple, args[0])
    decoders = [decoder_of(arg) for arg in args]

    def decode_tuple(value: Any) -> Any:
        if not isinstance(value, list) or len(cast("list[Any]", value)) != len(decoders):
            raise _wrong(f"a list of {len(decoders)}", value)
        items = cast("list[Any]", value)
        return tuple(_at(f"[{place}]", decoders[place], item) for place, item in enumerate(items))

    return decode_tuple


def _list_decoder(make: Callable[[list[Any]], Any], item_hint: Any) -> Decoder:
    decoder = decoder_of(item_hint)

    def decode_items(value: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong("a list", value)
        return make([_at(f"[{place}]", decoder, item) for place, item in enumerate(cast("list[Any]", value))])

    return decode_items


def _decode_dict(key_decoder: Decoder, item_decoder: Decoder, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _wrong("an object", value)
    items = cast("dict[str, Any]", value)
    return {_key(key_decoder, name): _at(f".{name}", item_decoder, item) for name, item in items.items()}


def _key(decoder: Decoder, name: str) -> Any:
    try:
        return decoder(name)
    except DecodeError:
        return decoder(int(name))


def _at(path: str, decoder: Decoder, value: Any) -> Any:
    try:
        return decoder(value)
    except DecodeError as error:
        text = str(error)
        raise DecodeError(f"{path}{text}" if text.startswith((".", "[")) else f"{path}: {text}") from None


def _fields_decoder(
    name: str, hints: dict[str, Any], required: frozenset[str], make: Callable[[dict[str, Any]], Any]
) -> Decoder:
    decoders: dict[str, Decoder] = {}

    def decode_fields(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong(f"an object ({name})", value)
        items = cast("dict[str, Any]", value)
        if not decoders:  # made late, so that a type may refer to itself
            decoders.update({field: decoder_of(hint) for field, hint in hints.items()})
        missing = required.difference(items)
        if missing:
            raise DecodeError(f"{name} misses {', '.join(sorted(missing))}")
        # Unknown fields are left out, so that a newer sender may add some.
        return make({f: _at(f".{f}", decoders[f], item) for f, item in items.items() if f in decoders})

    return decode_fields


def _dataclass_decoder(hint: type[Any]) -> Decoder:
    hints = typing.get_type_hints(hint, include_extras=True)
    fields = [field for field in dataclasses.fields(hint) if field.init]
    needed = frozenset(
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    taken = {field.name: hints[field.name] for field in fields}
    return _fields_decoder(hint.__name__, taken, needed, lambda found: hint(**found))


def _typed_dict_decoder(hint: type[Any]) -> Decoder:
    hints = typing.get_type_hints(hint, include_extras=True)
    bare = {name: get_args(field)[0] if str(get_origin(field)) in _MARKERS else field for name, field in hints.items()}
    required = cast("frozenset[str]", getattr(hint, "__required_keys__", frozenset[str]()))
    return _fields_decoder(hint.__name__, bare, required, lambda found: found)


_MARKERS = frozenset(
    f"{module}.{marker}" for module in ("typing", "typing_extensions") for marker in ("Required", "NotRequired")
)


def _named_tuple_decoder(hint: type[Any]) -> Decoder:
    hints = typing.get_type_hints(hint, include_extras=True)
    names = cast("tuple[str, ...]", getattr(hint, "_fields"))  # noqa: B009 (a field that only named tuples have)
    decode_items = _tuple_decoder(tuple(hints.get(name, Any) for name in names))
    return lambda value: hint(*decode_items(value))
