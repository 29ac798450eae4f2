"""Many claims that end together, on every store (L7; P4, P5): each is answered for, however many share a fence."""

from raceproof import Already, Event, Lost, Moved, Spec, subscribed
from tests.contract.grounds import Ground
from tests.contract.jobs import ALL_FORMS, jobs, put
from tests.contract.noon import NOON, after

MOVES = {
    "start": {"from": ["QUEUED"], "to": "RUNNING"},
    "finish": {"from": ["RUNNING"], "to": "DONE"},
}
FORMS_ALONE = {"attempts": None, "cap": None, "after": None, "back": None, "exhausted": None}


def plain(ground: Ground, form: str) -> Spec[str]:
    """Jobs of which a finish tells nothing but that it was made: the shape that stores have a quick way for."""
    return jobs(
        ground,
        form,
        claim=FORMS_ALONE,
        revision=None,
        statuses=["QUEUED", "RUNNING", "DONE"],
        moves=MOVES,
    )


@ALL_FORMS
async def test_claims_of_one_call_end_together_and_each_has_its_answer(ground: Ground, form: str) -> None:
    """Those that were taken over meanwhile are lost, and so is one that is named twice where its end took the fence away."""
    job = plain(ground, form)
    await put(ground, job, *"abcde")
    work, finish = job.claims["work"], job.moves["finish"]
    a, b, c, d, e = await ground.db.claim(work, 5, by="ann", now=NOON)
    taken = await ground.db.claim(work, 2, by="bob", now=after(31))
    assert [one.key for one in taken] == ["a", "b"]
    answers = await ground.db.move_many(finish, [e, a, d, b, d, c])
    twice = Already if form == "columns" else Lost
    assert [(answer.key, type(answer)) for answer in answers] == [
        ("e", Moved), ("a", Lost), ("d", Moved), ("b", Lost), ("d", twice), ("c", Moved),
    ]  # fmt: skip
    assert {answer.before for answer in answers if isinstance(answer, Moved)} == {"RUNNING"}
    assert [ground.get(job, key)["status"] for key in "abcde"] == ["RUNNING"] * 2 + ["DONE"] * 3
    assert [answer.won for answer in await ground.db.move_many(finish, taken)] == [True, True]
    again = await ground.db.move_many(finish, [c, d, e])
    assert [type(answer) for answer in again] == [twice] * 3


@ALL_FORMS
async def test_many_claims_of_two_calls_end_together_and_each_has_its_answer(
    ground: Ground, form: str
) -> None:
    """Enough of each for a statement of its own; the answers come in the order of the claims."""
    job = plain(ground, form)
    keys = [f"k{number:03}" for number in range(240)]
    await put(ground, job, *keys)
    work, finish = job.claims["work"], job.moves["finish"]
    first = await ground.db.claim(work, 120, by="ann", now=NOON)
    second = await ground.db.claim(work, 120, by="ann", now=after(1))
    taken = await ground.db.claim(work, 3, by="bob", now=after(30.5))
    assert [one.key for one in taken] == keys[:3]
    claims = [one for pair in zip(second, first, strict=True) for one in pair]
    events: list[Event] = []
    with subscribed(events.append):
        answers = await ground.db.move_many(finish, claims)
    assert [answer.key for answer in answers] == [one.key for one in claims]
    lost = [answer.key for answer in answers if isinstance(answer, Lost)]
    assert lost == keys[:3]
    assert sum(isinstance(answer, Moved) for answer in answers) == 237
    assert [(event.key, event.outcome) for event in events] == [
        (answer.key, answer.outcome) for answer in answers
    ]
    rows = [ground.get(job, key)["status"] for key in keys]
    assert rows == ["RUNNING"] * 3 + ["DONE"] * 237
