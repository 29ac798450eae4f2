"""Receivers and workers of the inbox that die (P8, P13): what was answered is there, and is worked on to its end once."""

import pytest

from raceproof import Inbox, Moved, Store, connect
from raceproof.inbox import Arrival
from raceproof.testing.contract.grounds import fresh_name
from tests.promises.crash.actors import Actor, Outside, Stage
from tests.promises.crash.waiting import until
from tests.promises.race.beside import beside
from tests.promises.race.places import Place

LEASE = 0.1


def prepared(place: Place) -> Inbox:
    inbox = Inbox(fresh_name("inbox"), lease=LEASE)
    with beside(place) as ground:
        ground.inbox_table(inbox)
    return inbox


def test_every_event_that_was_answered_outlives_its_receiver(place: Place, db: Store, outside: Outside) -> None:
    """Killed at any instant: what it had answered is there, what is brought again is a duplicate or new, never lost."""
    inbox = prepared(place)

    def part(stage: Stage) -> None:
        number = 0
        with connect(place.url) as own:
            while True:
                own.receive(inbox, Arrival("t", str(number), b"{}"))
                outside.send(answered=str(number))
                stage.tell("answered")
                number += 1

    with Actor(part) as receiver:
        for _ in range(20):
            receiver.until("answered")
        receiver.kill()
    answered = outside.names("answered")
    again = [db.receive(inbox, Arrival("t", event, b"{}")) for event in answered]
    assert [one.duplicate for one in again] == [True] * len(answered)
    # at most the one that it was at is there beside them
    waiting = {one.key[1] for one in db.claim(inbox.work, 1000)}
    assert waiting in ({*answered}, {*answered, str(len(answered))})


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_an_event_whose_worker_goes_away_is_worked_on_again_and_finished_once(
    place: Place, db: Store, how: str
) -> None:
    """And the next of its user waits for it."""
    inbox = prepared(place)
    for event in ("1", "2"):
        db.receive(inbox, Arrival("t", event, b"{}", {}, "ann"))

    def part(stage: Stage) -> None:
        with connect(place.url) as own:
            (mine,) = own.claim(inbox.work, 10, by="first")
            stage.reach("claimed", mine.key[1])
            stage.tell("finished", own.move(inbox.finish, mine).outcome)

    with Actor(part) as first:
        assert first.until("claimed") == ("1",)
        first.kill() if how == "killed" else first.stop()
        (mine,) = until(lambda: db.claim(inbox.work, 10, by="next"), lambda claims: len(claims) > 0)
        assert (mine.key[1], mine.attempt) == ("1", 2)
        if how == "stopped":
            first.resume()
            first.go()
            assert first.until("finished") == ("lost",)
        assert isinstance(db.move(inbox.finish, mine), Moved)
    (second,) = until(lambda: db.claim(inbox.work, 10), lambda claims: len(claims) > 0)
    assert second.key[1] == "2"
