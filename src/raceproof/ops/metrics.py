"""Prometheus: counters of decisions, and gauges of the state of a store. Label values come from declarations alone.

Keys, holders, reasons and errors are never labels, so the declarations bound the number of series. Where callers choose
names freely (`by` of a delivery, the source of an event), only the names given here are labels; all others are `other`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from raceproof.claims.answers import Claim
from raceproof.declare.statuses import text_of_status
from raceproof.kernel import statement
from raceproof.kernel.errors import missing_extra
from raceproof.kernel.events import Event, subscribe
from raceproof.leases import LeaseGranted

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

__all__ = ["Reading", "StateGauges", "count_decisions"]

PREFIX = "raceproof_"
OTHER = "other"

# name -> what it counts, and its labels; Prometheus adds _total
COUNTERS = {
    "transitions": ("Decisions about moves, by outcome", ("lifecycle", "move", "outcome")),
    "fenced_writes": ("Writes refused because of a stale fence", ("lifecycle", "move")),
    "claims": ("Claims, renewals and releases of rows, by outcome", ("lifecycle", "claim", "outcome")),
    "deliveries": ("Permits to send and recorded outcomes, by caller", ("delivery", "path", "outcome")),
    "attempts_superseded": ("Attempts superseded by the next one", ("lifecycle",)),
    "leader_changes": ("Leases that this process took over", ("lease",)),
    "inbox_received": ("Events received by an inbox", ("inbox", "source", "outcome")),
    "store_errors": ("Statements that failed or got no answer", ("statement", "kind")),
}
GAUGES = {
    "state_items": ("Rows at a status, up to the counting limit", ("lifecycle", "status")),
    "state_oldest_timestamp_seconds": ("Since when the oldest row has been at a status", ("lifecycle", "status")),
    "claims_held": ("Rows held under an unexpired lease", ("lifecycle", "claim")),
    "attempts_active": ("Open attempts that are not overdue", ("lifecycle",)),
    "inbox_oldest_timestamp_seconds": ("When the oldest waiting event was received", ("inbox",)),
    "leader": ("1 if the lease is held: in an application by this process, otherwise by any process", ("lease",)),
    "leader_epoch": ("The last known epoch of the lease", ("lease",)),
}
ACKNOWLEDGED = ("inbox_ack_seconds", "Time to store an event", ("inbox",))
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

_NOT_PERMITTED = {"delivered": "already", "sending": "busy", "reserved": "busy", "uncertain": "held"}


class Reading(NamedTuple):
    """One value of a gauge."""

    gauge: str
    labels: tuple[str, ...]
    value: float


def count_decisions(
    registry: "CollectorRegistry | None" = None, *, paths: Sequence[str] = (), sources: Sequence[str] = ()
) -> Callable[[], None]:
    """Count every decision of this process from now on; call the result to stop.

    `paths` name the callers of deliveries, such as `("callback", "poller")`: a `by` that equals one, or begins with one
    and a punctuation mark, counts as it. `sources` are the sources of events.
    """
    prometheus = _prometheus()
    target = registry or prometheus.REGISTRY
    counting = _Counting(prometheus, target, paths, sources)
    stops = (subscribe(counting.count), statement.watch_failures(counting.failed))

    def stop_counting() -> None:
        for stop in stops:
            stop()
        for metric in counting.metrics:
            target.unregister(metric)

    return stop_counting


class _Counting:
    """The metrics of one registry, and how events count."""

    def __init__(self, prometheus: Any, registry: Any, paths: Sequence[str], sources: Sequence[str]) -> None:
        counters = {
            name: prometheus.Counter(PREFIX + name, text, labels, registry=registry)
            for name, (text, labels) in COUNTERS.items()
        }
        leases = {
            name: prometheus.Gauge(PREFIX + name, *GAUGES[name], registry=registry)
            for name in ("leader", "leader_epoch")
        }
        name, text, labels = ACKNOWLEDGED
        self._acknowledged = prometheus.Histogram(PREFIX + name, text, labels, buckets=_BUCKETS, registry=registry)
        self._counters, self._gauges = counters, leases
        self.metrics = [*counters.values(), *leases.values(), self._acknowledged]
        self._paths, self._sources = tuple(paths), frozenset(sources)
        self._deadlines: dict[str, dict[str, float]] = {}
        self._series: dict[tuple[str, ...], Any] = {}

    def count(self, event: Event) -> None:
        if event.outcome == "lost":
            self._add("fenced_writes", event.lifecycle, event.move)
        match event.operation:
            case "move":
                self._moved(event, event.move, event.outcome)
            case "claim" | "renew" | "release" | "fail":
                self._claim(event)
            case "deliver" | "mark" | "resolve":
                self._delivery(event)
            case "start":
                self._start(event)
            case "lease":
                self._lease(event)
            case "receive":
                self._receive(event)
            case _:
                self._moved(event, event.move, event.outcome)

    def failed(self, asked: statement.Statement, error: Exception) -> None:
        kind = "unanswered" if isinstance(error, statement.AcknowledgementLost) else "error"
        self._add("store_errors", asked.name, kind)

    def _moved(self, event: Event, move: str, outcome: str) -> None:
        self._add("transitions", event.lifecycle, move, outcome)

    def _claim(self, event: Event) -> None:
        answer: Any = event.answer
        claim, outcome = answer.declared, event.outcome
        if event.operation == "renew" and outcome == "claimed":
            outcome = "renewed"
        elif event.operation == "fail" and outcome == "released":
            outcome = "failed"
        self._add("claims", event.lifecycle, event.move, outcome)
        # a claim, its end and its last end are moves as well, where they are declared so
        if outcome == "claimed" and isinstance(answer, Claim) and claim.move:
            if text_of_status(answer.before) != claim.move.target:
                self._moved(event, claim.move.name, "moved")
        elif outcome in ("released", "failed") and claim.back:
            self._moved(event, claim.back.name, "moved")
        elif outcome == "dead-lettered" and claim.dead_letter:
            self._moved(event, claim.dead_letter.name, "moved")

    def _delivery(self, event: Event) -> None:
        outcome = event.outcome
        if event.operation == "deliver":
            outcome = _NOT_PERMITTED.get(outcome, outcome)
        elif event.operation == "mark" and outcome == "won":
            return  # the send begins
        elif event.operation == "resolve" and event.answer.won:
            outcome = "resolved"
        self._add("deliveries", event.lifecycle, self._path(event.by), outcome)

    def _path(self, by: str | None) -> str:
        for path in self._paths:
            if by == path or (by and by.startswith(path) and not by[len(path)].isalnum()):
                return path
        return OTHER

    def _start(self, event: Event) -> None:
        answer: Any = event.answer
        self._moved(event, event.move, event.outcome)
        if getattr(answer, "superseded", None) is not None:
            self._add("attempts_superseded", event.lifecycle)
            self._moved(event, answer.declared.supersede.name, "moved")

    def _lease(self, event: Event) -> None:
        answer: Any = event.answer
        lease, by = event.lifecycle, event.by or ""
        deadlines = self._deadlines.setdefault(lease, {})
        if not hasattr(answer, "epoch"):
            return  # the answer is unknown
        for gone in [one for one, deadline in deadlines.items() if deadline <= time.monotonic()]:
            del deadlines[gone]
        if isinstance(answer, LeaseGranted):
            deadlines[by] = answer.deadline
            if answer.taken_over:
                self._add("leader_changes", lease)
        else:
            deadlines.pop(by, None)
        self._gauges["leader_epoch"].labels(lease).set(answer.epoch)
        self._gauges["leader"].labels(lease).set_function(lambda: float(_any_unexpired(deadlines)))

    def _receive(self, event: Event) -> None:
        answer: Any = event.answer
        inbox = answer.declared.table
        source = event.key[0] if event.key[0] in self._sources else OTHER
        self._add("inbox_received", inbox, source, event.outcome)
        self._acknowledged.labels(inbox).observe(time.monotonic() - event.started)

    def _add(self, name: str, *labels: str) -> None:
        series = self._series.get((name, *labels))
        if series is None:  # looking one up is slow, and every decision needs one
            series = self._series[name, *labels] = self._counters[name].labels(*labels)
        series.inc()


def _any_unexpired(deadlines: dict[str, float]) -> bool:
    """Whether a lease granted to this process may still be held."""
    return any(deadline > time.monotonic() for deadline in tuple(deadlines.values()))


class StateGauges:
    """Gauges of the state of a store: read when scraped, at most once in `every` seconds, or set with `show`.

    gauges = StateGauges(registry, look=lambda: snapshot(store, Job, logins).readings())      # a sync store
    gauges.show((await snapshot(store, Job, logins)).readings())                             # an async one, periodically
    """

    def __init__(
        self,
        registry: "CollectorRegistry | None" = None,
        look: Callable[[], Iterable[Reading]] | None = None,
        every: float = 15.0,
    ) -> None:
        self._prometheus = _prometheus()
        self._registry = registry or self._prometheus.REGISTRY
        self._look, self._every = look, every
        self._readings: list[Reading] = []
        self._looked: float | None = None
        self._lock = threading.Lock()
        self._registry.register(self)

    def show(self, readings: Iterable[Reading]) -> None:
        """Set the current values."""
        self._readings = list(readings)

    def close(self) -> None:
        self._registry.unregister(self)

    def describe(self) -> "Iterator[GaugeMetricFamily]":
        """Nothing: the names depend on the readings."""
        return iter(())

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        """Called by Prometheus; concurrent scrapes share one read."""
        with self._lock:
            if self._look and (self._looked is None or time.monotonic() - self._looked >= self._every):
                self.show(self._look())
                self._looked = time.monotonic()
            readings = self._readings
        families: dict[str, Any] = {}
        for one in readings:
            text, labels = GAUGES[one.gauge]
            if one.gauge not in families:
                families[one.gauge] = self._prometheus.core.GaugeMetricFamily(PREFIX + one.gauge, text, labels=labels)
            families[one.gauge].add_metric(one.labels, one.value)
        yield from families.values()


def _prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise missing_extra("prometheus-client", "metrics") from error
    return prometheus_client
