"""What a move promises on every store (L1, L2, L5, L14; P1, P2, P12)."""

from dataclasses import dataclass

import pytest

from raceproof import Already, Lost, Missing, Moved, Refused, column
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import Event, subscribed
from raceproof.kernel.moment import moment
from raceproof.testing.contract.clock import NOON
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.orders import DECLARATION, orders


async def test_a_row_moves_from_each_source_and_tells_where_it_was(ground: Ground) -> None:
    """The answer carries the status before the move, not a row count."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    ground.put(order, "b", "RETURNED")
    for key, before in (("a", "NEW"), ("b", "RETURNED")):
        answer = await ground.db.move(order.moves["pack"], key)
        assert isinstance(answer, Moved)
        assert (answer.key, answer.before, answer.status, answer.revision) == (key, before, "PACKED", 1)
        assert (answer.won, answer.reached, answer.must()) == (True, True, answer)
        assert ground.get(order, key)["status"] == "PACKED"


async def test_the_same_move_again_finds_the_row_there_already(ground: Ground) -> None:
    """`Already` is reached but not won, and writes nothing."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    await ground.db.move(order.moves["pack"], "a", set={"packer": "ann"})
    answer = await ground.db.move(order.moves["pack"], "a", set={"packer": "bob"})
    assert isinstance(answer, Already)
    assert (answer.won, answer.reached, answer.revision, answer.status) == (False, True, 1, "PACKED")
    row = ground.get(order, "a")
    assert (row["packer"], row["rev"]) == ("ann", "1")


async def test_a_move_from_elsewhere_is_refused_and_says_what_is_allowed(ground: Ground) -> None:
    """The row does not change, and the caller learns its status."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "SENT")
    answer = await ground.db.move(order.moves["pack"], "a", set={"packer": "ann"})
    assert isinstance(answer, Refused)
    assert (answer.status, answer.allowed, answer.unmet) == ("SENT", ("take_back", "finish", "fail"), ())
    assert (answer.won, answer.reached) == (False, False)
    assert ground.get(order, "a") == {"status": "SENT", "rev": "0", "packer": None, "box": None, "packed_at": None}


async def test_a_row_that_is_not_there_is_missing(ground: Ground) -> None:
    """The move inserts no row, and the answer is a value."""
    order = orders()
    ground.table(order)
    assert isinstance(await ground.db.move(order.moves["pack"], "nobody"), Missing)


@pytest.mark.parametrize("ended", ["DONE", "FAILED"])
@pytest.mark.parametrize("name", list(DECLARATION["moves"]))
async def test_an_ended_row_never_moves(ground: Ground, ended: str, name: str) -> None:
    """P2: no move leads out of a terminal status."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", ended)
    answer = await ground.db.move(order.moves[name], "a")
    assert isinstance(answer, Already if order.moves[name].target == ended else Refused)
    assert ground.get(order, "a")["status"] == ended
    assert ground.get(order, "a")["rev"] == "0"


async def test_a_status_that_nobody_declared_is_refused_and_shown(ground: Ground) -> None:
    """The answer shows an undeclared status as it is stored."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "LOST AT SEA")
    answer = await ground.db.move(order.moves["fail"], "a")
    assert isinstance(answer, Refused)
    assert (answer.status, answer.allowed) == ("LOST AT SEA", ())


async def test_declared_columns_are_set_with_the_move_and_cleared_by_none(ground: Ground) -> None:
    """The same write changes the status and the columns."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW", box="old")
    answer = await ground.db.move(order.moves["pack"], "a", set={"packer": "ann", "box": None})
    assert answer.won
    row = ground.get(order, "a")
    assert (row["packer"], row["box"]) == ("ann", None)


async def test_a_column_that_is_not_declared_cannot_be_set(ground: Ground) -> None:
    """The error is raised before anything is sent, and names the column."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    with pytest.raises(CallError, match="may not set 'status'"):
        await ground.db.move(order.moves["pack"], "a", set={"status": "DONE"})
    assert ground.get(order, "a")["status"] == "NEW"


async def test_a_stamp_is_the_time_of_the_move(ground: Ground) -> None:
    """From the store's clock, or from the `now` that a test passes."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    ground.put(order, "b", "NEW")
    await ground.db.move(order.moves["pack"], "a", now=NOON)
    await ground.db.move(order.moves["pack"], "b")
    assert moment(ground.get(order, "a")["packed_at"]) == NOON
    assert ground.get(order, "b")["packed_at"] is not None


async def test_each_move_counts_one_revision(ground: Ground) -> None:
    """A refused move does not count."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    for name, revision in (("pack", 1), ("send", 2), ("send", 2), ("pack", 2), ("take_back", 3), ("pack", 4)):
        assert (await ground.db.move(order.moves[name], "a")).revision == revision


async def test_a_revision_that_was_seen_must_still_hold(ground: Ground) -> None:
    """A caller that decided on an older state of the row does not write."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW", rev=7)
    stale = await ground.db.move(order.moves["pack"], "a", revision=6)
    assert isinstance(stale, Refused)
    assert (stale.status, stale.unmet, stale.revision) == ("NEW", ("revision = 6",), 7)
    assert ground.get(order, "a")["status"] == "NEW"
    assert (await ground.db.move(order.moves["pack"], "a", revision=7)).revision == 8


