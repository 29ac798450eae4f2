"""A lost acknowledgement is an answer of its own, and the same call again is safe (P12), through every driver."""

from typing import Any

import pytest

from raceproof import Already, Moved, Refused, Unknown, column
from tests.fix_told import says_nothing_was_kept, told
from tests.promises.faults.fix_cut import POSTGRES, REDIS, Faulty

pytestmark = pytest.mark.parametrize("faulty", POSTGRES + REDIS, indirect=True)


async def lose(faulty: Faulty, order: Any, key: str, **options: Any) -> Unknown[str]:
    """Move a row and lose the acknowledgement."""
    faulty.proxy.cut_after_reply()
    answer = await faulty.db.move(order.moves["pack"], key, **options)
    assert isinstance(answer, Unknown), str(answer)
    assert (answer.key, answer.won, answer.reached, faulty.proxy.cuts) == (key, False, False, 1)
    assert isinstance(answer.cause, Exception)
    assert not answer.cause.__class__.__module__.startswith("raceproof")
    return answer


async def test_the_same_call_again_tells_what_the_first_one_did(faulty: Faulty) -> None:
    """The row moved exactly once, and the second answer has the first one's before and revision."""
    order = await faulty.prepared(("a", "RETURNED"), history=True)
    lost = await lose(faulty, order, "a", by="ann", set={"packer": "ann"})
    assert faulty.row(order, "a") == ("PACKED", "1")
    assert lost.call is not None
    db = await faulty.after_the_cut()
    for _ in range(2):
        again = await db.move(order.moves["pack"], "a", by="ann", set={"packer": "ann"}, call=lost.call)
        assert isinstance(again, Moved)
        assert (again.replayed, again.before, again.revision) == (True, "RETURNED", 1)
    assert faulty.row(order, "a") == ("PACKED", "1")
    assert [entry.outcome for entry in await db.history(order, "a")] == ["moved"]


async def test_the_same_call_again_is_known_after_the_row_has_moved_on(faulty: Faulty) -> None:
    """Others went on from there; the earlier result is still the earlier result."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    lost = await lose(faulty, order, "a")
    db = await faulty.after_the_cut()
    assert isinstance(await db.move(order.moves["send"], "a"), Moved)
    again = await db.move(order.moves["pack"], "a", call=lost.call)
    assert isinstance(again, Moved)
    assert (again.replayed, again.before, again.revision) == (True, "NEW", 1)
    assert faulty.row(order, "a") == ("SENT", "2")


async def test_the_same_call_again_does_not_move_a_row_that_has_come_back(faulty: Faulty) -> None:
    """It is at a source of the move again, so a blind second try would move it a second time."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    lost = await lose(faulty, order, "a")
    db = await faulty.after_the_cut()
    for move in ("send", "take_back"):
        assert isinstance(await db.move(order.moves[move], "a"), Moved)
    again = await db.move(order.moves["pack"], "a", call=lost.call)
    assert isinstance(again, Moved)
    assert again.replayed
    assert faulty.row(order, "a") == ("RETURNED", "3")


async def test_the_id_of_a_call_is_good_for_its_own_move_only(faulty: Faulty) -> None:
    """Another move with the same id was never made."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    lost = await lose(faulty, order, "a")
    db = await faulty.after_the_cut()
    answer = await db.move(order.moves["take_back"], "a", call=lost.call)
    assert isinstance(answer, Refused)


async def test_without_a_history_the_same_call_again_finds_the_row_there_already(faulty: Faulty) -> None:
    """Nothing can be told about the first one, but nothing happens twice."""
    order = await faulty.prepared(("a", "NEW"))
    lost = await lose(faulty, order, "a")
    assert lost.call is None
    assert "ask again" in str(lost)
    again = await (await faulty.after_the_cut()).move(order.moves["pack"], "a")
    assert isinstance(again, Already)
    assert faulty.row(order, "a") == ("PACKED", "1")


async def test_a_lost_request_moves_nothing(faulty: Faulty) -> None:
    """Nobody can know, so it is unknown or an error; the same call again moves the row."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    faulty.proxy.cut_before_request()
    answer = await told(faulty.db.move(order.moves["pack"], "a"))
    assert isinstance(answer, Unknown) or says_nothing_was_kept(answer)
    call = answer.call if isinstance(answer, Unknown) else None
    assert faulty.proxy.cuts == 1
    assert faulty.row(order, "a") == ("NEW", "0")
    again = await (await faulty.after_the_cut()).move(order.moves["pack"], "a", call=call)
    assert isinstance(again, Moved)
    assert not again.replayed
    assert faulty.row(order, "a") == ("PACKED", "1")


async def test_a_bulk_is_unknown_for_each_of_its_rows(faulty: Faulty) -> None:
    """Each has an id of its own to ask again with."""
    order = await faulty.prepared(("a", "NEW"), ("b", "RETURNED"), ("c", "SENT"), history=True)
    await faulty.db.move_many(order.moves["pack"], ["warm"])
    faulty.proxy.cut_after_reply()
    answers = await faulty.db.move_many(order.moves["pack"], ["a", "b", "c"])
    assert [type(answer) for answer in answers] == [Unknown, Unknown, Unknown]
    assert len({answer.call for answer in answers}) == 3
    db = await faulty.after_the_cut()
    again = [await db.move(order.moves["pack"], answer.key, call=answer.call) for answer in answers]
    assert [answer.outcome for answer in again] == ["moved", "moved", "refused"]
    assert [answer.before for answer in again[:2]] == ["NEW", "RETURNED"]
    assert [faulty.row(order, key) for key in "abc"] == [("PACKED", "1"), ("PACKED", "1"), ("SENT", "0")]


async def test_the_acknowledgement_of_a_repeated_call_can_be_lost_again(faulty: Faulty) -> None:
    """As often as the network likes; the row moves once."""
    order = await faulty.prepared(("a", "NEW"), history=True)
    command = None if faulty.kind in REDIS else "COMMIT"
    faulty.proxy.cut_after_reply(command)
    answer = await faulty.db.move(order.moves["pack"], "a", call="once")
    assert isinstance(answer, Unknown)
    assert (answer.call, faulty.row(order, "a")) == ("once", ("PACKED", "1"))
    again = await (await faulty.after_the_cut()).move(order.moves["pack"], "a", call="once")
    assert isinstance(again, Moved)
    assert (again.replayed, faulty.row(order, "a")) == (True, ("PACKED", "1"))


async def test_a_search_whose_end_is_unknown_says_so(faulty: Faulty) -> None:
    """It cannot say for which rows, but never that none was moved."""
    order = await faulty.prepared(("a", "SENT"), history=True)
    await faulty.db.move_many(order.moves["take_back"], ["warm"], where=column("status") == "SENT")
    faulty.proxy.cut_after_reply(None if faulty.kind in POSTGRES else "EVALSHA")
    answers = await faulty.db.move_many(order.moves["take_back"], where=column("status") == "SENT")
    told = {type(answer) for answer in answers}
    if faulty.kind in POSTGRES:
        assert told == {Unknown}
    else:
        # Redis finds the rows in several steps: the step that was cut is unknown, and another one may be told
        assert Unknown in told
        assert told <= {Unknown, Moved}
    assert faulty.row(order, "a") == ("RETURNED", "1")
