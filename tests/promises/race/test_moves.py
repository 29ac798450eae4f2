"""Moves under real races (P1, P2): eight processes, each with a connection of its own, all at the same row at once."""

import asyncio
from collections import Counter
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import pytest

from raceproof import Already, Lifecycle, Moved, Refused, connect
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import fresh_name
from tests.promises.race.lifecycles import ALL, COMMAND
from tests.promises.race.places import Place
from tests.promises.race.processes import Barrier, race

WORKERS = 8


class Told(NamedTuple):
    """What one process was told about one row."""

    key: str
    move: str
    outcome: str
    before: str | None
    revision: int | None


def declare(declaration: dict[str, Any]) -> Spec[str]:
    history = {"table": fresh_name("history")}
    return Lifecycle.from_dict({**declaration, "table": fresh_name("race"), "revision": "rev", "history": history})


def told(answer: Any) -> Told:
    return Told(answer.key, answer.declared.name, answer.outcome, getattr(answer, "before", None), answer.revision)


def test_of_many_identical_moves_exactly_one_is_told_moved(place: Place) -> None:
    """P1: eight processes ask for the same move of the same row; the other seven find it there already."""
    command = declare(COMMAND)
    keys = [f"c{number}" for number in range(60)]
    place.prepare(command, dict.fromkeys(keys, "QUEUED"))

    def job(number: int, barrier: Barrier) -> list[str]:
        with connect(place.url) as db:
            outcomes = []
            for key in keys:
                barrier.wait()
                outcomes.append(db.move(command.moves["ack"], key, by=f"process {number}").outcome)
            return outcomes

    for outcomes in zip(*race(job, WORKERS), strict=True):
        assert Counter(outcomes) == {"moved": 1, "already": WORKERS - 1}


def test_without_the_guard_the_same_race_is_won_several_times(place: Place) -> None:
    """The control: read, decide, write, as people do. If this cannot lose, the race above proves nothing."""
    command = declare(COMMAND)
    keys = [f"c{number}" for number in range(10)]
    place.prepare(command, dict.fromkeys(keys, "QUEUED"))
    ack = command.moves["ack"]

    def job(number: int, barrier: Barrier) -> list[bool]:
        read, write = place.naive()
        won = []
        for key in keys:
            barrier.wait()
            allowed = read(command, key) in ack.sources
            barrier.wait()
            if allowed:
                write(command, key, ack.target)
            won.append(allowed)
        return won

    wins = [sum(won) for won in zip(*race(job, WORKERS), strict=True)]
    assert max(wins) > 1


def test_a_late_sent_never_overwrites_an_ack(place: Place) -> None:
    """The note's own case: ACK arrives while somebody is still about to write SENT."""
    command = declare(COMMAND)
    keys = [f"c{number}" for number in range(60)]
    place.prepare(command, dict.fromkeys(keys, "QUEUED"))

    def job(number: int, barrier: Barrier) -> list[str]:
        move = command.moves["ack" if number % 2 else "send"]
        with connect(place.url) as db:
            for key in keys:
                barrier.wait()
                db.move(move, key)
            return [str((db.read(command, key) or {})["status"]) for key in keys]

    race(job, WORKERS)
    with connect(place.url) as db:
        assert {str((db.read(command, key) or {})["status"]) for key in keys} == {"ACK"}


def test_without_the_guard_a_late_sent_overwrites_an_ack(place: Place) -> None:
    """The control: the bare UPDATE of the note."""
    command = declare(COMMAND)
    keys = [f"c{number}" for number in range(10)]
    place.prepare(command, dict.fromkeys(keys, "QUEUED"))

    def job(number: int, barrier: Barrier) -> list[str]:
        read, write = place.naive()
        for key in keys:
            barrier.wait()
            if number % 2:
                write(command, key, "ACK")
            barrier.wait()
            if not number % 2:
                write(command, key, "SENT")
        barrier.wait()
        return [read(command, key) for key in keys]

    assert "SENT" in race(job, WORKERS)[0]


