"""L15: every decision is counted and traced, and nothing that a stranger can name becomes a label."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from raceproof import Claim, Lease, LeaseGranted, SendPermit, bind
from raceproof.inbox import Arrival
from raceproof.kernel.statement import watch_failures
from raceproof.ops.doctor.snapshot import snapshot
from raceproof.ops.metrics import ACKNOWLEDGED, COUNTERS, GAUGES, PREFIX, StateGauges, count_decisions
from raceproof.ops.tracing import trace_decisions
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Entry, Job, Login, Parcel, Stage, bot, letters, logins, pictures

LONG_AGO = datetime.now(UTC) - timedelta(days=1)
HOSTILE = ('"}\n# EOF', "a" * 300, "x\\", "💥", "mallory")


@pytest.fixture
def registry() -> Iterator[CollectorRegistry]:
    found = CollectorRegistry()
    stop = count_decisions(found, paths=("callback", "poller"), sources=("shop",))
    yield found
    stop()
    assert list(found.collect()) == []


def value(registry: CollectorRegistry, name: str, *labels: str) -> float | None:
    names = COUNTERS[name][1] if name in COUNTERS else GAUGES[name][1]
    sample = PREFIX + name + ("_total" if name in COUNTERS else "")
    return registry.get_sample_value(sample, dict(zip(names, labels, strict=True)))


def everything(ill: Ill, by: str = "w") -> None:
    """One decision of each kind, and the race against it."""
    db = ill.db
    for key in ("a", "b", "c"):
        ill.put("ill_jobs", id=key + by, status="QUEUED", made_at=1)
    db.offer(Job.work, [key + by for key in "abc"])
    for key in ("a", "b"):
        db.claim_one(Job.work, key + by, by=by)
    db.claim_one(Job.work, "a" + by, by=by + "2")
    stale = db.claim_one(Job.work, "c" + by, by=by, now=LONG_AGO)
    assert isinstance(stale, Claim)
    held = db.claim_one(Job.work, "c" + by, by=by)
    assert isinstance(held, Claim)
    db.move(Job.finish, stale, by=by, reason=by)
    db.renew(held)
    db.release(held, reason=by)
    db.move(Job.finish, "nobody " + by, by=by)
    db.start_attempt(logins, by, "1" + by)
    db.start_attempt(logins, by, "2" + by)
    ill.put("ill_pictures", id="p" + by, state="ready")
    permit = db.begin_delivery(pictures, "p" + by, by="callback-" + by)
    db.begin_delivery(pictures, "p" + by, by="poller")
    assert isinstance(permit, SendPermit)
    db.delivered(permit)
    db.begin_delivery(pictures, "p" + by, by=by)
    leading = db.acquire_lease(bot, by)
    if isinstance(leading, LeaseGranted):
        db.acquire_lease(bot, by + "2")
        db.release_lease(leading)
        following = db.acquire_lease(bot, by + "2")
        assert isinstance(following, LeaseGranted)
        db.release_lease(following)
    for source in ("shop", by):
        for _ in range(2):
            db.receive(letters, Arrival(source, "e" + by, b"{}"))


def test_each_decision_is_counted_as_what_it_is(ill: Ill, registry: CollectorRegistry) -> None:
    """Won and lost, on every store alike."""
    everything(ill)
    for name, labels, number in (
        ("transitions", ("Job", "start", "moved"), 3),
        ("transitions", ("Job", "requeue", "moved"), 1),
        ("transitions", ("Job", "finish", "lost"), 1),
        ("transitions", ("Job", "finish", "missing"), 1),
        ("transitions", ("Login", "supersede", "moved"), 1),
        ("fenced_writes", ("Job", "finish"), 1),
        ("claims", ("Job", "work", "claimed"), 4),
        ("claims", ("Job", "work", "taken"), 1),
        ("claims", ("Job", "work", "renewed"), 1),
        ("claims", ("Job", "work", "released"), 1),
        ("deliveries", ("picture", "callback", "won"), 1),
        ("deliveries", ("picture", "poller", "busy"), 1),
        ("deliveries", ("picture", "callback", "delivered"), 1),
        ("deliveries", ("picture", "other", "already"), 1),
        ("attempts_superseded", ("Login",), 1),
        ("leader_changes", ("bot",), 1),
        ("leader", ("bot",), 0),
        ("inbox_received", ("ill_inbox", "shop", "received"), 1),
        ("inbox_received", ("ill_inbox", "shop", "duplicate"), 1),
        ("inbox_received", ("ill_inbox", "other", "duplicate"), 1),
    ):
        assert value(registry, name, *labels) == number, (name, labels)
    assert registry.get_sample_value("raceproof_inbox_ack_seconds_count", {"inbox": "ill_inbox"}) == 4
    epoch = value(registry, "leader_epoch", "bot")
    assert epoch is not None
    assert epoch > 0


def test_who_leads_believes_so_until_its_deadline(ill: Ill, registry: CollectorRegistry) -> None:
    """1 while it leads; a belief that has run out is none, though nobody has said so."""
    leading = ill.db.acquire_lease(bot, "w")
    assert isinstance(leading, LeaseGranted)
    assert value(registry, "leader", "bot") == 1
    brief = Lease("brief", 0.001, bot.table)
    gone = ill.db.acquire_lease(brief, "w")
    assert isinstance(gone, LeaseGranted)
    while value(registry, "leader", "brief"):
        pass
    assert value(registry, "leader_epoch", "brief") == gone.epoch


def test_nothing_that_a_stranger_names_becomes_a_label(ill: Ill, registry: CollectorRegistry) -> None:
    """Hostile keys, holders, owners, reasons, sources: the series are as many as before, and their values declared."""
    everything(ill)
    gauges = StateGauges(registry, lambda: snapshot(ill.db, Job, Login, logins, letters).readings(), every=0.0)
    before = series(registry)
    for hostile in HOSTILE:
        everything(ill, hostile)
    after = series(registry)
    assert {name for name, _ in after} == {name for name, _ in before}
    assert after == before
    declared = {
        *map(str, (*Stage, *Entry)),
        "Job",
        "Login",
        "bot",
        "picture",
        "ill_inbox",
        "shop",
        "callback",
        "poller",
    }
    declared |= {*Job.spec.moves, *Login.spec.moves, "work", "other", "attempt", "Inbox", "receive"}
    declared |= {"received", "processing", "done", "dead"}
    free = {text for name, labels in after for label, text in labels if label not in ("outcome", "le")}
    assert free <= declared
    assert len(after) < 120
    gauges.close()


def series(registry: CollectorRegistry) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in registry.collect()
        for sample in family.samples
    }


def test_what_the_store_fails_to_answer_is_counted(registry: CollectorRegistry) -> None:
    """By our own name for the statement; the error itself goes to the caller."""
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        db = bind(connection)
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError):
                db.move(Parcel.finish, ("x", 1))
        stop = watch_failures(broken)
        with pytest.raises(sqlite3.OperationalError):  # and not the error of who watches
            db.move(Parcel.finish, ("x", 1))
        stop()
    connection.close()
    total = sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "raceproof_store_errors_total" and sample.labels["kind"] == "error"
    )
    assert total == 3


def broken(*_: object) -> None:
    raise RuntimeError("broken watcher")


def test_every_decision_and_every_failure_has_a_span(ill: Ill) -> None:
    """Of moves, claims, deliveries, attempts, leases and events; a failure is told by its class alone."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stop = trace_decisions(provider)
    everything(ill)
    if ill.dialect != "redis":
        ill.run("DROP TABLE ill_parcels")
        with pytest.raises(Exception, match="ill_parcels"):
            ill.db.move(Parcel.finish, ("x", 1))
    stop()
    ill.db.move(Job.finish, "told no more")
    provider.shutdown()
    spans = exporter.get_finished_spans()
    named: dict[str, list[Any]] = {}
    for span in spans:
        named.setdefault(span.name, []).append(span)
    told = {"move", "claim", "renew", "release", "deliver", "mark", "start", "lease", "receive"}
    assert {f"raceproof.{one}" for one in told} <= set(named)
    assert {span.attributes["raceproof.outcome"] for span in named["raceproof.lease"]} == {
        "granted",
        "released",
        "took over",
        "held by another",
    }
    assert all(span.attributes["raceproof.key"] != "told no more" for span in named["raceproof.move"])
    if ill.dialect != "redis":
        (failed,) = named["raceproof.failed"]
        assert not failed.status.is_ok
        assert "ill_parcels" not in str(dict(failed.attributes))


def test_every_name_of_the_product_is_there() -> None:
    """As product.md lists them."""
    names = {f"{name}_total" for name in COUNTERS} | set(GAUGES) | {ACKNOWLEDGED[0]}
    assert names == {
        "transitions_total", "state_items", "state_oldest_timestamp_seconds", "claims_total", "claims_held",
        "fenced_writes_total", "deliveries_total", "attempts_active", "attempts_superseded_total", "leader",
        "leader_epoch", "leader_changes_total", "inbox_received_total", "inbox_ack_seconds",
        "inbox_oldest_timestamp_seconds", "store_errors_total",
    }  # fmt: skip
