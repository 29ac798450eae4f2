"""Diagrams: the same picture for the same declaration, well-formed whatever things are called, nothing on top of another."""

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raceproof import Lifecycle
from raceproof.declare import Spec
from raceproof.ops.diagram import ascii_diagram, mermaid, svg
from raceproof.ops.diagram.layout import Layout, layout
from raceproof.ops.diagram.measure import label_width

OPEN = ["QUEUED", "SENT", "ACK"]
ENDS = {
    "done": "DONE",
    "no_effect": "NO_EFFECT",
    "failed": "ERROR",
    "invalid": "INVALID",
    "busy": "BUSY",
    "timeout": "TIMEOUT",
}
NAMESPACE = "{http://www.w3.org/2000/svg}"


def spec(name: str, statuses: list[str], moves: dict[str, tuple[list[str], str]], **options: Any) -> Spec[str]:
    declared = {move: {"from": sources, "to": target} for move, (sources, target) in moves.items()}
    return Lifecycle.from_dict({"name": name, "table": "rows", "statuses": statuses, "moves": declared, **options})


COMMAND = spec(
    "Command",
    [*OPEN, *ENDS.values(), "SEND_FAILED"],
    {
        "send": (["QUEUED", "SEND_FAILED"], "SENT"),
        "ack": (["QUEUED", "SENT"], "ACK"),
        **{move: (OPEN, status) for move, status in ENDS.items()},
        "send_failed": (["QUEUED"], "SEND_FAILED"),
    },
)
LOGIN = spec(
    "Login",
    [
        "pending",
        "qr_rendered",
        "scanned",
        "authorized",
        "session_saved",
        "done",
        "expired",
        "failed",
        "superseded",
    ],
    {
        "render": (["pending"], "qr_rendered"),
        "scan": (["qr_rendered"], "scanned"),
        "authorize": (["scanned"], "authorized"),
        "save": (["authorized"], "session_saved"),
        "finish": (["session_saved"], "done"),
        "expire": (["pending"], "expired"),
        "fail": (["pending", "qr_rendered", "scanned", "authorized", "session_saved"], "failed"),
        "supersede": (["pending", "qr_rendered", "scanned", "authorized", "session_saved"], "superseded"),
    },
)
DOOR = spec(
    "Door",
    ["open", "closed", "locked"],
    {
        "close": (["open"], "closed"),
        "open": (["closed"], "open"),
        "lock": (["closed"], "locked"),
        "unlock": (["locked"], "closed"),
        "slam": (["open"], "locked"),
    },
)

patient = settings(deadline=None)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@st.composite
def specs(draw: st.DrawFn) -> Spec[str]:
    """Any declaration that is valid, with up to a dozen statuses and names of any characters."""
    statuses = draw(st.lists(text, min_size=2, max_size=12, unique=True))
    edges = {
        (frozenset([statuses[draw(st.integers(0, place - 1))]]), statuses[place]) for place in range(1, len(statuses))
    }
    for target in draw(st.lists(st.sampled_from(statuses), max_size=8)):
        others = [status for status in statuses if status != target]
        edges.add((frozenset(draw(st.sets(st.sampled_from(others), min_size=1))), target))
    ordered = sorted(edges, key=lambda edge: (edge[1], sorted(edge[0])))
    names = draw(st.lists(text, min_size=len(ordered), max_size=len(ordered), unique=True))
    moves = {name: (sorted(sources), target) for name, (sources, target) in zip(names, ordered, strict=True)}
    return spec(draw(text), statuses, moves, initial=[statuses[0]])


@given(specs())
@patient
def test_any_declaration_gives_a_well_formed_picture(declared: Spec[str]) -> None:
    """Every status and every move is in it, as text, however odd its name is."""
    root = ElementTree.fromstring(svg(declared))
    assert len(root.findall(f"{NAMESPACE}g[@data-status]")) == len(declared.statuses)
    assert len({id(label) for label in root.iter() if "data-move" in label.attrib}) >= len(declared.moves)
    assert {element.tag.removeprefix(NAMESPACE) for element in root.iter()} <= {
        "svg",
        "title",
        "style",
        "rect",
        "text",
        "g",
        "path",
        "circle",
    }


