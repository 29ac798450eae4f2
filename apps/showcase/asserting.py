"""The same without anybody watching: every button is pressed, everything comes to rest, and the stores are asked."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import httpx

from appkit.storm import until
from showcase.trouble import TROUBLES
from showcase.twins.every import SCENARIOS
from showcase.twins.scenario import PATIENCE, RACEPROOF, UNGUARDED
from showcase.twins.score import Score, scores

if TYPE_CHECKING:
    from showcase.running import Showcase

START = 90.0
"""Seconds for everything to come up, on a machine that does other things too."""
TRAFFIC = 12.0
"""Seconds of traffic before the first trouble."""
PEACE = 3.0
"""Seconds of it between two."""
LUCK = 3
"""How often the usual code may be lucky before that is a finding."""
SETTLE = 75.0
"""Seconds for everything to come to its end after the last one."""

Row = dict[str, Any]


async def asserted(showcase: "Showcase") -> list[Row]:
    """What must hold, and whether it does."""
    began = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"{time.monotonic() - began:5.1f} s  {what}", err=True)

    async def all_ready() -> bool:
        return all(app.ready or app.failed for app in showcase.applications)

    say("starting")
    ready = await until(all_ready, START) and not any(app.failed for app in showcase.applications)
    say("all applications are up" if ready else "not all applications came up")
    await asyncio.sleep(TRAFFIC)
    for name in TROUBLES:
        await _cause(showcase, name, say)
    for _ in range(LUCK):
        found = await scores(showcase.folder)
        if not (lucky := [name for name in SCENARIOS if not found[name][UNGUARDED].total]):
            break
        again = next((name for name, one in TROUBLES.items() if lucky[0] in one.about), "duplicate")
        say(f"the usual code was lucky with {', '.join(lucky)}: once more")
        await _cause(showcase, again, say)
    showcase.rest()
    say("no more traffic; waiting until everything has come to its end")
    left = await _settled(showcase)
    say(f"still under way: {left}" if left else "settled")
    await asyncio.sleep(PATIENCE + 1)  # from then on, what has not been done counts as lost
    rows = [judged(name, sides) for name, sides in (await scores(showcase.folder)).items()]
    rows += [await _application(showcase, app, ready) for app in showcase.applications]
    died = "; ".join(showcase.world.died)
    rows.append(_row("no process of either side has ended by itself", holds=not died, detail=died))
    rows.append(await _pages(showcase))
    rows.append(_row("everything has come to its end", holds=not left, detail=left or ""))
    for row in rows:
        if row["detail"]:
            say(f"{row['what']}: {row['detail']}")
    return rows


async def _cause(showcase: "Showcase", name: str, say: Callable[[str], None]) -> None:
    """Press a button and wait until all are back."""
    say(TROUBLES[name].title)
    incident = showcase.troubles.press(name)
    assert incident is not None

    async def is_over() -> bool:
        return incident.state == "over"

    await until(is_over, 90)
    for line in (*incident.did, *incident.apps):
        say(f"  {line}")
    await asyncio.sleep(PEACE)


async def _settled(showcase: "Showcase") -> str | None:
    """What is still under way after a while; None if nothing is."""
    left: str | None = "?"

    async def nothing() -> bool:
        nonlocal left
        left = await showcase.world.quiet()
        for app in showcase.applications:
            try:
                left = left or (await app.under_way() if app.ready else None)
            except (httpx.HTTPError, sqlite3.Error) as error:
                left = left or f"{app.name}: {type(error).__name__}"
        return left is None

    await until(nothing, SETTLE, every=0.5)
    return left


def judged(name: str, found: dict[str, Score]) -> Row:
    """The usual code must have lost, and raceproof must not."""
    usual, ours = found[UNGUARDED], found[RACEPROOF]
    holds = usual.total > 0 and ours.total == 0 and ours.done > 0
    detail = f"{ours.done} {SCENARIOS[name].done[0]}, {ours.held_off} {SCENARIOS[name].held_off}"
    return _row(SCENARIOS[name].title, _words(usual), _words(ours), holds=holds, detail=detail)


def _words(score: Score) -> str:
    return ", ".join(f"{number} {label}" for label, number in score.wrong.items() if number) or "0"


async def _application(showcase: "Showcase", app: Any, ready: bool) -> Row:
    """No violation, all instances healthy, and none that ended by itself."""
    if not app.ready:
        return _row(app.name, raceproof="did not start", holds=False, detail=app.failed)
    problems = [*(await app.violations()), *(f"ended by itself: {one}" for one in app.died)]
    for one in app.instances:
        await app.look(one)
        if not one.up:
            problems.append(f"{one.child.name} is not healthy")
    figures = ", ".join(f"{number} {label}" for label, number in (await app.figures()).items())
    return _row(app.name, raceproof="; ".join(problems) or "0", holds=ready and not problems, detail=figures)


async def _pages(showcase: "Showcase") -> Row:
    """The page, the pages about the code, and the dashboards."""
    names = ("twins", *(app.name for app in showcase.applications))
    wanted = {showcase.home, *(f"{showcase.home}scenario/{name}" for name in SCENARIOS)}
    wanted |= {showcase.dashboard(name) or f"no dashboard of {name}" for name in names}
    wrong = []
    for url in sorted(wanted):
        try:
            answer = await showcase.ground.http.get(url)
            if answer.status_code != 200:
                wrong.append(f"{url}: {answer.status_code}")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            wrong.append(f"{url}: {type(error).__name__}")
    return _row("all pages answer", holds=not wrong, detail=", ".join(wrong) or f"{len(wanted)} pages")


def _row(what: str, usual: str = "", raceproof: str = "", *, holds: bool, detail: str = "") -> Row:
    return {
        "what": what,
        "the usual code": usual,
        "raceproof": raceproof,
        "holds": holds,
        "detail": detail,
    }
