"""Both sides with real processes on SQLite files: the usual code must lose in every scenario, and raceproof in none."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from showcase import trouble
from showcase.children import Foreman
from showcase.trouble import TROUBLES, Troubles
from showcase.twins import score
from showcase.twins.desk import BUSY, execute
from showcase.twins.every import SCENARIOS
from showcase.twins.scenario import LEASE, RACEPROOF, SIDES, UNGUARDED
from showcase.twins.score import Scores, scores
from showcase.twins.world import World

PATIENCE = 120.0
"""Seconds after which something that does not happen is an error; nothing depends on how long it takes."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Two instances on each side, and no events but those that a test makes."""
    random.seed(7)
    foreman = Foreman("showcase")
    try:
        await foreman.ready()
        async with World(tmp_path, foreman) as made:
            for _ in range(2):
                await made.add()
            yield made
    finally:
        foreman.close()


async def reached(world: World, wanted: Callable[[Scores], object]) -> Scores:
    """How it stands as soon as it is as wanted."""
    async with asyncio.timeout(PATIENCE):
        while not wanted(found := await scores(world.folder)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return found


async def at_rest(world: World) -> Scores:
    """How it stands when nothing is under way any more, on either side."""
    async with asyncio.timeout(PATIENCE):
        while await world.quiet() is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return await scores(world.folder)


async def caused(world: World, name: str) -> dict[str, str]:
    """Press a button; what came of it so far."""
    troubles = Troubles(world, [])
    incident = troubles.press(name)
    assert incident is not None
    await troubles.cause(incident)
    incident.compare(await scores(world.folder))
    assert incident.did
    assert not incident.apps
    return incident.came


async def test_every_trouble_harms_the_usual_code_and_never_raceproof(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trouble, "FREEZE", 2 * LEASE)
    monkeypatch.setattr(trouble, "CUT", 2 * BUSY)
    monkeypatch.setattr(score, "PATIENCE", 1.0)
    async with asyncio.TaskGroup() as playing:
        events = playing.create_task(world.play())
        for name in TROUBLES:
            await caused(world, name)
        # a frozen leader may have ended its job just before; the next one is hit in the middle
        while not (await scores(world.folder))["leaders"][UNGUARDED].total:
            await caused(world, "freeze")
        await reached(world, lambda now: now["webhooks"][UNGUARDED].wrong["lost after a 200"])
        found = await reached(
            world,
            lambda now: all(now[name][UNGUARDED].total and now[name][RACEPROOF].done for name in SCENARIOS),
        )
        world.paused = True
        found = await at_rest(world)
        events.cancel()
    for name, sides in found.items():
        assert sides[UNGUARDED].total > 0, name
        assert sides[RACEPROOF].total == 0, (name, sides[RACEPROOF])
    for name in ("commands", "leaders", "jobs"):
        assert found[name][RACEPROOF].held_off > 0, name


async def test_both_sides_are_told_the_same_and_end_in_good_order(world: World) -> None:
    for _ in range(8):
        await world.picture(callbacks=3)
        await world.command()
        await world.update(copies=2)
        await world.slot()
        await world.job()
    # whose sender died in the middle long ago: nobody can know whether it arrived, and nobody may send it again
    dead = "INSERT INTO pictures (picture_id, delivery_state, delivering_at) VALUES ('p', 'sending', '2020-01-01')"
    execute(world.folder / f"{RACEPROOF}.db", dead, busy=PATIENCE)
    found = await reached(
        world,
        lambda now: all(
            now[name][RACEPROOF].done == 8 for name in ("pictures", "commands", "webhooks", "leaders", "jobs")
        ),
    )
    assert found["pictures"][UNGUARDED].wrong["sent twice"] > 0
    found = await at_rest(world)
    assert all(found[name][RACEPROOF].total == 0 for name in SCENARIOS)
    assert all(found[name][side].done == 8 for name in ("leaders", "jobs", "pictures") for side in SIDES)
    assert found["pictures"][RACEPROOF].held == 1
    others = world.all()
    others[0].child.freeze()
    assert [await one.child.stop() for one in others] == [0, 0, 0, 0]