@pytest.mark.parametrize("declaration", ALL, ids=[str(one["name"]) for one in ALL])
def test_every_pair_of_moves_ends_on_a_declared_path(place: Place, declaration: dict[str, Any]) -> None:
    """D3: from every status, four processes race one move and four another; the history has to explain every answer."""
    spec = declare(declaration)
    pairs = list(combinations_with_replacement(spec.moves, 2))
    races = {f"{status}:{one}:{other}": status for status in spec.statuses for one, other in pairs}
    place.prepare(spec, races)

    def job(number: int, barrier: Barrier) -> list[Told]:
        found: list[Told] = []
        with connect(place.url) as db:
            for key in races:
                name = key.split(":")[1 + number % 2]
                if len(found) % 10 == 0:
                    barrier.wait()
                found.append(told(db.move(spec.moves[name], key, by=f"process {number}")))
        return found

    answers: dict[str, list[Told]] = {key: [] for key in races}
    for found in race(job, WORKERS):
        for one in found:
            answers[one.key].append(one)
    with connect(place.url) as db:
        for key, start in races.items():
            check_row(spec, start, answers[key], list(reversed(db.history(spec, key))), db.read(spec, key) or {})


def check_row(spec: Spec[str], start: str, answers: list[Told], history: list[Any], row: dict[str, Any]) -> None:
    """The history is one declared path, every *moved* is one step of it, and no step was told to nobody or to two."""
    status, revision = start, 0
    for entry in history:
        move = spec.moves[entry.move]
        assert entry.before == status
        assert entry.before in move.sources
        assert entry.after == move.target
        assert entry.revision == revision + 1
        status, revision = entry.after, entry.revision
    assert (row["status"], int(row["rev"])) == (status, revision)
    steps = sorted((entry.move, entry.before, entry.revision) for entry in history)
    assert sorted((one.move, one.before, one.revision) for one in answers if one.outcome == "moved") == steps
    assert {one.outcome for one in answers} <= {"moved", "already", "refused"}


def test_two_bulks_over_the_same_rows_neither_deadlock_nor_move_a_row_twice(place: Place) -> None:
    """L4: eight processes move all rows at once, each in an order of its own."""
    command = declare(COMMAND)
    keys = [f"c{number}" for number in range(200)]
    place.prepare(command, dict.fromkeys(keys, "QUEUED"))

    def job(number: int, barrier: Barrier) -> list[str]:
        mine = keys if number % 2 else list(reversed(keys))
        with connect(place.url) as db:
            barrier.wait()
            answers = db.move_many(command.moves["ack"], mine, by=f"process {number}")
            return [answer.outcome for answer in sorted(answers, key=lambda answer: int(answer.key[1:]))]

    for outcomes in zip(*race(job, WORKERS), strict=True):
        assert Counter(outcomes) == {"moved": 1, "already": WORKERS - 1}


def test_shared_statements_of_many_processes_answer_each_caller_alone(place: Place) -> None:
    """Coalesced async calls of eight processes on the same rows: one is told moved, whoever shares its statement."""
    command = declare(COMMAND)
    keys = [f"c{number}" for number in range(40)]
    place.prepare(command, dict.fromkeys(keys, "QUEUED"))

    async def all_at_once(number: int, barrier: Barrier) -> list[str]:
        async with connect(place.url) as db:
            barrier.wait()
            calls = [db.move(command.moves["ack"], key, by=f"process {number}") for key in keys * 2]
            answers = await asyncio.gather(*calls)
            for answer in answers:
                assert isinstance(answer, Moved | Already | Refused)
            return [answer.outcome for answer in answers]

    told_of: Counter[tuple[str, str]] = Counter()
    for outcomes in race(lambda number, barrier: asyncio.run(all_at_once(number, barrier)), WORKERS):
        told_of.update(zip(keys * 2, outcomes, strict=True))
    for key in keys:
        assert (told_of[key, "moved"], told_of[key, "already"]) == (1, 2 * WORKERS - 1)
