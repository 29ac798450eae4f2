"""What a declaration says can be done by every store, or it does not import: times, counts, columns and their roles."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from math import inf, nan
from typing import Any

import pytest

from raceproof import (
    AsyncStore,
    Attempts,
    Backoff,
    ConcurrencyLimit,
    DeclarationError,
    Delivery,
    Inbox,
    Lease,
    Lifecycle,
    Scheduler,
    claimable,
    column,
    move,
)
from raceproof.declare.spec import LONGEST
from raceproof.kernel.errors import CallError
from raceproof.run import Schedules


class Stage(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    ASIDE = "ASIDE"
    DONE = "DONE"


class Job(Lifecycle[Stage], table="jobs"):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    requeue = move(Stage.RUNNING, to=Stage.QUEUED)
    give_up = move(Stage.QUEUED, Stage.RUNNING, to=Stage.ASIDE)
    finish = move(Stage.QUEUED, Stage.RUNNING, Stage.ASIDE, to=Stage.DONE)


MOVES: dict[str, Any] = Job.spec.to_dict()["moves"]
TIMES: dict[str, Callable[[Any], object]] = {
    "lease": lambda seconds: Lease("bot", seconds),
    "limit": lambda seconds: ConcurrencyLimit("bot", 1, seconds),
    "delivery": lambda seconds: Delivery("letter", "letters", stale=seconds),
    "inbox keep": lambda seconds: Inbox(keep=seconds),
    "inbox lease": lambda seconds: Inbox(lease=seconds),
    "schedules": lambda seconds: Schedules(lease=seconds),
    "attempts": lambda seconds: Attempts(Job, "owner", Job.finish, started="began_at", ttl=seconds),
    "claim": lambda seconds: jobs({"lease": seconds}),
    "expires open": lambda seconds: jobs({}, expires=[seconds, 1]),
    "expires ended": lambda seconds: jobs({}, expires=[1, seconds]),
}
COUNTS: dict[str, Callable[[Any], object]] = {
    "limit": lambda count: ConcurrencyLimit("bot", count),
    "inbox": lambda count: Inbox(attempts=count),
    "claim": lambda count: jobs({"attempts": "tries", "max_attempts": count}),
}


def jobs(work: Any, **changes: Any) -> Any:
    """A lifecycle with one claim, and with settings of it that are wrong, or one that is."""
    settings = {"move": "start", "lease": 30, **work} if isinstance(work, dict) else work
    declared = {"name": "Job", "table": "jobs", "statuses": list(map(str, Stage)), "moves": MOVES}
    return Lifecycle.from_dict({**declared, "claims": {"work": settings}, **changes})


@pytest.mark.parametrize("seconds", [inf, nan, 0, -1, 1e12, 10**400, "5", True, [1], timedelta(minutes=5)], ids=repr)
@pytest.mark.parametrize("thing", TIMES)
def test_a_time_without_an_end_is_declared_nowhere(thing: str, seconds: Any) -> None:
    """Nor one that is over at once, nor what is not a number of seconds: no store could count by it."""
    with pytest.raises(DeclarationError, match="a hundred years at most"):
        TIMES[thing](seconds)


@pytest.mark.parametrize("thing", TIMES)
def test_a_century_can_be_declared_and_a_blink_too(thing: str) -> None:
    """The bounds are those that every store can count by."""
    assert TIMES[thing](LONGEST)
    assert TIMES[thing](0.001)
    assert TIMES[thing](1)


@pytest.mark.parametrize("count", [0, -1, 1.5, 2.0, "3", True, inf, nan], ids=repr)
@pytest.mark.parametrize("thing", COUNTS)
def test_a_count_is_a_whole_number(thing: str, count: Any) -> None:
    """Of slots, of tries, of claims; one at least."""
    with pytest.raises(DeclarationError, match="give 1 or more"):
        COUNTS[thing](count)
    assert COUNTS[thing](1)


@pytest.mark.parametrize("seconds", [inf, nan, 0, -1, 1e12, "x", True, None, timedelta(hours=1)], ids=repr)
def test_a_schedule_runs_every_so_many_seconds(seconds: Any) -> None:
    """Anything else is told when the job is added, not when its first run has ended."""
    scheduler = Scheduler(AsyncStore(None))  # type: ignore[arg-type]  # it is not asked
    with pytest.raises(CallError, match="a hundred years at most"):
        scheduler.every(seconds, "vetting", lambda: None)  # type: ignore[arg-type, return-value]


def test_what_is_wrong_with_an_inbox_or_schedules_is_told_when_they_are_made() -> None:
    """Not at the first event."""
    with pytest.raises(DeclarationError, match="not Backoff"):
        Inbox(backoff=5)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="not a backoff"):
        Inbox(backoff=Backoff(inf, 1))
    for made in (Inbox, Schedules):
        with pytest.raises(DeclarationError, match="table name"):
            made("a..b")


BAD: list[Any] = [5, None, True, "x", [], {}, [5], [None], [[1], [2]], {"x": 1}, {5: 5}, 1.5]
SETTINGS = (
    *("move", "at", "lease", "form", "order_by", "ordering_key", "where"),
    *("attempts", "max_attempts", "not_before", "backoff", "back", "dead_letter", "raw"),
)
TOP = (
    *("name", "table", "key", "column", "statuses", "initial", "terminal", "moves", "claims"),
    *("revision", "fence", "tenant", "history", "expires"),
)


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("setting", [*SETTINGS, *(f"/{name}" for name in TOP), "work", "/moves/start"])
def test_nonsense_in_a_dict_or_a_file_is_a_declaration_error(setting: str, bad: Any) -> None:
    """Never an error of Python's own, which says neither where nor what to write instead."""
    match setting.split("/"):
        case ["", "moves", name]:
            tried = [{"moves": {**MOVES, name: bad}}]
            for part in ("from", "to", "stamp", "sets", "where"):
                tried.append({"moves": {**MOVES, name: {**MOVES[name], part: bad}}})
        case ["", name]:
            tried = [{name: bad}]
        case ["work"]:
            tried = [{"claims": {"work": bad}}]
        case _:
            tried = [{"claims": {"work": {"move": "start", "lease": 30, setting: bad}}}]
    for changes in tried:
        with suppress(DeclarationError):  # some of it means something after all
            jobs({}, **changes)


