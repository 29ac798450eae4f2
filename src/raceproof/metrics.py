"""Prometheus counters of decisions. Label values come from declarations alone, so their number is bounded.

`transitions_total{lifecycle, move, outcome}` counts every decision; `fenced_writes_total{lifecycle, move}` those that were
refused because the caller's fence was old.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from raceproof.errors import MissingExtra
from raceproof.events import Event, subscribe

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def count_decisions(registry: "CollectorRegistry | None" = None) -> Callable[[], None]:
    """Count every decision of this process from now on; call what comes back to stop."""
    try:
        from prometheus_client import REGISTRY, Counter
    except ImportError as error:
        raise MissingExtra("prometheus-client is not installed: pip install 'raceproof[metrics]'") from error

    target = registry or REGISTRY
    transitions = Counter(
        "raceproof_transitions",
        "Decisions about moves, by what came of them",
        ("lifecycle", "move", "outcome"),
        registry=target,
    )
    fenced = Counter(
        "raceproof_fenced_writes",
        "Writes refused because the caller's fence was old",
        ("lifecycle", "move"),
        registry=target,
    )

    def count(event: Event) -> None:
        transitions.labels(event.lifecycle, event.move, event.outcome).inc()
        if event.outcome == "lost":
            fenced.labels(event.lifecycle, event.move).inc()

    stop = subscribe(count)

    def stop_counting() -> None:
        stop()
        target.unregister(transitions)
        target.unregister(fenced)

    return stop_counting
