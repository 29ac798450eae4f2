"""SQLite's clock has milliseconds: two claims of the same one are told apart all the same (P4)."""

from pathlib import Path

from raceproof import Claim, Lost, connect
from raceproof.testing.contract.clock import NOON
from tests.promises.race.places import SqlitePlace
from tests.promises.race.test_claims import prepared


def test_claims_of_the_same_moment_have_fences_of_their_own(tmp_path: Path) -> None:
    """The row is given back and claimed again at once; who had it first has lost it."""
    place = SqlitePlace(f"sqlite:///{tmp_path}/same.db")
    spec = prepared(place, ["j"], "timestamp")
    with connect(place.url) as db:
        for _ in range(5):
            first = db.claim_one(spec.claims["work"], "j", by="first", now=NOON)
            assert isinstance(first, Claim)
            db.release(first, now=NOON)
            second = db.claim_one(spec.claims["work"], "j", by="second", now=NOON)
            assert isinstance(second, Claim)
            assert first.fence != second.fence
            assert isinstance(db.renew(first, now=NOON)[0], Lost)
            db.release(second, now=NOON)