async def test_an_older_fence_has_lost_the_row(ground: Ground) -> None:
    """P4: a caller with another fence writes nothing, and learns the row's fence."""
    order = orders(fence="fence")
    ground.table(order)
    ground.put(order, "a", "PACKED", fence=9)
    for stale in (8, 10):
        answer = await ground.db.move(order.moves["finish"], "a", fence=stale)
        assert isinstance(answer, Lost)
        assert (answer.fence, answer.status, answer.reached) == (9, "PACKED", False)
    assert ground.get(order, "a")["status"] == "PACKED"
    assert (await ground.db.move(order.moves["finish"], "a", fence=9)).won
    assert isinstance(await ground.db.move(order.moves["finish"], "a", fence=8), Lost)
    assert isinstance(await ground.db.move(order.moves["finish"], "a", fence=9), Already)


async def test_a_row_without_a_fence_is_nobody_s(ground: Ground) -> None:
    """No fence matches a row without one."""
    order = orders(fence="fence")
    ground.table(order)
    ground.put(order, "a", "PACKED", fence=None)
    answer = await ground.db.move(order.moves["finish"], "a", fence=1)
    assert isinstance(answer, Lost)
    assert answer.fence is None


GUARDS = [
    (column("tries") == 3, True),
    (column("tries") == 4, False),
    (column("tries") != 4, True),
    (column("tries") != 3, False),
    (column("tries") < 4, True),
    (column("tries") < 3, False),
    (column("tries") <= 3, True),
    (column("tries") <= 2, False),
    (column("tries") > 2, True),
    (column("tries") > 3, False),
    (column("tries") >= 3, True),
    (column("tries") >= 10, False),
    (column("name") == "ann", True),
    (column("name") == "bob", False),
    (column("name") < "b", True),
    (column("nothing").is_null(), True),
    (column("nothing").is_not_null(), False),
    (column("name").is_not_null(), True),
    (column("name").is_null(), False),
    (column("nothing") == "x", False),
    (column("nothing") != "x", False),
]


@pytest.mark.parametrize(("guard", "holds"), GUARDS, ids=[str(guard) for guard, _ in GUARDS])
async def test_a_guard_is_decided_on_the_row_as_it_is(ground: Ground, guard: object, holds: bool) -> None:
    """Numbers compare as numbers, text as text, and no comparison with NULL is true."""
    order = orders()
    ground.table(order, {"tries": "int", "name": "text", "nothing": "text"})
    ground.put(order, "a", "NEW", tries=3, name="ann")
    answer = await ground.db.move(order.moves["pack"], "a", where=guard)
    assert answer.won == holds
    if not holds:
        assert isinstance(answer, Refused)
        assert (answer.status, answer.unmet) == ("NEW", (str(guard),))
        assert ground.get(order, "a")["status"] == "NEW"


async def test_all_guards_must_hold_and_the_unmet_ones_are_named(ground: Ground) -> None:
    """Guards of the declaration and of the call count alike."""
    moves = {**DECLARATION["moves"], "send": {"from": ["PACKED"], "to": "SENT", "where": [["tries", "<", 3]]}}
    order = orders(moves=moves)
    ground.table(order, {"tries": "int", "name": "text"})
    ground.put(order, "a", "PACKED", tries=5, name="ann")
    answer = await ground.db.move(
        order.moves["send"], "a", where=[column("name") == "ann", column("tries") > 9], revision=4
    )
    assert isinstance(answer, Refused)
    assert answer.unmet == ("revision = 4", "tries < 3", "tries > 9")
    ground.put(order, "b", "PACKED", tries=2, name="ann")
    assert (await ground.db.move(order.moves["send"], "b", where=column("name") == "ann")).won


@dataclass
class Packed:
    packer: str
    box: str | None


async def test_columns_come_back_as_a_dict_or_a_dataclass(ground: Ground) -> None:
    """The row after the move, read by the same statement."""
    order = orders()
    ground.table(order)
    for key in "ab":
        ground.put(order, key, "NEW", box="B-1")
    pack = order.moves["pack"]
    assert (await ground.db.move(pack, "a", set={"packer": "ann"}, returning=["packer", "box"])).row == {
        "packer": "ann",
        "box": "B-1",
    }
    assert (await ground.db.move(pack, "b", set={"packer": "bob"}, returning=Packed)).row == Packed("bob", "B-1")


