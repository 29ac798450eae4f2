"""Trouble with our account at KIE is for the admins to know (A10): 401, 402 and 429 never reach a customer."""

import pytest
from sqlalchemy import text

from tests.apps.imagebot.conftest import World, until
from tests.apps.imagebot.test_bot import balance, ended

ADMIN = 1
CREDITS = "The current credits are insufficient. Please top up"


@pytest.mark.parametrize(("code", "words"), [(402, CREDITS), (401, "You do not have access permissions")])
async def test_an_account_that_kie_refuses_is_told_to_the_admins_and_the_order_is_refunded(
    world: World, code: int, words: str
) -> None:
    await world.start("one")
    world.kie.refusals = [(code, words)]
    for number in range(2):
        await ended(world, await world.order(f"picture {number}"), "failed")
    await until(lambda: sum("not available" in one for one in world.texts()) == 2, "the news, twice")
    await until(lambda: any(words in one for one in world.texts(ADMIN)), "the alert")
    assert not any(words in one or str(code) in one or "KIE" in one for one in world.texts())
    assert sum(words in one for one in world.texts(ADMIN)) == 1
    await until(lambda: sum("money back" in one for one in world.texts()) == 2, "both progress messages")
    assert await balance(world) == (2000, 0)
    assert world.kie.tasks == {}


async def test_too_many_requests_are_told_to_the_admins_and_the_order_goes_on(world: World) -> None:
    await world.start("one")
    world.kie.refusals = [(429, "Your call frequency is too high")]
    job_id = await world.order()
    await until(lambda: any("too often" in one for one in world.texts(ADMIN)), "the alert")
    world.kie.refusals = []
    await ended(world, job_id, "delivered")
    assert not any("429" in one for one in world.texts())


async def test_an_account_that_is_refused_while_a_task_is_watched_is_told_and_the_order_waits(
    world: World,
) -> None:
    await world.start("one")
    world.kie.trouble = world.kie.trouble.parsed("lost")
    world.kie.gate.clear()
    job_id = await world.order()
    await until(lambda: world.kie.looks, "a look")
    world.kie.refusals = [(401, "You do not have access permissions")]
    await until(lambda: any("KIE_API_KEY" in one for one in world.texts(ADMIN)), "the alert")
    assert await world.status(job_id) == "generating"
    world.kie.gate.set()
    world.kie.refusals = []
    await ended(world, job_id, "delivered")


async def test_what_kie_says_about_the_order_itself_reaches_its_user(world: World) -> None:
    await world.start("one")
    world.kie.refusals = [(422, "The prompt is not allowed")]
    await ended(world, await world.order(), "failed")
    await until(lambda: any("The prompt is not allowed" in one for one in world.texts()), "the reason")
    async with world.opened() as database, database.transaction() as (connection, _):
        alerts = await connection.execute(text("SELECT count(*) FROM notices WHERE event_id LIKE 'alert:%'"))
        assert alerts.scalar_one() == 0
