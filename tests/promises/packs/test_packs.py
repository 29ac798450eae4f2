"""The promise packs, in short: two deviations at most and a moment for each; the whole of them is run by hand."""

import pytest

from raceproof.testing.explorer import Limits
from raceproof.testing.explorer.action import Fate
from tests.promises.packs import PACKS, Pack
from tests.promises.packs.__main__ import main

SHORT = Limits(deviations=2, seconds=0.7)
_KINDS = {
    "crash": (Fate.DIES_BEFORE, Fate.DIES_AFTER),
    "lost acknowledgement": (Fate.UNANSWERED,),
    "error": (Fate.FAILS,),
    "cancellation": (Fate.CANCELLED_BEFORE, Fate.CANCELLED_AFTER),
}


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_no_schedule_breaks_a_promise_and_each_kind_of_fault_is_tried(pack: Pack) -> None:
    verdict = pack.explore(SHORT)
    assert verdict.kind != "failed", f"{verdict.why}: {verdict.schedule}"
    assert verdict.covered.exhausted >= 0
    for kind, fates in _KINDS.items():
        assert any(verdict.covered.points.get(fate) for fate in fates), f"no {kind}"


def test_each_promise_that_can_be_explored_has_a_pack() -> None:
    about = {promise for pack in PACKS for promise in pack.promises}
    assert about == {f"P{number}" for number in range(1, 15)}


def test_names_are_used_once() -> None:
    assert len({pack.name for pack in PACKS}) == len(PACKS)


def test_a_pack_that_is_exhausted_has_a_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "stopped-worker", "--deviations", "2"]) == 0
    assert "passed" in capsys.readouterr().out


def test_a_pack_without_enough_time_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "same-move", "--seconds", "0.01"]) == 3
    assert "inconclusive" in capsys.readouterr().out