@given(specs())
@patient
def test_the_same_declaration_gives_the_same_diagrams(declared: Spec[str]) -> None:
    """A declaration that went through its plain form has the same diagrams, character by character."""
    again = Lifecycle.from_dict(declared.to_dict())
    for draw in (svg, mermaid, ascii_diagram):
        assert draw(again) == draw(declared)


@given(specs())
@patient
def test_no_two_things_lie_on_each_other(declared: Spec[str]) -> None:
    """Boxes and labels have their own place, inside the picture."""
    placed = layout(declared)
    for one, other in combinations(_rectangles(placed), 2):
        assert not _overlap(one, other), (one, other)
    for left, top, right, bottom in _rectangles(placed):
        assert left >= 0
        assert top >= 0
        assert right <= placed.width
        assert bottom <= placed.height


@given(specs())
@patient
def test_no_two_wires_run_along_each_other(declared: Spec[str]) -> None:
    """Wires may cross, but no stretch of one lies on a stretch of another."""
    stretches = [list(_stretches(wire)) for wire in layout(declared).wires]
    for one, other in combinations(stretches, 2):
        for first in one:
            for second in other:
                assert not _along(first, second), (first, second)


@given(specs())
@patient
def test_mermaid_has_one_statement_on_a_line(declared: Spec[str]) -> None:
    """Whatever a name contains, it cannot begin a line or end a label early."""
    statement = re.compile(
        r'    (direction LR|state "[^"\n]*" as s\d+|\[\*\] --> \w+|\w+ --> \[\*\]|\w+ --> \w+: ([^:;#"<>\n]|#\d+;)+)'
    )
    first, *lines = mermaid(declared).splitlines()
    assert first == "stateDiagram-v2"
    for line in lines:
        assert statement.fullmatch(line), line


@given(specs())
@patient
def test_the_ascii_diagram_draws_nothing_but_lines(declared: Spec[str]) -> None:
    """No control character of a name reaches the terminal, and every move has a line."""
    drawn = ascii_diagram(declared)
    assert all(character.isprintable() or character == "\n" for character in drawn)
    assert drawn.count("-> ") >= sum(len(move.sources) for move in declared.moves.values())


def test_mermaid_shows_starts_moves_and_ends() -> None:
    """Plain names stay as they are."""
    lines = mermaid(COMMAND).splitlines()
    assert lines[:4] == [
        "stateDiagram-v2",
        "    direction LR",
        "    [*] --> QUEUED",
        "    QUEUED --> SENT: send",
    ]
    assert "    SEND_FAILED --> SENT: send" in lines
    assert lines[-1] == "    TIMEOUT --> [*]"


def test_mermaid_gives_odd_names_a_plain_one() -> None:
    """A word of the grammar or one with a space is shown as text and called s0, s1 and so on."""
    odd = spec("Odd", ["end", 'a "b"'], {"go; now": (["end"], 'a "b"')})
    assert mermaid(odd).splitlines()[2:] == [
        '    state "end" as s0',
        '    state "a #34;b#34;" as s1',
        "    [*] --> s0",
        "    s0 --> s1: go#59; now",
        "    s1 --> [*]",
    ]


def test_guards_stand_beside_their_move() -> None:
    """In text diagrams in words, in the picture as a tooltip."""
    guarded = Lifecycle.from_dict(
        {
            "name": "Job",
            "table": "jobs",
            "statuses": ["NEW", "RUNNING"],
            "moves": {"start": {"from": ["NEW"], "to": "RUNNING", "where": [["attempts", "<", 3]]}},
        }
    )
    assert "start [attempts #60; 3]" in mermaid(guarded)
    assert "start [attempts < 3] -> RUNNING [end]" in ascii_diagram(guarded)
    assert "<title>start: NEW → RUNNING, if attempts &lt; 3</title>" in svg(guarded)


