"""Prometheus metrics, beside the counters of raceproof. Label values come from declarations only."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from devices.lifecycle import Status


class Metrics:
    """The application's own figures."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.submitted = Counter(
            "devices_submitted_total",
            "Commands by what came of submitting them.",
            ["outcome"],
            registry=self.registry,
        )
        self.responses = Counter(
            "devices_responses_total", "Responses of nodes.", ["status", "outcome"], registry=self.registry
        )
        self.commands = Gauge("devices_commands", "Commands that have not ended.", ["status"], registry=self.registry)
        self.uncertain = Gauge(
            "devices_uncertain",
            "Commands that may have arrived without anybody knowing.",
            registry=self.registry,
        )
        self.nodes = Gauge("devices_nodes", "Nodes by presence.", ["state"], registry=self.registry)
        self.oldest = Gauge(
            "devices_oldest_waiting_seconds",
            "The age of the oldest command that waits.",
            registry=self.registry,
        )
        for status in (Status.QUEUED, Status.SENT, Status.ACK, Status.SEND_FAILED):
            self.commands.labels(status)
