"""The context of OpenTelemetry, when it is installed: a submit passes on the trace in which it was
called, and each attempt is a span of its job's trace. Without it nothing here does anything."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, ContextManager

try:
    _propagate: Any = importlib.import_module("opentelemetry.propagate")
    _trace: Any = importlib.import_module("opentelemetry.trace")
except ImportError:
    _propagate = _trace = None

_NOTHING: ContextManager[Any] = contextlib.nullcontext()


def traceparent() -> str | None:
    """Where the caller is in a trace."""
    if _propagate is None:
        return None
    carrier: dict[str, str] = {}
    _propagate.inject(carrier)
    return carrier.get("traceparent")


def attempt(kind: str, claim: Any) -> ContextManager[Any]:
    """Around a handler: a span in the trace of its job, which is the current one in the handler."""
    if _propagate is None:
        return _NOTHING
    context = _propagate.extract({"traceparent": claim.get("traceparent") or ""})
    tracer = _trace.get_tracer("pawl")
    span: ContextManager[Any] = tracer.start_as_current_span(
        kind, context=context, attributes={"pawl.attempt": claim["lease"]["attempt"]})
    return span
