"""One event for each decision, told in one place (L15)."""

import logging
import sqlite3
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from raceproof import Lifecycle, Store, bind
from raceproof.kernel.events import Event, log_to, subscribe, subscribed
from raceproof.ops.metrics import count_decisions
from raceproof.ops.tracing import trace_decisions

LAMP = Lifecycle.from_dict(
    {
        "name": "Lamp",
        "table": "lamps",
        "statuses": ["OFF", "ON"],
        "fence": "fence",
        "moves": {"light": {"from": "OFF", "to": "ON"}, "douse": {"from": "ON", "to": "OFF"}},
    }
)
LIGHT = LAMP.moves["light"]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE lamps (id TEXT PRIMARY KEY, status TEXT, fence INTEGER)")
    connection.execute("INSERT INTO lamps VALUES ('a', 'OFF', 5)")
    yield connection
    connection.close()


@pytest.fixture
def db(connection: sqlite3.Connection) -> Store:
    return bind(connection)


def test_a_subscriber_that_fails_harms_nobody(db: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged, the others are told, the caller gets the answer."""
    told: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError("broken subscriber")

    with subscribed(broken), subscribed(told.append):
        assert db.move(LIGHT, "a").won
    assert [event.outcome for event in told] == ["moved"]
    assert "broken subscriber" in caplog.text


def test_whoever_stops_is_told_no_more(db: Store) -> None:
    """Subscribing costs nothing afterwards."""
    told: list[Event] = []
    stop = subscribe(told.append)
    db.move(LIGHT, "a")
    stop()
    db.move(LIGHT, "a")
    assert len(told) == 1


def test_in_a_transaction_of_the_caller_a_decision_is_not_settled(db: Store, connection: sqlite3.Connection) -> None:
    """The event says that it may still be rolled back."""
    told: list[Event] = []
    with subscribed(told.append):
        connection.execute("BEGIN")
        db.move(LIGHT, "a")
        connection.execute("ROLLBACK")
        db.move(LIGHT, "a")
    assert [event.settled for event in told] == [False, True]


def test_a_log_line_has_the_outcome_as_a_tag(db: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Greppable: what, which row, who."""
    stop = log_to()
    with caplog.at_level(logging.INFO, "raceproof"):
        db.move(LIGHT, "a", by="ann")
        db.move(LIGHT, "a")
    stop()
    assert [record.message for record in caplog.records] == [
        "[MOVE_MOVED] Lamp.light moved 'a' from OFF to ON by=ann",
        "[MOVE_ALREADY] Lamp.light found 'a' at ON already by=-",
    ]


def test_decisions_are_counted_by_what_came_of_them(db: Store) -> None:
    """Labels come from declarations alone: a thousand keys make no new series."""
    registry = CollectorRegistry()
    stop = count_decisions(registry)
    for number in range(1000):
        db.move(LIGHT, f"nobody {number}")
    db.move(LIGHT, "a", fence=4)
    db.move(LIGHT, "a", fence=5)
    labels = {"lifecycle": "Lamp", "move": "light"}
    value = registry.get_sample_value
    assert value("raceproof_transitions_total", {**labels, "outcome": "missing"}) == 1000
    assert value("raceproof_transitions_total", {**labels, "outcome": "moved"}) == 1
    assert value("raceproof_fenced_writes_total", labels) == 1
    assert sum(len(family.samples) for family in registry.collect()) < 12
    stop()
    assert list(registry.collect()) == []


def test_each_decision_is_a_span(db: Store) -> None:
    """As long as the decision took, with what came of it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stop = trace_decisions(provider)
    db.move(LIGHT, "a")
    stop()
    provider.shutdown()
    (span,) = exporter.get_finished_spans()
    assert span.name == "raceproof.move"
    assert span.attributes is not None
    assert span.attributes["raceproof.outcome"] == "moved"
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time >= span.start_time
