"""One bad update must not silence its user (A5, A7): not for minutes, and not the menu."""

import asyncio
import json
import time

import pytest
from sqlalchemy import text

from imagebot.controller import LEASE
from imagebot.measure.ground import message
from raceproof import Lease, LeaseGranted
from tests.apps.imagebot.conftest import USER, WEBHOOK_SECRET, World, until
from tests.apps.imagebot.test_web import post

HOSTILE = (
    "model|",
    "model|j1|²",
    "model|j1|99999999999999999999",
    "model|a|b|c",
    "ratio|",
    "make|",
    "make|a|b",
    "cancel|",
    "cancel|a|b",
    "here|",
    "again|",
    "topup|",
    "topup|t1",
    "topup|t1|²",
    "topup|t1|1|1",
    "language|",
    "language|xx",
    "approve|",
    "reject|a|b",
    "|||",
)


async def statuses(world: World) -> list[str]:
    async with world.opened() as database, database.transaction() as (connection, _):
        found = await connection.execute(text("SELECT status FROM telegram_updates ORDER BY id"))
        return list(found.scalars())


async def test_no_button_of_a_modified_client_makes_a_handler_raise(world: World) -> None:
    one = await world.start("one")
    await world.say("/start", 1)
    message, _ = await until(lambda: world.button("new", 1), "the menu")
    for data in HOSTILE:
        world.telegram.press(1, message, data)
    for words in ("/grant ² ²", "/grant 1", "/grant 1 2 3", "/grant 99999999999999999 1", "/refund", "/job"):
        await world.say(words, 1)
    await world.say("/topup", 1)
    await until(lambda: world.button("topup|t", 1), "the answer to the last one")
    assert one.lines("HANDLER_ERROR") == []
    assert "dead" not in await statuses(world)


async def test_an_update_whose_handler_raises_is_dead_lettered_in_seconds_and_its_user_is_told(
    world: World,
) -> None:
    one = await world.start("one")
    await world.say("/start")
    await until(lambda: world.button("new"), "the menu")
    async with world.opened() as database, database.transaction() as (connection, _):
        await connection.execute(text("UPDATE users SET language = 'xx'"))  # the menu raises on that
    began = time.monotonic()
    for _ in range(3):
        world.telegram.press(USER, (world.button("new") or (0, ""))[0], "a button of yesterday")
    await world.say("/topup")
    await until(lambda: world.button("topup|t"), "the answer to the update after them")
    assert time.monotonic() - began < 60  # it was three times 184 s
    await until(lambda: any("went wrong" in one for one in world.texts()), "an apology")
    assert one.lines("HANDLER_ERROR")


async def test_a_draft_whose_model_is_not_offered_any_more_is_dropped_and_begun_again(world: World) -> None:
    one = await world.start("one", MODELS='{"google/nano-banana": 300, "z-image": 500}')
    await world.press_menu("new")
    await world.press("model|")
    await world.press("ratio|")
    await until(lambda: any("describe" in one for one in world.texts()), "the question")
    await asyncio.to_thread(one.stop)
    two = await world.start("two", MODELS='{"z-image": 500}', first=True)
    await world.say("a lighthouse")
    await until(lambda: any("not offered" in one for one in world.texts()), "the reason")
    await until(lambda: world.button("model|"), "the models of now")
    assert two.lines("HANDLER_ERROR") == []


async def test_a_passive_instance_answers_the_menu_also_to_a_user_whose_other_updates_wait(
    world: World,
) -> None:
    async with world.opened() as database:
        leading = await database.store.acquire_lease(Lease(LEASE, seconds=600), by="another")
        assert isinstance(leading, LeaseGranted)
        one = await world.start("one", first=False)
        world.telegram.webhook = f"{one.url}/webhook/{WEBHOOK_SECRET}"
        world.telegram.secret = WEBHOOK_SECRET
        for words in ("/new", "hello", "/balance", "/status"):
            await world.say(words)
        await until(lambda: any("Balance" in text for text in world.texts()), "the balance")
        await until(lambda: any("Orders under way" in text for text in world.texts()), "the status")
        assert (await one.health())["mode"] == "PASSIVE"
        assert sorted(await statuses(world)) == ["done", "done", "received", "received"]
        await database.store.release_lease(leading)
    await until(lambda: world.button("model|"), "the answer of the instance that is ACTIVE now")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_updates_of_one_user_that_change_something_are_worked_on_in_order(world: World) -> None:
    await world.start("one")
    for number in range(12):
        await world.say(f"/image picture {number}")
    await until(lambda: sum("picture" in one for one in world.texts()) == 12, "twelve drafts")
    asked = [one for one in world.texts() if "picture" in one]
    assert [one.splitlines()[0] for one in asked] == [f"“picture {number}”" for number in range(12)]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_an_update_of_an_unknown_kind_is_ticked_off_and_its_content_is_not_in_the_log(
    world: World,
) -> None:
    one = await world.start("one")
    for number, kind in enumerate(("a_kind_of_tomorrow", "edited_message")):
        content = {**message(number, USER, "private words")["message"], "edit_date": 1}
        assert await post(one, json.dumps({"update_id": number, kind: content}).encode()) == 200
    await until(lambda: len(one.lines("UPDATE_UNREADABLE")) == 2, "both")
    assert "private words" not in one.log
