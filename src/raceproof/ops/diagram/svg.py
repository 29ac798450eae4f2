"""The picture as a self-contained SVG: no fonts, scripts or files from elsewhere; light and dark by the reader's wish.

Every status carries `data-status` and every label `data-move`, so that a page can put counts and rates on them.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from raceproof.declare.spec import Move, Spec
from raceproof.ops.diagram.layout import MARGIN, Arrow, Box, Wire, layout
from raceproof.ops.diagram.measure import (
    LABEL_SIZE,
    STATUS_SIZE,
    TITLE_SIZE,
    label_of,
    label_width,
    shortened,
    subtitle,
)

_CORNER = 7.0
_HEAD = 7.0
_LINE = 15  # from one label to the next on one arrow

# a colour for each wire: for light and for dark paper
_COLOURS = (
    ("#0b6bcb", "#6cb2ff"),
    ("#8250df", "#c297ff"),
    ("#0f7b6c", "#4fd1b5"),
    ("#b35900", "#ffab5c"),
    ("#b0307a", "#ff8fc7"),
    ("#5c6b00", "#c3d34f"),
)


def svg(spec: Spec[Any]) -> str:
    """The lifecycle as an SVG picture."""
    placed = layout(spec)
    width, height = _number(placed.width), _number(placed.height)
    colours = count(1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="raceproof-diagram" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" style="max-width:100%;height:auto">',
        f"<title>{_text(spec.name)}: the statuses of {_text(spec.table)}.{_text(spec.column)}</title>",
        f"<style>\n{_style()}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="10"/>',
        f'<text class="name" x="{MARGIN}" y="30">{escape(shortened(spec.name))}</text>',
        f'<text class="table" x="{MARGIN}" y="47">{escape(subtitle(spec))}</text>',
    ]
    for wire in placed.wires:
        lines += _wire(wire, (next(colours) - 1) % len(_COLOURS))
    for arrow in placed.arrows:
        lines += _arrow(arrow)
    for box in placed.boxes:
        lines += _box(box)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _style() -> str:
    light = _paint("#ffffff", "#1f2328", "#59636e", "#8c959f", "#f6f8fa", "#eef1f4", [c for c, _ in _COLOURS])
    dark = _paint("#0d1117", "#e6edf3", "#9198a1", "#6e7681", "#161b22", "#21262d", [c for _, c in _COLOURS])
    dark = "".join(f"  {line}\n" for line in dark.splitlines())
    return f"""\
