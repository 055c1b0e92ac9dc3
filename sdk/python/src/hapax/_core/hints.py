"""Types of outputs, as the code gives them."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import Any, cast

from .._limits import MAX_CACHED_HINTS


def returns_of(fn: Callable[..., Any], returns: Any) -> Any:
    """Type of the output of a step: as given, or the return annotation."""
    if returns is not None:
        return returns
    while isinstance(fn, functools.partial):
        fn = cast("Callable[..., Any]", fn.func)
    annotations: dict[str, Any] = getattr(fn, "__annotations__", {})
    if "return" not in annotations:
        return _return_hint(fn) if not isinstance(fn, types.FunctionType) else Any
    try:
        # The same code may have another annotation in another closure.
        name = (getattr(fn, "__code__", fn), annotations["return"])
        if name not in _hints_of_code:
            if len(_hints_of_code) >= MAX_CACHED_HINTS:
                _hints_of_code.clear()
            _hints_of_code[name] = _return_hint(fn)
        return _hints_of_code[name]
    except TypeError:  # an annotation that cannot be hashed
        return _return_hint(fn)


_hints_of_code: dict[Any, Any] = {}


def _return_hint(fn: Callable[..., Any]) -> Any:
    try:
        hint = typing.get_type_hints(fn, include_extras=True).get("return", Any)
    except Exception:
        return Any
    origin = typing.get_origin(hint)
    if origin is not None and typing.get_args(hint) and getattr(origin, "__name__", "") in ("Awaitable", "Coroutine"):
        return typing.get_args(hint)[-1]
    return hint


def child_of(workflow: Any, returns: Any) -> tuple[str, Any]:
    """Name and output type of a child."""
    if isinstance(workflow, str):
        return workflow, returns
    return workflow.name, workflow.output_hint
