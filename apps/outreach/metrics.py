"""Prometheus metrics, beside the counters of raceproof. Label values come from declarations only."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from outreach.lifecycle import Progress
from outreach.stages import STAGES

OUTCOMES = ("done", "failed", "dead-lettered", "put back", "lost")


class Metrics:
    """The application's own figures."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.worked = Counter(
            "outreach_worked_total",
            "Rows that were worked on, by what came of it.",
            ["stage", "outcome"],
            registry=self.registry,
        )
        self.rows = Gauge(
            "outreach_discoveries",
            "Discoveries by stage and status.",
            ["stage", "status"],
            registry=self.registry,
        )
        self.active = Gauge(
            "outreach_active_processing", "Rows that are being worked on.", ["stage"], registry=self.registry
        )
        self.stuck = Gauge(
            "outreach_stuck_locks",
            "Rows whose holder has not been heard of.",
            ["stage"],
            registry=self.registry,
        )
        self.paused = Gauge(
            "outreach_paused",
            "1 while a stage is paused, by a person or after failures of what it asks.",
            ["stage"],
            registry=self.registry,
        )
        self.pause_ends = Gauge(
            "outreach_pause_ends_seconds",
            "Unix time at which the pause of a stage ends by itself; 0 if there is none.",
            ["stage"],
            registry=self.registry,
        )
        self.matches = Gauge("outreach_matches", "Matches that exist.", registry=self.registry)
        self.reviews = Gauge("outreach_reviews_waiting", "Matches that wait for a person.", registry=self.registry)
        self.spent = Gauge("outreach_ai_spent", "What the AI has cost, or may have.", registry=self.registry)
        self.calls = Gauge("outreach_ai_calls", "Calls to the AI that were sent.", registry=self.registry)
        for stage in STAGES:
            for outcome in OUTCOMES:
                self.worked.labels(stage, outcome)
            for status in Progress:
                self.rows.labels(stage, status)
