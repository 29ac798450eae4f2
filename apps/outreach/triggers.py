"""Triggers that keep error texts, and that let both forms of a claim be used at the same time; see `triggers/`."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from outreach.stages import STAGES

FOLDER = Path(__file__).parent / "triggers"


def keeping(dialect: str) -> Iterator[str]:
    """What is replaced in an error column is kept."""
    return _filled(dialect, "keep")


def passing_over(dialect: str, stale: float) -> Iterator[str]:
    """A row held by columns gets no marker, and one that is held in either form is not dead-lettered in the other."""
    for text in _filled(dialect, "pass_over"):
        yield text.replace("{stale}", f"{stale:g}")


def _filled(dialect: str, name: str) -> Iterator[str]:
    for stage in STAGES.values():
        text = _texts(dialect)[name]
        for slot in ("error", "kind", "status"):
            text = text.replace(f"{{{slot}}}", str(getattr(stage, slot)))
        yield text.replace("{stage}", stage.name)


@cache
def _texts(dialect: str) -> dict[str, str]:
    parts = (FOLDER / f"{dialect}.sql").read_text().split("-- name: ")[1:]
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in parts}
