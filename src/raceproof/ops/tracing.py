"""OpenTelemetry: one span for each decision of any primitive, as long as it took, and one for each failed statement.

`raceproof.move`, `raceproof.claim`, `raceproof.deliver`, `raceproof.start`, `raceproof.lease`, `raceproof.receive` and so
on. A failure records only the class of its error, because the message may contain secrets.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from raceproof.kernel import statement
from raceproof.kernel.errors import missing_extra
from raceproof.kernel.events import Event, subscribe

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


__all__ = ["trace_decisions"]


def trace_decisions(provider: "TracerProvider | None" = None) -> Callable[[], None]:
    """Create a span for every decision from now on, under the caller's current span; call the result to stop."""
    try:
        from opentelemetry import trace
        from opentelemetry.trace import Status, StatusCode
    except ImportError as error:
        raise missing_extra("opentelemetry-api", "otel") from error

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

    def failed(asked: statement.Statement, error: Exception) -> None:
        cause = error.__cause__ if isinstance(error, statement.AcknowledgementLost) else None
        attributes = {"raceproof.statement": asked.name, "error.type": type(cause or error).__qualname__}
        failure = tracer.start_span("raceproof.failed", attributes=attributes)
        failure.set_status(Status(StatusCode.ERROR))
        failure.end()

    stops = (subscribe(span), statement.watch_failures(failed))

    def stop_tracing() -> None:
        for stop in stops:
            stop()

    return stop_tracing