.raceproof-diagram text {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
.raceproof-diagram .name {{ font-size: {TITLE_SIZE}px; font-weight: 600 }}
.raceproof-diagram .table {{ font-size: {LABEL_SIZE}px }}
.raceproof-diagram .status text {{ font-size: {STATUS_SIZE}px; font-weight: 600; text-anchor: middle }}
.raceproof-diagram .move text {{ font-size: {LABEL_SIZE}px; text-anchor: middle }}
.raceproof-diagram .line {{ fill: none; stroke-width: 1.5; stroke-linecap: round }}
.raceproof-diagram .status rect {{ stroke-width: 1.25 }}
.raceproof-diagram .status .end {{ fill: none }}
{light}@media (prefers-color-scheme: dark) {{
{dark}}}
"""


def _paint(paper: str, ink: str, faint: str, line: str, fill: str, ended: str, colours: list[str]) -> str:
    """The colours of one kind of paper."""
    rules = {
        ".paper": f"fill: {paper}",
        ".name, .raceproof-diagram .status text": f"fill: {ink}",
        ".table": f"fill: {faint}",
        ".status rect": f"fill: {fill}; stroke: {line}",
        ".terminal rect": f"fill: {ended}",
        ".dot": f"fill: {ink}",
        ".next .line": f"stroke: {faint}",
        ".next .head, .raceproof-diagram .next text": f"fill: {faint}",
        ".move .behind": f"fill: {paper}",
    }
    for number, colour in enumerate(colours):
        rules[f".wire-{number} .line"] = f"stroke: {colour}"
        rules[f".wire-{number} .head, .raceproof-diagram .wire-{number} text"] = f"fill: {colour}"
    return "".join(f".raceproof-diagram {selector} {{ {rule} }}\n" for selector, rule in rules.items())


def _box(box: Box) -> Iterator[str]:
    kinds = [kind for kind in ("initial", "terminal") if getattr(box, kind)]
    tooltip = box.status + (f" ({', '.join(kinds)})" if kinds else "")
    x, y, width, height = box.x, box.y, box.width, box.height
    yield f'<g class="{" ".join(("status", *kinds))}" data-status={_attribute(box.status)}>'
    yield f"<title>{_text(tooltip)}</title>"
    yield _rectangle(x, y, width, height, 8)
    if box.terminal:
        yield _rectangle(x + 3, y + 3, width - 6, height - 6, 5, ' class="end"')
    if box.initial:
        yield f'<circle class="dot" cx="{_number(x + 9)}" cy="{_number(y + height / 2)}" r="3.5"/>'
    yield _words(shortened(box.status), x + width / 2, y + height / 2)
    yield "</g>"


def _arrow(arrow: Arrow) -> Iterator[str]:
    x, middle = arrow.x, (arrow.top + arrow.bottom - _HEAD) / 2
    yield '<g class="next">'
    yield f'<path class="line" d="M{_point(x, arrow.top)} L{_point(x, arrow.bottom - _HEAD)}"/>'
    yield f'<path class="head" d="M{_point(x, arrow.bottom)} l-4,-{_number(_HEAD)} h8 z"/>'
    for number, move in enumerate(arrow.moves):
        yield from _label(move, x, middle + (number - (len(arrow.moves) - 1) / 2) * _LINE)
    yield "</g>"


def _wire(wire: Wire, colour: int) -> Iterator[str]:
    heights = sorted(wire.leaving + wire.arriving)
    corner = min(_CORNER, (heights[-1] - heights[0]) / 2)
    # how a line at each height bends into the lane: with a round corner where the lane ends, otherwise not at all
    bends = dict.fromkeys(heights, 0.0)
    bends |= {heights[0]: corner} if heights[0] < heights[1] else {}
    bends |= {heights[-1]: -corner} if heights[-1] > heights[-2] else {}
    back = -_HEAD if wire.end >= wire.lane else _HEAD
    yield f'<g class="wire-{colour}">'
    for height in wire.leaving:
        yield _bend(wire.start, wire.lane, height, bends[height])
        if heights[0] < height < heights[-1]:
            yield f'<circle class="head" cx="{_number(wire.lane)}" cy="{_number(height)}" r="2.5"/>'
    for height in wire.arriving:
        yield _bend(wire.end + back, wire.lane, height, bends[height])
        yield f'<path class="head" d="M{_point(wire.end, height)} l{_number(back)},-4 v8 z"/>'
    top, bottom = heights[0] + bends[heights[0]], heights[-1] + bends[heights[-1]]
    yield f'<path class="line" d="M{_point(wire.lane, top)} L{_point(wire.lane, bottom)}"/>'
    for move, height in zip(wire.moves, wire.arriving, strict=True):
        yield from _label(move, wire.label, height)
    yield "</g>"


def _bend(side: float, lane: float, height: float, corner: float) -> str:
    """From the side of a box into the lane."""
    before = lane + (abs(corner) if side > lane else -abs(corner))
    bend = f" Q{_point(lane, height)} {_point(lane, height + corner)}" if corner else ""
    return f'<path class="line" d="M{_point(side, height)} L{_point(before, height)}{bend}"/>'


def _label(move: Move[Any], x: float, y: float) -> Iterator[str]:
    width = label_width(move) + 8
    guards = "".join(f", if {guard}" for guard in move.where)
    tooltip = f"{move.name}: {', '.join(move.sources)} → {move.target}{guards}"
    yield f'<g class="move" data-move={_attribute(move.name)}>'
    yield f"<title>{_text(tooltip)}</title>"
    yield _rectangle(x - width / 2, y - 7, width, 14, 3, ' class="behind"')
    yield _words(label_of(move), x, y)
    yield "</g>"


def _rectangle(x: float, y: float, width: float, height: float, corner: float, more: str = "") -> str:
    return (
        f'<rect{more} x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}" '
        f'rx="{_number(corner)}"/>'
    )


def _words(text: str, x: float, y: float) -> str:
    # dominant-baseline is not known to every reader of SVG: a third of the size below the middle looks the same
    return f'<text x="{_number(x)}" y="{_number(y + 4)}">{escape(text)}</text>'


def _text(text: str) -> str:
    return escape(_valid(text))


def _attribute(text: str) -> str:
    return quoteattr(_valid(text))


def _valid(text: str) -> str:
    """Without the characters that XML does not have."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _point(x: float, y: float) -> str:
    return f"{_number(x)},{_number(y)}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
