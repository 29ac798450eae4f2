"""Prometheus metrics, beside the counters of raceproof. Label values come from declarations only."""

from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge

from imagebot.lifecycle import UNDER_WAY, Status
from raceproof.ops.metrics import count_decisions

OPEN = (*UNDER_WAY, Status.UNCERTAIN)
"""Paid for, and not ended."""


class Metrics:
    """The application's own figures."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.stop = count_decisions(self.registry)
        self.total_received = Counter("imagebot_updates_received", "Updates that were kept.", registry=self.registry)
        self.total_processed = Counter(
            "imagebot_updates_processed", "Updates that were dealt with.", registry=self.registry
        )
        self.refused = Counter(
            "imagebot_updates_refused",
            "Updates that could not be kept: answered 503.",
            registry=self.registry,
        )
        self.replies = Counter(
            "imagebot_replies",
            "Answers to webhooks and callbacks.",
            ["source", "reason"],
            registry=self.registry,
        )
        self.reply = cache(self.replies.labels)  # to look one up is slow, and it is asked for with each request
        self.queue_depth = Gauge("imagebot_queue_depth", "Updates that wait or are worked on.", registry=self.registry)
        self.active = Gauge("imagebot_active", "1 on the ACTIVE instance.", registry=self.registry)
        self.jobs = Gauge("imagebot_jobs", "Orders that have not ended.", ["status"], registry=self.registry)

    @staticmethod
    def value(metric: Counter | Gauge) -> int:
        """What a metric without labels is at."""
        return int(metric._value.get())

    def show_jobs(self, counts: dict[str, int]) -> None:
        for status in OPEN:
            self.jobs.labels(status).set(counts.get(status, 0))