@pytest.mark.parametrize(
    ("problem", "work"),
    [
        ("claims: must be a table of settings, not 5", None),
        ("claim work: must be a table of settings, not 5", 5),
        ("not 'abc'", {"lease": "abc"}),
        ("not None", {"lease": None}),
        ("max_attempts='3'", {"attempts": "n", "max_attempts": "3"}),
        ("claim work: backoff: must be a list of two numbers, not 5", {"backoff": 5}),
        ("claim work: backoff: must be a list of two numbers", {"backoff": [1, 2, 3]}),
        ("is not a backoff", {"backoff": ["a", "b"]}),
        (
            "claim work: at: a status must be text, or a member of an Enum whose values are text, got 5 (int)",
            {"at": 5},
        ),
        ("claim work: where: must be a list, not 5", {"where": 5}),
        ("5 is not a predicate", {"where": [5]}),
        ("claim work: move: write a name", {"move": ["start"]}),
    ],
)
def test_a_wrong_setting_of_a_claim_is_named(problem: str, work: Any) -> None:
    """With what to write instead."""
    with pytest.raises(DeclarationError) as caught:
        jobs({}, claims=5) if work is None else jobs(work)
    assert problem in str(caught.value)


def test_a_claim_of_a_class_is_checked_alike() -> None:
    """Before its lifecycle is made, or with it."""
    for settings in (
        {"backoff": 5},
        {"backoff": 0},
        {"form": "fence"},
        {"back": "start"},
        {"at": 5},
        {"where": 5},
    ):
        with pytest.raises(DeclarationError):
            claimable(lease=30, **settings)
    with pytest.raises(DeclarationError, match="give 1 or more"):

        class Late(Lifecycle[Stage], table="late", initial=tuple(Stage)):
            finish = move(Stage.QUEUED, to=Stage.DONE)
            work = claimable(at=Stage.QUEUED, lease=30, attempts="tries", max_attempts=2.5)  # type: ignore[arg-type]


def test_a_claim_makes_moves_of_its_own_lifecycle() -> None:
    """That of another would be forgotten without a word, and the row would stay where it is."""
    with pytest.raises(DeclarationError, match="not one of its lifecycle"):

        class Other(Lifecycle[Stage], table="others", initial=tuple(Stage)):
            finish = move(Stage.QUEUED, to=Stage.DONE)
            work = claimable(Job.start, lease=30)


STAMPED = {**MOVES, "start": {**MOVES["start"], "stamp": ["began_at"], "sets": ["note"]}}
STAMPED |= {
    "requeue": {**MOVES["requeue"], "stamp": ["back_at"], "sets": ["note"]},
    "give_up": {**MOVES["give_up"], "stamp": ["up_at"], "sets": ["note"]},
}
AT = {"kind_of_form": "timestamp", "column": "x"}
MARK = {"kind_of_form": "marker", "column": "x", "kind": "AI"}
UP = {"attempts": "n", "max_attempts": 3, "dead_letter": "give_up"}


