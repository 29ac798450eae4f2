"""The screen of a scene: what is racing, how both sides stand, and in the end the code that made the difference."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from raceproof.ops.demo.layout import (
    BAD,
    GOOD,
    Row,
    board,
    clock,
    indented,
    latest,
    listings,
    live_page,
    named,
    verdict,
)
from raceproof.ops.demo.scenes.scene import Figure
from raceproof.ops.demo.scenes.stage import Play, Playbill, Score
from raceproof.ops.demo.sides import RACEPROOF, SIDES, UNGUARDED

WIDE = 150
"""Where what happened last has room beside the numbers."""


def opening(playbill: Playbill) -> RenderableType:
    """What is about to be seen."""
    scene = playbill.scene
    return Group(
        Text.assemble(
            (scene.title, "bold"),
            f" · {playbill.processes} processes race over {playbill.items:,} {scene.noun}",
            f" · seed {playbill.seed}",
        ),
        "",
        scene.story,
        indented(named(*scene.told), below=1),
    )


def live(play: Play, score: Score, width: int) -> RenderableType:
    """How it stands, with what happened last."""
    most = 1 if width < WIDE else 3
    total, noun = score.playbill.items, score.playbill.scene.noun
    return live_page(
        board(_rows(score, ended=False), width),
        latest(play.wrong(most), play.refused(most), most),
        clock(score.items, total, f"{score.items:,} of {total:,} {noun}", width),
        beside=width >= WIDE,
    )


def report(score: Score, width: int) -> list[RenderableType]:
    """What is printed at the end."""
    code = score.playbill.scene.code
    return [
        _verdict(score),
        "",
        board(_rows(score, ended=True), width),
        "",
        *listings(code.unguarded, code.unguarded_lines, code.guarded, code.guarded_lines, width),
    ]


def summary(score: Score) -> Iterator[Row]:
    """The rows of this scene in the table of all."""
    scene = score.playbill.scene
    for figure in scene.figures:
        if figure.wrong:
            yield figure.label, scene.title, *_values(score, figure, ended=True)


def numbers(score: Score, database: str | None) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "setting": {
            "rounds": score.playbill.rounds,
            score.playbill.scene.noun: score.playbill.items,
            "seed": score.playbill.seed,
            "delay": score.playbill.delay,
            "processes": score.playbill.processes,
        },
        "elapsed": round(score.elapsed, 3),
        "sides": {side: dict(score.figures[side]) for side in SIDES},
        "database": database,
    }


def progress_line(score: Score) -> str:
    """How it stands in one line, for a log."""
    figures = [figure for figure in score.playbill.scene.figures if figure.live]
    sides = (
        f"{side}: " + ", ".join(f"{score.figures[side][one.name]} {one.label}" for one in figures) for side in SIDES
    )
    return f"{score.elapsed:4.1f} s  " + " | ".join(sides)


def problem_of(score: Score) -> str | None:
    """Why it does not show what it should."""
    wrong = [figure for figure in score.playbill.scene.figures if figure.wrong]
    unguarded, guarded = score.figures[UNGUARDED], score.figures[RACEPROOF]
    name = score.playbill.scene.name
    if found := [f"{guarded[one.name]} {one.label}" for one in wrong if guarded[one.name]]:
        return f"{name}: raceproof went wrong: {', '.join(found)}"
    if not any(unguarded[one.name] for one in wrong):
        return f"{name}: the unguarded side did not go wrong"
    return None


def _rows(score: Score, ended: bool) -> Iterator[Row | None]:
    figures = score.playbill.scene.figures
    for figure in figures:
        if not figure.wrong:
            yield figure.label, figure.remark, *_values(score, figure, ended)
    yield None
    for figure in figures:
        if figure.wrong:
            yield figure.label, figure.remark, *_values(score, figure, ended)


def _values(score: Score, figure: Figure, ended: bool) -> tuple[str | Text, str | Text]:
    one, other = (score.figures[side][figure.name] for side in SIDES)
    if not (ended or figure.live):
        return "…", "…"
    return (verdict(one), verdict(other)) if figure.wrong else (f"{one:,}", f"{other:,}")


def _verdict(score: Score) -> Text:
    scene = score.playbill.scene
    unguarded, guarded = (score.figures[side][scene.worst.name] for side in SIDES)
    return Text.assemble(
        f"Of {score.playbill.items:,} {scene.noun}, ",
        (f"{unguarded:,}", BAD) if unguarded else ("none", GOOD),
        f" {scene.worst_said} with the usual code and ",
        (f"{guarded:,}", BAD) if guarded else ("none", GOOD),
        " with raceproof.",
    )
