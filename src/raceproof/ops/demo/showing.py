"""Shows one scenario: its opening, the live page or a line each second, and what came of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console, RenderableType
from rich.live import Live

from raceproof.ops.demo import page, report
from raceproof.ops.demo.example import choose
from raceproof.ops.demo.layout import Row
from raceproof.ops.demo.race import Setting, race
from raceproof.ops.demo.scenes import SCENES
from raceproof.ops.demo.scenes import page as scene_page
from raceproof.ops.demo.scenes.stage import Playbill, play

COMMANDS = "commands"
SCENARIOS = (COMMANDS, *SCENES)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of a scenario."""

    summary: tuple[Row, ...]
    """Its rows in the table of all."""
    numbers: dict[str, Any]
    problem: str | None
    """Why it does not show what it should."""
    question: str | None = None
    """How the kept database can be asked about a row, or where it is."""


@dataclass(frozen=True, slots=True)
class Showing:
    """How scenarios are shown."""

    setting: Setting
    folder: Path
    console: Console
    plain: bool
    """No live page: a line each second."""
    printing: bool
    """Whether the results are printed."""
    keep: bool

    def show(self, name: str) -> Shown:
        """Race, show it, print the result."""
        return self._commands() if name == COMMANDS else self._scene(name)

    def _commands(self) -> Shown:
        database = self.folder / f"{COMMANDS}.db"
        width = self.console.width
        self.console.print(page.opening(self.setting))
        with race(self.setting, database) as racing:
            standing = self._watch(
                racing.standings, page.progress_line, lambda now: page.live(now, racing.refusals(), width)
            )
            example = choose(racing.connection)
        self._print(report.report(standing, example, width))
        return Shown(
            (report.summary(standing),),
            report.numbers(standing, example, database if self.keep else None),
            report.problem_of(standing),
            report.question(example, database) if self.keep else None,
        )

    def _scene(self, name: str) -> Shown:
        scene = SCENES[name]
        database = self.folder / f"{name}.db"
        width = self.console.width
        playbill = Playbill(scene, scene.rounds(self.setting.seconds), self.setting.seed, self.setting.delay)
        self.console.print(scene_page.opening(playbill))
        with play(playbill, database) as playing:
            score = self._watch(
                playing.scores, scene_page.progress_line, lambda now: scene_page.live(playing, now, width)
            )
        self._print(scene_page.report(score, width))
        return Shown(
            tuple(scene_page.summary(score)),
            scene_page.numbers(score, str(database) if self.keep else None),
            scene_page.problem_of(score),
            f"  # {scene.title}: {database}" if self.keep else None,
        )

    def _watch(
        self,
        every: Callable[[float], Iterator[T]],
        line: Callable[[T], str],
        screen: Callable[[T], RenderableType],
    ) -> T:
        """Show how it stands until the end; returns how it stands then."""
        if self.plain:
            for now in every(1):
                click.echo(line(now), err=True)
            return now
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            for now in every(0.1):
                live.update(screen(now), refresh=True)
        return now

    def _print(self, parts: list[RenderableType]) -> None:
        if self.printing:
            self.console.print(*parts, sep="\n")
