"""Guards of a call are checked before `Already`, on every store (L2; P1, P4): a guard may be an authorization."""

from typing import Any

import pytest

from raceproof import Already, Lost, Moved, NotReached, Refused, column
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put
from raceproof.testing.contract.orders import DECLARATION, orders


async def test_a_guard_of_the_call_comes_before_already(ground: Ground) -> None:
    """A caller that may not move the row does not learn that it has already moved."""
    order = orders()
    ground.table(order, {"user_id": "text"})
    ground.put(order, "a", "PACKED", user_id="ann")
    answer = await ground.db.move(order.moves["pack"], "a", where=column("user_id") == "evil")
    assert isinstance(answer, Refused)
    assert (answer.status, answer.unmet, answer.reached) == ("PACKED", ("user_id = 'evil'",), False)
    with pytest.raises(NotReached, match="user_id = 'evil'"):
        answer.must()
    mine = await ground.db.move(order.moves["pack"], "a", where=column("user_id") == "ann")
    assert isinstance(mine, Already)
    assert mine.must() is mine


async def test_a_stale_revision_comes_before_already(ground: Ground) -> None:
    """Two editors saw revision 0; the second learns that its edit was not applied."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    assert (await ground.db.move(order.moves["pack"], "a", revision=0)).won
    late = await ground.db.move(order.moves["pack"], "a", revision=0)
    assert isinstance(late, Refused)
    assert (late.status, late.unmet, late.revision) == ("PACKED", ("revision = 0",), 1)
    assert isinstance(await ground.db.move(order.moves["pack"], "a", revision=1), Already)


async def test_a_guard_that_does_not_hold_is_named_wherever_the_row_is(ground: Ground) -> None:
    order = orders()
    ground.table(order, {"user_id": "text"})
    ground.put(order, "a", "DONE", user_id="ann")
    answer = await ground.db.move(order.moves["pack"], "a", where=column("user_id") == "evil")
    assert isinstance(answer, Refused)
    assert (answer.status, answer.unmet) == ("DONE", ("user_id = 'evil'",))


async def test_a_declared_guard_that_the_move_itself_makes_false_leaves_already(ground: Ground) -> None:
    """A move often declares `where=packed_at IS NULL` with `stamp="packed_at"`: a second call gets `Already`."""
    pack_once = {**DECLARATION["moves"]["pack"], "where": [["packed_at", "is null"]]}
    order = orders(moves={**DECLARATION["moves"], "pack": pack_once})
    ground.table(order, {"user_id": "text"})
    ground.put(order, "a", "NEW", user_id="ann")
    pack = order.moves["pack"]
    assert (await ground.db.move(pack, "a")).won
    assert isinstance(await ground.db.move(pack, "a"), Already)
    assert isinstance(await ground.db.move(pack, "a", where=column("user_id") == "ann"), Already)
    refused = await ground.db.move(pack, "a", where=column("user_id") == "evil")
    assert isinstance(refused, Refused)
    assert refused.unmet == ("user_id = 'evil'",)


@pytest.mark.parametrize("how", ["guard", "revision"])
async def test_a_key_named_twice_in_one_bulk_is_guarded_both_times(ground: Ground, how: str) -> None:
    """The second gets the answer of a second call: the first has made the guard false."""
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    ground.put(order, "b", "NEW")
    asked: dict[str, Any] = {"revision": 0} if how == "revision" else {"where": column("packed_at").is_null()}
    answers = await ground.db.move_many(order.moves["pack"], ["a", "b", "a", "a"], **asked)
    assert [type(answer) for answer in answers] == [Moved, Moved, Refused, Refused]
    assert [len(answer.unmet) for answer in answers[2:]] == [1, 1]


@pytest.mark.parametrize("how", ["guard", "revision"])
async def test_a_loser_is_recorded_as_it_is_answered(ground: Ground, how: str) -> None:
    """L5: the history of losers agrees with the answer."""
    order = orders(history=True, losers=True)
    ground.table(order, {"user_id": "text"})
    ground.put(order, "a", "NEW", user_id="ann")
    assert (await ground.db.move(order.moves["pack"], "a", by="ann")).won
    asked: dict[str, Any] = {"revision": 0} if how == "revision" else {"where": column("user_id") == "evil"}
    refused = await ground.db.move(order.moves["pack"], "a", by="eve", **asked)
    already = await ground.db.move(order.moves["pack"], "a", by="bob")
    noted = [entry.outcome for entry in await ground.db.history(order, "a")]
    assert noted[:2] == [already.outcome, refused.outcome] == ["already", "refused"]


@ALL_FORMS
async def test_a_second_finisher_knows_that_another_one_was_quicker(ground: Ground, form: str) -> None:
    """Its result was not stored, so it must not believe it won: in every form the answer is `Lost`."""
    job = jobs(ground, form, history=True)
    await put(ground, job, "a")
    (late,) = await ground.db.claim(job.claims["work"], by="late", now=NOON)
    (next_one,) = await ground.db.claim(job.claims["work"], by="next", now=after(31))
    finish = job.moves["finish"]
    assert (await ground.db.move(finish, next_one, set={"result": "next"}, now=after(32))).won
    answer = await ground.db.move(finish, late, set={"result": "late"}, now=after(33))
    assert isinstance(answer, Lost)
    assert (answer.status, answer.by, answer.reached) == ("DONE", "next", False)
    (told,) = await ground.db.move_many(finish, [late])
    assert isinstance(told, Lost)
    assert ground.get(job, "a")["result"] == "next"


async def test_already_tells_a_holder_that_it_moved_the_row_itself(ground: Ground) -> None:
    """P12: after an unknown outcome the holder asks again; the row still carries its fence."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert (await ground.db.move(job.moves["finish"], mine, now=after(1))).outcome == "moved"
    assert (await ground.db.move(job.moves["finish"], mine, now=after(2))).outcome == "already"


@pytest.mark.parametrize("form", ["timestamp", "marker"])
async def test_where_the_end_clears_the_fence_the_history_names_who_finished(ground: Ground, form: str) -> None:
    """P12: the row shows nothing any more, so the same finish again is `Lost`, by oneself; `call=` replays it."""
    job = jobs(ground, form, history=True)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], by="ann", now=NOON)
    finish = job.moves["finish"]
    assert (await ground.db.move(finish, mine, now=after(1), call="call-1")).outcome == "moved"
    answer = await ground.db.move(finish, mine, now=after(2))
    assert isinstance(answer, Lost)
    assert (answer.status, answer.by, answer.fence) == ("DONE", "ann", None)
    assert "its claim has ended" in str(answer)
    replayed = await ground.db.move(finish, mine, now=after(3), call="call-1")
    assert isinstance(replayed, Moved)
    assert replayed.replayed