@pytest.mark.parametrize(
    ("problem", "work"),
    [
        ("'x' as its holder and as its until", {"form": {"holder": "x", "until": "x"}}),
        ("'x' as its until and as its fence", {"form": {"fence": "x", "until": "x"}}),
        ("'x' as its holder and as its fence", {"form": {"fence": "x", "holder": "x"}}),
        ("'fence' as its fence and as its attempts", {"attempts": "fence"}),
        ("'claimed_until' as its until and as its not_before", {"not_before": "claimed_until"}),
        ("'n' as its attempts and as its not_before", {"attempts": "n", "not_before": "n"}),
        ("'x' as its timestamp and as its not_before", {"form": AT, "not_before": "x"}),
        ("'x' as its marker and as its attempts", {"form": MARK, "attempts": "x"}),
        ("'began_at' as its timestamp, and its move= writes it too", {"form": {**AT, "column": "began_at"}}),
        ("'note' as its marker, and its move= writes it too", {"form": {**MARK, "column": "note"}}),
        ("'began_at' as its not_before, and its move= writes it too", {"not_before": "began_at"}),
        (
            "'back_at' as its not_before, and its back= writes it too",
            {"back": "requeue", "not_before": "back_at"},
        ),
        ("'up_at' as its until, and its dead_letter= writes it too", {"form": {"until": "up_at"}, **UP}),
        ("'own' as its holder, and it is the fence of the lifecycle", {"form": {"holder": "own"}}),
        ("'own' as its attempts, and it is the fence of the lifecycle", {"attempts": "own"}),
    ],
)
def test_a_column_of_a_claim_has_one_role(problem: str, work: dict[str, Any]) -> None:
    """In two, the time that a lease is over would be a fence, or a count of attempts an end."""
    with pytest.raises(DeclarationError) as caught:
        jobs(work, moves=STAMPED, fence="own")
    assert problem in str(caught.value)


def test_the_fence_of_a_claim_may_be_that_of_the_lifecycle() -> None:
    """And the error of a row that is given up may stand where its marker stood."""
    assert jobs({"form": {"fence": "own"}}, fence="own")
    moves = {**STAMPED, "start": MOVES["start"]}
    assert jobs({"form": {**MARK, "column": "note"}, "back": "requeue", **UP}, moves=moves)


def two(first: dict[str, Any], second: dict[str, Any]) -> Any:
    claims = {"first": {"lease": 60, **first}, "second": {"lease": 60, **second}}
    return jobs({}, claims=claims, moves={**MOVES, "skip": {"from": ["QUEUED"], "to": "ASIDE"}})


QUEUED, RUNNING = {"at": "QUEUED"}, {"at": "RUNNING"}


@pytest.mark.parametrize("form", [AT, MARK], ids=["timestamp", "marker"])
def test_two_claims_that_mark_the_same_rows_in_one_column_have_one_lease(form: dict[str, Any]) -> None:
    """The row says since when it is claimed, so the one with the shorter lease would take it from the other."""
    other = {**form, "kind": "VET"} if form is MARK else form
    with pytest.raises(DeclarationError, match="give them one lease, or a column each"):
        two({**QUEUED, "form": form, "lease": 3600}, {**QUEUED, "form": other})
    with pytest.raises(DeclarationError, match="give them one lease"):
        two({"move": "start", "form": form, "lease": 3600}, {**RUNNING, "form": other})
    assert two({**QUEUED, "form": form}, {**QUEUED, "form": other})
    assert two({**QUEUED, "form": form, "lease": 3600}, {**QUEUED, "form": {**other, "column": "y"}})
    assert two({**QUEUED, "form": form, "lease": 3600}, {**RUNNING, "form": other})
    assert two({"move": "start", "form": form, "lease": 3600}, {"move": "skip", "form": other})


def test_two_claims_may_share_columns_that_mean_the_same() -> None:
    """With columns of its own the row says until when, whatever the lease of the other."""
    assert two({**QUEUED, "attempts": "n", "lease": 3600}, {**QUEUED, "attempts": "n"})
    with pytest.raises(DeclarationError, match="'n' is the attempts of claim first and the not_before of claim second"):
        two({**QUEUED, "attempts": "n"}, {**QUEUED, "not_before": "n"})
    with pytest.raises(DeclarationError, match="'x' is the timestamp of claim first and the until of claim second"):
        two({**QUEUED, "form": AT}, {**QUEUED, "form": {"until": "x"}})


class Guarded(Lifecycle[Stage], table="guarded"):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    give_up = move(Stage.RUNNING, to=Stage.ASIDE)
    supersede = move(Stage.QUEUED, Stage.RUNNING, Stage.ASIDE, to=Stage.DONE, where=column("locked") == 0)
    partly = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DONE)


def test_nothing_keeps_an_open_attempt_from_being_superseded() -> None:
    """Neither a guard nor a status would leave an owner with two."""
    with pytest.raises(DeclarationError, match="must have no where="):
        Attempts(Guarded, "owner", Guarded.supersede)
    with pytest.raises(DeclarationError, match="also from ASIDE"):
        Attempts(Guarded, "owner", Guarded.partly)


def test_an_attempt_that_expires_is_not_dead_letter_where_it_is_open() -> None:
    """Redis would keep its row longer than the pointer that says whose it is, and a second one could start."""
    aside = {"attempts": "n", "max_attempts": 1, "dead_letter": "give_up"}
    kept = jobs(aside)
    Attempts(kept, "owner", kept.moves["finish"])
    expiring = jobs(aside, expires=[1, 60])
    with pytest.raises(DeclarationError, match="ASIDE is where claims set rows aside"):
        Attempts(expiring, "owner", expiring.moves["finish"])