def test_the_ascii_diagram_lists_each_way_out() -> None:
    """A status with several moves fans out, one with a single move does not."""
    assert ascii_diagram(DOOR) == (
        "Door: rows.status\n"
        "\n"
        " (*) open ---+- close --> closed\n"
        "             '- slam ---> locked\n"
        "\n"
        "     closed -+- open ---> open\n"
        "             '- lock ---> locked\n"
        "\n"
        "     locked --- unlock -> closed\n"
        "\n"
        " (*) a row starts here   [end] it never leaves again\n"
    )


@pytest.mark.parametrize("declared", [COMMAND, LOGIN, DOOR], ids=str)
def test_the_picture_is_readable_on_a_phone_in_light_and_dark(declared: Spec[str]) -> None:
    """It is not much wider than a phone, shrinks with its page, and brings both sets of colours."""
    drawn = svg(declared)
    assert layout(declared).width < 500
    assert "max-width:100%" in drawn
    assert "@media (prefers-color-scheme: dark)" in drawn


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    """No script, no font, no address but that of the SVG namespace."""
    drawn = svg(COMMAND)
    assert re.findall(r"https?://[^\s\"<]+", drawn) == ["http://www.w3.org/2000/svg"]
    assert "script" not in drawn
    assert "url(" not in drawn


def test_open_statuses_stand_left_of_ended_ones_and_the_initial_one_first() -> None:
    """One reads from the top left to the right."""
    boxes = {box.status: box for box in layout(COMMAND).boxes}
    first = boxes["QUEUED"]
    assert first.initial
    assert all((box.y, box.x) >= (first.y, first.x) for box in boxes.values() if not box.terminal)
    assert all(box.x > first.x + first.width for box in boxes.values() if box.terminal)
    assert {box.status for box in boxes.values() if box.terminal} == set(ENDS.values())


def test_moves_with_the_same_sources_share_a_wire() -> None:
    """Six moves from the same three statuses are one wire with six ends, not eighteen lines."""
    wires = {tuple(move.name for move in wire.moves): wire for wire in layout(COMMAND).wires}
    shared = wires[tuple(ENDS)]
    assert (len(shared.leaving), len(shared.arriving)) == (3, 6)


Rectangle = tuple[float, float, float, float]
Stretch = tuple[float, float, float, float]


def _rectangles(placed: Layout) -> Iterator[Rectangle]:
    """Boxes and labels: left, top, right, bottom."""
    for box in placed.boxes:
        yield box.x, box.y, box.x + box.width, box.y + box.height
    for wire in placed.wires:
        for move, height in zip(wire.moves, wire.arriving, strict=True):
            yield _around(wire.label, height, label_width(move))
    for arrow in placed.arrows:
        middle = (arrow.top + arrow.bottom - 7) / 2
        for number, move in enumerate(arrow.moves):
            height = middle + (number - (len(arrow.moves) - 1) / 2) * 15
            yield _around(arrow.x, height, label_width(move))


def _around(x: float, y: float, width: float) -> Rectangle:
    return x - width / 2, y - 6, x + width / 2, y + 6


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _stretches(wire: Any) -> Iterator[Stretch]:
    """The straight parts of a wire: left, top, right, bottom."""
    heights = wire.leaving + wire.arriving
    yield wire.lane, min(heights), wire.lane, max(heights)
    for height in wire.leaving:
        yield min(wire.start, wire.lane), height, max(wire.start, wire.lane), height
    for height in wire.arriving:
        yield min(wire.end, wire.lane), height, max(wire.end, wire.lane), height


def _along(one: Stretch, other: Stretch) -> bool:
    """Whether two stretches have more than a point in common."""
    if one[1] == one[3] == other[1] == other[3]:
        return one[0] < other[2] and other[0] < one[2]
    if one[0] == one[2] == other[0] == other[2]:
        return one[1] < other[3] and other[1] < one[3]
    return False
