"""The test that keeps a schedule."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path

import pytest

from raceproof.testing.explorer import Verdict
from raceproof.testing.explorer.as_test import source
from tests.library.explorer.reported import fixed, hostile, naive, order_only, replayed


def kept(target: str, verdict: Verdict, file: Path) -> tuple[str, Callable[[], None]]:
    """The text of a kept schedule, and its one test."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(source(target, verdict, file), encoding="utf-8")
    found = run_path(str(file))
    [test] = [thing for name, thing in found.items() if name.startswith("test_")]
    return file.read_text(encoding="utf-8"), test


def test_a_kept_schedule_fails_as_long_as_it_breaks_and_passes_afterwards(tmp_path: Path) -> None:
    """As long as its steps are still there."""
    broken = replayed(naive, "callback*2 callback:dies-after callback*3")
    _, test = kept("tests.library.explorer.reported:naive", broken, tmp_path / "test_broken.py")
    assert test.__name__ == "test_naive_holds_when_callback_dies_after"
    with pytest.raises(AssertionError, match="never twice: send"):
        test()
    held = replayed(fixed, "callback callback:dies-after callback*2 poller*2")
    _, test = kept("tests.library.explorer.reported:fixed", held, tmp_path / "test_held.py")
    test()


def test_a_kept_schedule_of_a_file_finds_it_from_where_the_test_is(tmp_path: Path) -> None:
    """No path of this machine is in it."""
    file = tmp_path / "shop" / "kept_scenarios.py"
    file.parent.mkdir()
    file.write_text("from tests.library.explorer.reported import naive\n")
    verdict = replayed(naive, "callback*2 callback:dies-after callback*3")
    written, test = kept(f"{file}:naive", verdict, tmp_path / "tests" / "test_kept.py")
    assert '"../shop"' in written
    assert str(tmp_path) not in written
    with pytest.raises(AssertionError, match="✗ dies just after"):
        test()


def test_a_hostile_reason_stays_in_the_docstring(tmp_path: Path) -> None:
    """What is written is Python, whatever the reason says."""
    written, test = kept("tests.library.explorer.reported:hostile", order_only(hostile), tmp_path / "test_it.py")
    assert test.__doc__ is not None
    assert "alert(1)" in test.__doc__
    assert written.count('"""') == 4
