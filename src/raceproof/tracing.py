"""OpenTelemetry: one span for each decision, as long as the decision took."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from raceproof.errors import MissingExtra
from raceproof.events import Event, subscribe

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


def trace_decisions(provider: "TracerProvider | None" = None) -> Callable[[], None]:
    """Make a span of every decision from now on, under the caller's current one; call what comes back to stop."""
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise MissingExtra("opentelemetry-api is not installed: pip install 'raceproof[otel]'") from error

    tracer = trace.get_tracer("raceproof", tracer_provider=provider)

    def span(event: Event) -> None:
        ended = time.time_ns()
        took = int((time.monotonic() - event.started) * 1e9)
        attributes: dict[str, str | bool] = {
            "raceproof.lifecycle": event.lifecycle,
            "raceproof.move": event.move,
            "raceproof.outcome": event.outcome,
            "raceproof.key": str(event.key),
            "raceproof.settled": event.settled,
        }
        name = f"raceproof.{event.operation}"
        tracer.start_span(name, start_time=ended - took, attributes=attributes).end(end_time=ended)

    return subscribe(span)
