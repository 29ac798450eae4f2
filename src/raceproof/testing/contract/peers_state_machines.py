"""What users of django-fsm-2 and of SQLAlchemy's version counter expect."""

from enum import StrEnum

import pytest

from raceproof import Already, DeclarationError, Lifecycle, Missing, NotReached, Refused, move
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.orders import orders


async def test_a_concurrent_modification_is_refused_and_raises(ground: Ground) -> None:
    """django-fsm-2 test_concurrent_modifications_raise_exception: two editors saw the same row, the second is late."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    pack = order.moves["pack"]
    assert (await ground.db.move(pack, "a", set={"box": "first"}, revision=0)).won
    late = await ground.db.move(pack, "a", set={"box": "aaa"}, revision=0)
    assert isinstance(late, Refused)
    assert (late.status, late.revision, late.unmet) == ("PACKED", 1, ("revision = 0",))
    with pytest.raises(NotReached):
        late.must()
    assert ground.get(order, "a")["box"] == "first"


async def test_without_a_revision_the_same_move_again_is_already_and_writes_nothing(ground: Ground) -> None:
    """Its columns are not set: `won` says so, `reached` does not."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    pack = order.moves["pack"]
    assert (await ground.db.move(pack, "a", set={"box": "first"})).won
    again = await ground.db.move(pack, "a", set={"box": "aaa"})
    assert isinstance(again, Already)
    assert (again.won, again.reached) == (False, True)
    assert ground.get(order, "a")["box"] == "first"


async def test_a_revision_counts_up_with_every_move_and_an_old_one_is_refused(ground: Ground) -> None:
    """SQLAlchemy version_id_col: StaleDataError, here an answer."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    for number, step in enumerate(("pack", "send", "take_back", "pack")):
        moved = await ground.db.move(order.moves[step], "a", revision=number)
        assert (moved.won, moved.revision) == (True, number + 1)
    assert isinstance(await ground.db.move(order.moves["send"], "a", revision=3), Refused)


async def test_two_lifecycles_move_two_columns_of_one_table(ground: Ground) -> None:
    """django-fsm-2 test_multi_state fields and inheritance: a row has one state of delivery and one of review."""
    order = orders()
    review = Lifecycle.from_dict(
        {
            "name": "Review",
            "table": order.table,
            "key": "order_id",
            "column": "review",
            "statuses": ["OPEN", "GOOD", "BAD"],
            "moves": {"praise": {"from": ["OPEN"], "to": "GOOD"}, "pan": {"from": ["OPEN"], "to": "BAD"}},
        }
    )
    ground.table(order, {"review": "text"})
    ground.put(order, "a", "NEW", review="OPEN")
    assert (await ground.db.move(review.moves["praise"], "a")).won
    assert (await ground.db.move(order.moves["pack"], "a")).won
    assert isinstance(await ground.db.move(review.moves["pan"], "a"), Refused)
    assert (await ground.db.read(review, "a"))["review"] == "GOOD"
    assert ground.get(order, "a")["status"] == "PACKED"


async def test_a_move_from_every_other_status_is_written_by_unpacking_them(ground: Ground) -> None:
    """django-fsm-2 source="*" and "+": the SQL lists the statuses, so a new status is a decision, not an accident."""

    class Status(StrEnum):
        NEW = "NEW"
        SENT = "SENT"
        BLOCKED = "BLOCKED"

    class Parcel(Lifecycle[Status], table=fresh_name("parcels"), key="parcel_id"):
        send = move(Status.NEW, to=Status.SENT)
        block = move(*(one for one in Status if one is not Status.BLOCKED), to=Status.BLOCKED)

    ground.table(Parcel.spec)
    for key, status in (("a", "NEW"), ("b", "SENT")):
        ground.put(Parcel.spec, key, status)
        assert (await ground.db.move(Parcel.block, key)).won


def test_a_wildcard_is_refused_with_what_to_write_instead() -> None:
    """Easy to write by mistake in a dict or in TOML."""
    moves = {"block": {"from": ["*"], "to": "BLOCKED"}}
    with pytest.raises(DeclarationError, match=r"there is no wildcard, name the statuses, as in move\(\*OPEN, to="):
        Lifecycle.from_dict({"name": "P", "table": "p", "statuses": ["NEW", "BLOCKED"], "moves": moves})


async def test_a_row_that_is_not_stored_yet_cannot_be_moved(ground: Ground) -> None:
    """django-fsm-2 changes objects in memory; here only the row changes."""
    order = orders()
    ground.table(order)
    assert isinstance(await ground.db.move(order.moves["pack"], "unsaved"), Missing)
