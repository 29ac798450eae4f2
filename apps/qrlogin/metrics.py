"""Prometheus metrics, beside the counters of raceproof. Label values come from declarations only, and never a user."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from qrlogin.lifecycle import ENDED, Status

BUCKETS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900)


class Metrics:
    """The note's figures."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.attempts = Counter(
            "qr_login_attempts_total",
            "Attempts by the status that they have reached.",
            ["status"],
            registry=self.registry,
        )
        self.active = Gauge("qr_active_sessions", "Attempts that have not ended.", registry=self.registry)
        self.ended = Counter(
            "qr_terminal_sessions_total",
            "Attempts that have ended without a login.",
            ["reason"],
            registry=self.registry,
        )
        self.duration = Histogram(
            "qr_session_duration_seconds",
            "From the start of an attempt to its end.",
            ["status"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.renewed = Counter(
            "qr_codes_renewed_total", "Codes shown in place of one about to expire.", registry=self.registry
        )
        for status in Status:
            self.attempts.labels(status)
        for status in ENDED:
            if status is not Status.DONE:
                self.ended.labels(status)
        for word in ("success", "failed"):
            self.duration.labels(word)

    def reached(self, status: Status, seconds: float | None = None) -> None:
        """An attempt is at this status now; `seconds` is how long it took if that is its end."""
        self.attempts.labels(status).inc()
        if status in ENDED:
            if status is not Status.DONE:
                self.ended.labels(status).inc()
            if seconds is not None:
                self.duration.labels("success" if status is Status.DONE else "failed").observe(seconds)
