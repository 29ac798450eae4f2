"""`explain`: each condition true, false or unknown; what is allowed instead; and the way round."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from raceproof import Lifecycle, column, move, sql
from raceproof.declare import spec_of
from raceproof.declare.predicate import Predicate
from raceproof.kernel.errors import CallError
from raceproof.moves import HistoryEntry
from raceproof.ops.explain import Step, explain, holds, shortest_path


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    DONE = "DONE"
    FAILED = "FAILED"


class Command(Lifecycle[Status], table="commands", key="cmd_id", history="raceproof_history"):
    send = move(Status.QUEUED, Status.FAILED, to=Status.SENT, where=column("attempts") < 3)
    ack = move(Status.SENT, to=Status.ACK)
    finish = move(Status.ACK, to=Status.DONE)
    finish_paid = move(Status.SENT, to=Status.DONE, where=sql("amount % 2 = 0"))
    fail = move(Status.QUEUED, to=Status.FAILED)


SPEC = spec_of(Command)
AT = datetime(2025, 3, 1, 12, 30, 15, tzinfo=UTC)


def row(status: str | None, attempts: Any = 0) -> dict[str, Any]:
    return {"cmd_id": "c-1", "status": status, "attempts": attempts}


def entry(outcome: str, name: str, before: str, after: str) -> HistoryEntry:
    return HistoryEntry(name, outcome, before, after, 2, "node-7", "late", None, AT)


def test_a_row_that_can_go_there_meets_every_condition() -> None:
    """Status and guard hold, so the verdict is that it is possible."""
    told = explain(SPEC, row("QUEUED"), Status.SENT, key="c-1")
    assert told.verdict == "possible"
    assert [(one.what, one.holds, one.move) for one in told.conditions] == [
        ("status QUEUED or FAILED", True, "send"),
        ("attempts < 3", True, "send"),
    ]
    assert told.lines()[0] == "Command 'c-1' is at QUEUED and can move to SENT now."


def test_an_unmet_guard_is_told_with_the_value_found() -> None:
    """The status would do, the guard does not, and there is no way round to tell."""
    told = explain(SPEC, row("QUEUED", attempts=3), Status.SENT, key="c-1")
    assert told.verdict == "impossible"
    assert told.lines() == [
        "Command 'c-1' is at QUEUED and cannot move to SENT now.",
        "  ✓ send requires status QUEUED or FAILED",
        "  ✗ send requires attempts < 3, but attempts is 3",
        "Allowed from QUEUED: send → SENT, fail → FAILED.",
    ]


def test_the_shortest_way_round_is_told() -> None:
    """From QUEUED to DONE it takes two moves, not three."""
    told = explain(SPEC, row("QUEUED"), Status.DONE)
    assert told.path == (Step("send", "QUEUED", "SENT"), Step("finish_paid", "SENT", "DONE"))
    assert told.lines()[-1] == "Path: send → SENT, then finish_paid → DONE."


def test_a_terminal_status_is_named_as_the_reason() -> None:
    """Nothing is allowed, nothing leads anywhere, and who ended it is told."""
    history = [
        entry("refused", "ack", "DONE", "ACK"),
        entry("moved", "finish", "ACK", "DONE"),
        entry("moved", "ack", "SENT", "ACK"),
    ]
    told = explain(SPEC, row("DONE"), Status.SENT, history, key="c-1")
    assert told.lines() == [
        "Command 'c-1' is at DONE and cannot move to SENT now.",
        "  ✗ a move must lead out of the status, but DONE is terminal",
        "  ✗ send requires status QUEUED or FAILED, but the row is at DONE",
        "  ✓ send requires attempts < 3",
        "Last moved by node-7 at 2025-03-01 12:30:15.000 UTC: finish, ACK → DONE, because: late.",
        "Allowed from DONE: nothing.",
        "No declared moves lead from DONE to SENT.",
    ]


def test_a_guard_in_sql_is_unknown_here() -> None:
    """Only the store can decide it, so the answer depends on it."""
    told = explain(SPEC, row("SENT"), Status.DONE)
    assert told.verdict == "depends"
    assert "  ? finish_paid requires amount % 2 = 0 (decided by the store)" in told.lines()


def test_one_possible_move_is_enough() -> None:
    """Two moves lead to DONE; from ACK the one without a guard does."""
    assert explain(SPEC, row("ACK"), Status.DONE).verdict == "possible"
    assert explain(SPEC, row("ACK"), Command.finish_paid).verdict == "impossible"


def test_a_move_can_be_asked_for_instead_of_a_status() -> None:
    """Only that move's conditions are told then."""
    told = explain(SPEC, row("SENT"), Command.finish)
    assert (told.target, {one.move for one in told.conditions}) == ("DONE", {"finish"})


def test_a_row_that_is_there_already_needs_nothing() -> None:
    """No conditions, and no other way."""
    told = explain(SPEC, row("SENT"), Status.SENT, [entry("moved", "send", "QUEUED", "SENT")])
    assert (told.verdict, told.conditions) == ("already", ())
    assert told.lines()[0] == "The row of Command is already at SENT."
    assert len(told.lines()) == 2


