"""Starters that die or stand still (P9): at most one attempt is open, and a superseded one writes nothing more."""

import pytest

from raceproof import Started, Store, connect
from raceproof.testing.contract.attempts import logins
from tests.promises.crash.actors import Actor, Stage
from tests.promises.race.beside import beside, keys_at
from tests.promises.race.places import Place

HOW = pytest.mark.parametrize("how", ["killed", "stopped"])


@HOW
def test_an_attempt_whose_process_goes_away_is_superseded_and_can_write_nothing_more(
    place: Place, db: Store, how: str
) -> None:
    """The zombie wakes up as if nothing had been; its status refuses it."""
    with beside(place) as ground:
        attempts, login = logins(ground, history=True)

    def part(stage: Stage) -> None:
        with connect(place.url) as own:
            assert own.start_attempt(attempts, "ann", "a1", by="first").won
            stage.reach("started")
            stage.tell("scanned", own.move(login.moves["scan"], "a1").outcome)
            again = own.start_attempt(attempts, "ann", "a1", by="first")
            stage.tell("again", again.outcome)

    with Actor(part) as first:
        first.until("started")
        first.kill() if how == "killed" else first.stop()
        second = db.start_attempt(attempts, "ann", "a2", by="next")
        assert isinstance(second, Started)
        assert second.superseded == "a1"
        if how == "stopped":
            first.resume()
            first.go()
            assert first.until("scanned") == ("refused",)
            assert first.until("again") == ("rejected",)
    assert (db.current_attempt(attempts, "ann") or {})["login_id"] == "a2"
    moves = [entry.move for entry in reversed(db.history(login, "a1"))]
    assert moves == ["attempt", "supersede"]


def test_starters_killed_at_any_instant_leave_at_most_one_open_attempt(place: Place, db: Store) -> None:
    """Ten processes start one attempt after the other and are killed wherever they are, perhaps between two statements."""
    with beside(place) as ground:
        attempts, login = logins(ground, history=True)
    for number in range(10):

        def part(stage: Stage, number: int = number) -> None:
            with connect(place.url) as own:
                turn = 0
                while True:
                    own.start_attempt(attempts, "ann", f"a{number}-{turn}", by=f"process {number}")
                    stage.tell("started")
                    turn += 1

        with Actor(part) as starter:
            for _ in range(number % 4 + 1):
                starter.until("started")
            starter.kill()
        with beside(place) as ground:
            assert len(keys_at(ground, login, "pending")) == 1
    last = db.start_attempt(attempts, "ann", "last")
    assert isinstance(last, Started)
    with beside(place) as ground:
        assert keys_at(ground, login, "pending") == ["last"]
        ended = keys_at(ground, login, "superseded")
        links = [ground.get(login, key)["superseded_by"] for key in ended]
    # each was ended by one successor, and nobody ended two: a chain
    assert len(set(links)) == len(ended)
    for key in ended:
        assert [entry.move for entry in reversed(db.history(login, key))] == ["attempt", "supersede"]
