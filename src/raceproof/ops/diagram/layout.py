"""Where everything in the picture goes: from a declaration to boxes, arrows and wires, by arithmetic alone.

Statuses with a way out stand in a column at the left, the initial ones first; those without in a column at the right, so
that the picture is narrow enough for a phone however long the lifecycle is. A move to the status below is an arrow. Other
moves run beside the column, at its right if they end the row; moves with the same sources share a wire.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raceproof.declare.spec import Move, Spec
from raceproof.ops.diagram.channel import Bundle, lanes
from raceproof.ops.diagram.measure import (
    LABEL_SIZE,
    TITLE_SIZE,
    label_width,
    shortened,
    status_width,
    subtitle,
    text_width,
)
from raceproof.ops.diagram.rows import Rows

MARGIN = 14
_LANE = 12
_AROUND_STATUS = 32  # inside a box, for the mark of an initial status and as much on the other side
_SMALLEST_BOX = 60
_AROUND_LABEL = 30  # of a wire that is seen before and after its label, arrowhead included


@dataclass(frozen=True, slots=True)
class Box:
    """A status."""

    status: str
    x: float
    y: float
    width: float
    height: float
    initial: bool
    terminal: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """The moves from a box to the one below it."""

    moves: tuple[Move[Any], ...]
    x: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Wire:
    """Moves with the same sources: from the side of their boxes to a lane, along it, and to the side of the targets."""

    moves: tuple[Move[Any], ...]
    start: float
    lane: float
    end: float
    label: float
    leaving: tuple[float, ...]
    arriving: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole picture."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    wires: tuple[Wire, ...]


def layout(spec: Spec[Any]) -> Layout:
    """Place everything."""
    rows = Rows(spec)
    left_lanes = lanes([rows.heights(bundle) for bundle in rows.left], across=False)
    right_lanes = lanes([rows.heights(bundle) for bundle in rows.right], across=True)
    left_labels, right_labels = _label_column(rows.left), _label_column(rows.right)

    open_left = MARGIN + _LANE * max(left_lanes, default=0) + left_labels
    open_right = open_left + max(
        [_box_width(status) for status in rows.open]
        + [label_width(move) for moves in rows.next_moves.values() for move in moves]
    )
    ended_left = open_right + _LANE * (max(right_lanes, default=-1) + 1) + right_labels
    ended_right = ended_left + max(map(_box_width, rows.ended), default=0)

    boxes = [_box(spec, rows, status, open_left, open_right) for status in rows.open]
    boxes += [_box(spec, rows, status, ended_left, ended_right) for status in rows.ended]
    arrows = [
        Arrow(moves, (open_left + open_right) / 2, rows.bottom(above), rows.top[moves[0].target])
        for above, moves in rows.next_moves.items()
    ]
    wires = []
    for bundle, lane in zip(rows.left, left_lanes, strict=True):
        x = open_left - left_labels - _LANE * lane
        wires.append(Wire(bundle.moves, open_left, x, open_left, open_left - left_labels / 2, *rows.heights(bundle)))
    for bundle, lane in zip(rows.right, right_lanes, strict=True):
        x = open_right + _LANE * (lane + 1)
        wires.append(
            Wire(bundle.moves, open_right, x, ended_left, ended_left - right_labels / 2, *rows.heights(bundle))
        )
    header = max(text_width(shortened(spec.name), TITLE_SIZE), text_width(subtitle(spec), LABEL_SIZE))
    return Layout(
        width=max(ended_right, MARGIN + header) + MARGIN,
        height=max(box.y + box.height for box in boxes) + MARGIN,
        boxes=tuple(boxes),
        arrows=tuple(arrows),
        wires=tuple(wires),
    )


def _box(spec: Spec[Any], rows: Rows, status: str, left: float, right: float) -> Box:
    return Box(
        status,
        left,
        rows.top[status],
        right - left,
        rows.height[status],
        status in spec.initial,
        status in spec.terminal,
    )


def _box_width(status: str) -> float:
    return max(_SMALLEST_BOX, status_width(status) + _AROUND_STATUS)


def _label_column(bundles: Sequence[Bundle]) -> float:
    """The room for the labels of a channel, between its lanes and the targets."""
    widths = [label_width(move) for bundle in bundles for move in bundle.moves]
    return max(widths) + _AROUND_LABEL if widths else 0