def test_a_missing_row_is_told_as_missing() -> None:
    """There is nothing to hold the declaration against."""
    told = explain(SPEC, None, Status.SENT, key=("a", 1))
    assert (told.verdict, told.lines()) == ("missing", ["Command ('a', 1) does not exist."])


@pytest.mark.parametrize("status", ["NONSENSE", None])
def test_a_status_that_is_not_declared_is_a_reason(status: str | None) -> None:
    """Somebody wrote it around the library; nothing leads out of it."""
    told = explain(SPEC, row(status), Status.SENT)
    assert told.verdict == "impossible"
    assert told.conditions[0].what == "status must be declared"
    assert told.status == (status or "NULL")
    assert told.allowed == ()


def test_a_status_that_no_move_leads_to_is_told() -> None:
    """Only a new row is at QUEUED."""
    told = explain(SPEC, row("SENT"), Status.QUEUED)
    assert [one.what for one in told.conditions] == ["a move must lead to the status"]
    assert told.path == ()


def test_an_override_that_made_the_row_has_no_status_before() -> None:
    """A guard's override may record an insert."""
    made = HistoryEntry("override", "moved", None, "DONE", None, "ann", None, None, AT)
    assert "override, (new) → DONE." in explain(SPEC, row("DONE"), Status.SENT, [made]).lines()[4]


def test_wrong_questions_are_errors() -> None:
    """An unknown status and a row without its status column cannot be answered."""
    with pytest.raises(CallError, match="has no status 'MOON'"):
        explain(SPEC, row("SENT"), "MOON")
    with pytest.raises(CallError, match="no column 'status'"):
        explain(SPEC, {"cmd_id": "c-1"}, Status.SENT)


def test_the_explanation_is_plain_data_too() -> None:
    """`to_dict` has everything, and only the time is not JSON of itself."""
    told = explain(SPEC, row("DONE"), Status.SENT, [entry("moved", "finish", "ACK", "DONE")], key="c-1")
    data = json.loads(json.dumps(told.to_dict(), default=str))
    assert data["verdict"] == "impossible"
    assert data["last"]["actor"] == "node-7"
    assert data["conditions"][0] == {
        "what": "a move must lead out of the status",
        "holds": False,
        "found": "DONE is terminal",
        "move": None,
    }


def test_the_shortest_path_is_the_first_declared_of_several() -> None:
    """Two ways of the same length: the one whose first move is declared first."""
    assert [step.move for step in shortest_path(SPEC, "FAILED", "DONE")] == ["send", "finish_paid"]
    assert shortest_path(SPEC, "DONE", "SENT") == ()


@pytest.mark.parametrize(
    ("guard", "value", "expected"),
    [
        (column("n") < 3, 2, True),
        (column("n") < 3, 3, False),
        (column("n") <= 3, Decimal("3.0"), True),
        (column("n") > 0.1, 0.1, False),
        (column("n") >= 3, "10", True),
        (column("n") != 3, "3", False),
        (column("n") == 3, None, False),
        (column("n") == 1, True, True),
        (column("n") < 3, "many", None),
        (column("n") < 3, float("nan"), None),
        (column("n") < 3, AT, None),
        (column("n") == "x", "x", True),
        (column("n") != "x", "x", False),
        (column("n") < "x", "a", None),
        (column("n").is_null(), None, True),
        (column("n").is_not_null(), None, False),
        (column("other") == 3, 3, None),
        (sql("n = 3"), 3, None),
    ],
)
def test_a_guard_is_told_as_the_store_would_decide_it(guard: Predicate, value: Any, expected: bool | None) -> None:
    """Numbers as numbers, also where a store keeps text; NULL is never equal; what depends on the store is unknown."""
    assert holds(guard, {"n": value}) is expected


def test_values_of_secret_and_hidden_columns_are_not_told() -> None:
    """Neither of the row nor of the guard; whether it holds is told."""

    class Door(StrEnum):
        SHUT = "shut"
        OPEN = "open"

    class Vault(Lifecycle[Door], table="vaults", key="id"):
        by_pin = move(Door.SHUT, to=Door.OPEN, where=column("pin") == "canary-1")
        by_note = move(Door.SHUT, to=Door.OPEN, where=column("note") == "canary-2")

    found = {"id": 1, "status": "shut", "pin": "canary-3", "note": "canary-4"}
    told = explain(spec_of(Vault), found, "open", hidden=["note"])
    assert "canary" not in json.dumps(told.to_dict(), default=str)
    assert [one.what for one in told.conditions if one.move == "by_note"][-1] == "note = •••"
    open_note = explain(spec_of(Vault), found, "open")
    assert "note is 'canary-4'" in "\n".join(open_note.lines())
    assert "canary-3" not in "\n".join(open_note.lines())
