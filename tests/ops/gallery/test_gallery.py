"""The gallery is true: every naive design fails as its page says, every guarded one holds, and the pages are fresh."""

from dataclasses import replace
from types import ModuleType

import pytest

from gallery.catalogue import EXHIBITS
from raceproof.testing.explorer import Explorer, world_of
from raceproof.testing.explorer.report import text
from tools.generate_gallery import FOLDER, exhibit_of, fingerprint, kept, name_of, pages, smallest_failure

each_exhibit = pytest.mark.parametrize("module", EXHIBITS, ids=name_of)


@each_exhibit
def test_the_naive_design_fails_in_the_schedule_that_its_page_shows(module: ModuleType) -> None:
    """And in no smaller one."""
    verdict = smallest_failure(module)
    assert (verdict.kind, verdict.schedule) == ("failed", exhibit_of(module).schedule), text(verdict)
    assert not verdict.covered.random


@pytest.mark.parametrize("module", [one for one in EXHIBITS if exhibit_of(one).also], ids=name_of)
def test_the_other_schedule_that_a_page_speaks_of_fails_too(module: ModuleType) -> None:
    """It is told in words only."""
    exhibit = exhibit_of(module)
    verdict = Explorer(world_of(module.naive), exhibit.search).replay(exhibit.also)
    assert (verdict.kind, verdict.schedule) == ("failed", exhibit.also), text(verdict)


@each_exhibit
def test_the_guarded_design_holds(module: ModuleType) -> None:
    """With two deviations, to be quick; its certificate has more."""
    limits = exhibit_of(module).limits
    fewer = replace(limits, deviations=min(limits.deviations - 1, 2), seconds=600.0)
    verdict = Explorer(world_of(module.guarded), fewer).explore()
    assert verdict.kind != "failed", text(verdict)
    assert verdict.covered.exhausted == fewer.deviations


@each_exhibit
def test_the_guarded_design_comes_to_its_end_undisturbed(module: ModuleType) -> None:
    """What does nothing breaks nothing."""
    verdict = Explorer(world_of(module.guarded), exhibit_of(module).limits).replay("")
    assert verdict.kind == "passed", text(verdict)
    assert any(step.told for step in verdict.steps)


@each_exhibit
def test_a_certificate_is_for_the_code_that_its_page_shows(module: ModuleType) -> None:
    """Whoever changes the stage or the guarded design explores it again."""
    assert kept()[name_of(module)]["of"] == fingerprint(module)


def test_the_pages_are_fresh() -> None:
    """`python -m tools.generate_gallery` would change nothing, and nothing lies about that it does not write."""
    wanted = pages(kept())
    assert {path.name for path in FOLDER.iterdir()} == {path.name for path in wanted}
    for path, content in wanted.items():
        assert path.read_text(encoding="utf-8") == content, path.name
