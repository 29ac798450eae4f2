"""The documentation is true: generated parts are fresh, examples print what is shown, links lead somewhere."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from raceproof import Attempts
from raceproof.ops.sweep import SweepOptions
from raceproof.ops.sweep.steps import Work
from tools import generate_docs
from tools.generate_docs import EXAMPLES, ROOT, fill, pages, parts

WRITTEN = [*pages(), *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH = re.compile(r"`((?:src|apps|tests|tools|bench|docs|requirements|\.ci)/[\w./-]+)(?:::(\w+))?`")


def _prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, in the way that they are made when it is shown."""
    headings = _HEADING.findall(_prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=_named)
def test_the_generated_parts_of_a_page_are_fresh(page: Path) -> None:
    """`make docs` would change nothing."""
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs_and_a_page_shows_what_it_prints(example: Path) -> None:
    """What it shows is fresh by the test above; what prints nothing is there for the others."""
    shown = {part for page in pages() for part in parts(page.read_text(encoding="utf-8"))}
    assert bool(generate_docs.printed(example.name)) == (f"output {example.name}" in shown)
    assert any(example.name in part.split() for part in shown)


@pytest.mark.parametrize("page", WRITTEN, ids=_named)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """To a file that exists, and to a heading that it has."""
    assert list(_broken_links(page)) == []


def _broken_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_prose(page)):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield link


@pytest.mark.parametrize("page", WRITTEN, ids=_named)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    """Above all the tests that are said to show a promise: `tests/…/test_x.py::test_name`."""
    for path, test in _PATH.findall(_prose(page)):
        assert (ROOT / path).exists(), path
        assert f"def {test}(" in _source(ROOT / path) if test else True, test


def _source(path: Path) -> str:
    """The text of a file of tests, and of the modules whose tests it imports."""
    text = path.read_text(encoding="utf-8")
    modules = re.findall(r"^from ([\w.]+) import \*$", text, re.MULTILINE)
    files = [ROOT / "src" / (module.replace(".", "/") + ".py") for module in modules]
    return text + "".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("name", ["moves", "claims", "deliveries", "attempts", "leader", "inbox", "intake", "worker"])
def test_a_primitive_s_page_begins_with_the_race_and_ends_with_what_is_not_promised(name: str) -> None:
    """And the index of the documentation names it."""
    page = ROOT / "docs" / f"{name}.md"
    sections = re.findall("^## (.+)$", _prose(page), re.MULTILINE)
    assert (sections[0], sections[-1]) == ("The race", "Not promised")
    assert f"]({name}.md)" in (ROOT / "docs" / "README.md").read_text(encoding="utf-8")


def test_the_page_about_sweeping_says_first_that_nobody_needs_it() -> None:
    """It has the form of the others, names every option and every kind of work, and can be found."""
    page = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    sections = re.findall("^## (.+)$", page, re.MULTILINE)
    assert (sections[0], sections[-1]) == ("What goes wrong without it", "Not promised")
    assert "Correctness never needs it" in page.partition("## ")[0]
    for name in (*SweepOptions.__annotations__, *get_args(Work)):
        assert f"| `{name}` |" in page, name
    for index, link in (
        ("README.md", "docs/sweep.md"),
        ("docs/README.md", "sweep.md"),
        ("docs/promises.md", "sweep.md"),
    ):
        assert f"]({link})" in (ROOT / index).read_text(encoding="utf-8")
    settings = (ROOT / "docs" / "attempts.md").read_text(encoding="utf-8")
    for field in fields(Attempts):
        assert f"`{field.name}`" in settings, field.name


def test_every_promise_that_the_code_names_is_on_the_page_with_its_tests() -> None:
    """A comment that says P4 names the race that it closes; the page says where that is shown."""
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    shown = {part.split()[0] for part in page.split("\n## ") if part.startswith("P") and "`tests/" in part}
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".sql", ".lua")]
    named = {name for path in files for name in re.findall(r"\bP\d+\b", path.read_text(encoding="utf-8"))}
    assert named - shown == set()


def test_every_decision_is_in_the_index() -> None:
    """And nothing else is."""
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in folder.glob("0*.md"))