async def test_every_accepted_move_is_in_the_history(ground: Ground) -> None:
    """L5: who, why, from where and to where, newest first. Refused moves are left out unless declared."""
    order = orders(history=True)
    ground.table(order)
    ground.put(order, "a", "NEW")
    await ground.db.move(order.moves["pack"], "a", by="ann", reason="ordered", now=NOON)
    await ground.db.move(order.moves["take_back"], "a", by="bob")
    await ground.db.move(order.moves["send"], "a")
    second, first = await ground.db.history(order, "a")
    assert (first.move, first.before, first.after, first.revision) == ("pack", "NEW", "PACKED", 1)
    assert (first.actor, first.reason, first.outcome, first.at) == ("ann", "ordered", "moved", NOON)
    assert (second.move, second.before, second.after, second.actor) == ("send", "PACKED", "SENT", None)


async def test_losers_are_recorded_where_the_lifecycle_wants_it(ground: Ground) -> None:
    """Who lost, to which status, and why."""
    order = orders(fence="fence", losers=True)
    ground.table(order)
    ground.put(order, "a", "NEW", fence=2)
    await ground.db.move(order.moves["pack"], "a", by="ann")
    await ground.db.move(order.moves["pack"], "a", by="bob")
    await ground.db.move(order.moves["take_back"], "a", by="carl", reason="too early")
    await ground.db.move(order.moves["send"], "a", by="dora", fence=1)
    entries = await ground.db.history(order, "a")
    assert [(e.outcome, e.actor, e.before, e.after) for e in entries] == [
        ("lost", "dora", "PACKED", "SENT"),
        ("refused", "carl", "PACKED", "RETURNED"),
        ("already", "bob", "PACKED", "PACKED"),
        ("moved", "ann", "NEW", "PACKED"),
    ]
    assert entries[1].reason == "too early"


async def test_the_loser_learns_who_won(ground: Ground) -> None:
    """Only where a history records it."""
    order = orders(history=True)
    ground.table(order)
    ground.put(order, "a", "NEW")
    await ground.db.move(order.moves["pack"], "a", by="ann")
    assert (await ground.db.move(order.moves["pack"], "a", by="bob")).by == "ann"
    assert (await ground.db.move(order.moves["take_back"], "a", by="bob")).by == "ann"


async def test_a_repeated_call_returns_what_the_first_one_did(ground: Ground) -> None:
    """P12: also after the row has moved on, and without a second move after it has come back to a source."""
    order = orders(history=True)
    ground.table(order)
    ground.put(order, "a", "NEW")
    first = await ground.db.move(order.moves["pack"], "a", by="ann", call="call-1")
    assert (first.won, first.replayed) == (True, False)
    await ground.db.move(order.moves["send"], "a")
    later = await ground.db.move(order.moves["pack"], "a", by="ann", call="call-1")
    assert (later.won, later.replayed, later.before, later.revision) == (True, True, "NEW", 1)
    await ground.db.move(order.moves["take_back"], "a")
    again = await ground.db.move(order.moves["pack"], "a", by="ann", call="call-1")
    assert (again.replayed, again.revision) == (True, 1)
    assert ground.get(order, "a")["status"] == "RETURNED"
    assert (await ground.db.move(order.moves["pack"], "a", call="call-2")).revision == 4


async def test_a_call_is_repeated_only_by_the_same_move_of_the_same_row(ground: Ground) -> None:
    """P12: the same call= for another row or another move is a new call."""
    order = orders(history=True)
    ground.table(order)
    for key in "ab":
        ground.put(order, key, "NEW")
    assert (await ground.db.move(order.moves["pack"], "a", call="call-1")).won
    for move, key in (("pack", "b"), ("fail", "a")):
        other = await ground.db.move(order.moves[move], key, call="call-1")
        assert (other.won, other.replayed) == (True, False)
    assert [ground.get(order, key)["status"] for key in "ab"] == ["FAILED", "PACKED"]


async def test_a_table_without_a_revision_column_is_enough(ground: Ground) -> None:
    """The answer then has no revision."""
    order = orders(revision=None, history=True)
    ground.table(order)
    ground.put(order, "a", "NEW")
    answer = await ground.db.move(order.moves["pack"], "a", by="ann")
    assert (answer.won, answer.revision) == (True, None)
    assert (await ground.db.move(order.moves["pack"], "a")).by == "ann"
    with pytest.raises(CallError, match="declares no revision"):
        await ground.db.move(order.moves["send"], "a", revision=1)


async def test_each_decision_is_one_event(ground: Ground) -> None:
    """L15: lost decisions too, with their caller."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    told: list[Event] = []
    with subscribed(told.append):
        await ground.db.move(order.moves["pack"], "a", by="ann")
        await ground.db.move(order.moves["pack"], "a", by="bob")
        await ground.db.move_many(order.moves["take_back"], ["a", "nobody"], by="carl")
    assert [(event.outcome, event.key, event.by) for event in told] == [
        ("moved", "a", "ann"),
        ("already", "a", "bob"),
        ("refused", "a", "carl"),
        ("missing", "nobody", "carl"),
    ]
    assert all(event.settled and event.lifecycle == "Order" for event in told)
