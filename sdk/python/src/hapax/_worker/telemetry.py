"""Log fields and OpenTelemetry spans of attempts. OpenTelemetry is used if it is installed."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

logger = logging.getLogger("hapax.worker")

_fields: ContextVar[dict[str, Any] | None] = ContextVar("hapax_fields", default=None)


class EffectLogFilter(logging.Filter):
    """Adds `hapax_run`, `hapax_step`, `hapax_effect_key` and `hapax_attempt` to records logged inside a step.

    Add it to your handler: `handler.addFilter(EffectLogFilter())`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        fields = _fields.get() or {}
        for name in ("run", "step", "effect_key", "attempt"):
            if not hasattr(record, f"hapax_{name}"):
                setattr(record, f"hapax_{name}", fields.get(name))
        return True


def log_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as `extra` of a log call."""
    return {f"hapax_{name}": value for name, value in fields.items()}


def _opentelemetry() -> Any:
    try:
        return importlib.import_module("opentelemetry.trace"), importlib.import_module("opentelemetry.propagate")
    except ImportError:
        return None


_found = _opentelemetry()


@contextlib.contextmanager
def attempt_context(name: str, trace: str | None, fields: dict[str, Any]) -> Generator[None, None, None]:
    """Sets log fields, and a span that continues `trace`, around an attempt."""
    token = _fields.set(fields)
    try:
        if _found is None:
            yield
            return
        trace_api, propagate = _found
        context = propagate.extract({"traceparent": trace}) if trace else None
        attributes = {f"hapax.{key}": value for key, value in fields.items() if value is not None}
        tracer = trace_api.get_tracer("hapax")
        with tracer.start_as_current_span(name, context=context, attributes=attributes):
            yield
    finally:
        _fields.reset(token)
