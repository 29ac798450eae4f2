"""What people see of a verdict elsewhere: the diagram, and the page."""

from html.parser import HTMLParser

import pytest

from raceproof.testing.explorer import explored
from raceproof.testing.explorer.html import page
from raceproof.testing.explorer.mermaid import sequence
from raceproof.testing.explorer.story import scenes
from tests.library.explorer.reported import fixed, hostile, moved, naive, order_only, replayed

# the diagram


def test_the_diagram_has_the_processes_the_store_and_the_effects() -> None:
    """An arrow for each operation, and one back for each answer."""
    drawn = [line.strip() for line in sequence(order_only(naive)).splitlines()]
    assert drawn[:5] == [
        "sequenceDiagram",
        "participant P1 as callback",
        "participant P2 as poller",
        "participant Store",
        "participant E1 as send",
    ]
    assert "P2->>E1: 5 send('p1')" in drawn
    assert "Store-->>P1: 'READY'" in drawn
    assert "Note over Store: pictures p1: status READY→SENT" in drawn


@pytest.mark.parametrize(
    ("fate", "line"),
    [
        ("fails", "P1-xStore: "),
        ("unanswered", "Store--xP1: ✗ the answer is lost"),
        ("dies-before", "Note over P1: ✗ dies just before<br/>SELECT"),
        ("dies-after", "Note over P1: ✗ dies just after"),
    ],
)
def test_a_fault_is_drawn(fate: str, line: str) -> None:
    """As a broken arrow, or as a note."""
    drawn = sequence(replayed(naive, f"callback callback:{fate}"))
    assert sum(one.strip().startswith(line) for one in drawn.splitlines()) == 1


def test_a_hostile_text_stays_a_text_in_the_diagram() -> None:
    """Every line is one of ours: no text ends its line or begins an entity, a comment or markup."""
    for line in sequence(order_only(hostile)).splitlines()[1:]:
        kind, _, said = line.strip().replace("<br/>", " ").partition(": ")
        assert kind.startswith(("participant ", "Note over ")) or kind in (
            "P1->>Store",
            "P1->>E1",
            "Store-->>P1",
        )
        assert not set('<>"`{}$%\\') & set(said)
        assert said.count("#") == said.count(";")


# the page


class Reader(HTMLParser):
    """Collects the texts and tags of a page, and complains about a tag that is not closed."""

    def __init__(self, read: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(read)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    """No script, no link to another place, and a policy that forbids both."""
    made = page([order_only(naive), explored(fixed).explore(deviations=1)])
    read = Reader(made)
    assert {tag for tag, _ in read.tags} & {"script", "link", "img", "iframe"} == set()
    assert all((given.get("href") or "#").startswith("#") for _, given in read.tags)
    assert "url(" not in made
    assert "@import" not in made
    assert "http" not in made.replace("http-equiv", "")
    assert any("default-src 'none'" in (given.get("content") or "") for _, given in read.tags)


def test_the_page_shows_the_steps_and_the_certificate() -> None:
    """And which of them has passed."""
    failing, passing = order_only(naive), explored(fixed).explore(deviations=1)
    read = Reader(page([failing, passing], ["a:naive", "a:fixed"]))
    assert {"1 of 2 scenarios passed", failing.why, "✗ failed", "✓ passed", "crash points"} <= set(read.texts)
    assert f"raceproof explore a:naive --replay '{failing.schedule}'" in read.texts
    assert [given["data-process"] for _, given in read.tags if "data-process" in given] == [
        scene.process for scene in scenes(failing)[1:]
    ]


def test_a_hostile_text_stays_a_text_on_the_page() -> None:
    """In rows, answers, effects and the reason."""
    calm, wild = (Reader(page([replayed(one, "worker")])) for one in (moved, hostile))
    assert {tag for tag, _ in wild.tags} <= {tag for tag, _ in calm.tags} | {"p"}
    assert sum("<script>alert(1)</script>\\x1b[31m" in one for one in wild.texts) >= 4
    assert not any("\x1b" in one or "\u202e" in one for one in wild.texts)
