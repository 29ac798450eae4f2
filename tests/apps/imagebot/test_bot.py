"""The bot as people use it (A6, A7, A9, A10), through the simulated Telegram and KIE."""

import asyncio

from tests.apps.imagebot.conftest import USER, World, until

BORIS, ADMIN = 1002, 1


async def ended(world: World, job_id: str, status: str) -> None:
    async def is_there() -> bool:
        return await world.status(job_id) == status

    await until(is_there, f"{job_id} at {status}")


async def balance(world: World, user: int = USER) -> tuple[int, int]:
    async with world.opened() as database:
        told: tuple[int, int] = await database.accounts.balance(user)
        return told


async def test_step_by_step_in_russian_and_impatient_fingers_do_nothing_twice(world: World) -> None:
    await world.start("one")
    await world.say("/start", BORIS)
    for prefix in ("new", "model|", "ratio|"):
        await world.press(prefix, BORIS, times=3)
    await until(lambda: "опишите" in world.texts(BORIS)[-1], "the question for a description")
    await world.say("маяк {ночью} %s", BORIS)
    await world.press("make|", BORIS, times=5)
    await until(lambda: world.photos(BORIS), "the picture")
    assert "маяк {ночью} %s" in world.photos(BORIS)[0]["caption"]

    async def charged() -> bool:
        return await balance(world, BORIS) == (1500, 0)

    await until(charged, "the charge")
    await world.say("/balance", BORIS)
    await until(lambda: any("оплачено" in text for text in world.texts(BORIS)), "the balance")
    assert any("-5 ₽  оплачено" in text for text in world.texts(BORIS))
    assert len(world.photos(BORIS)) == 1
    assert len(world.kie.tasks) == 1


async def test_what_cannot_be_made_or_delivered_gives_the_money_back(world: World) -> None:
    await world.start("one")
    failed = await world.order("please fail")
    await ended(world, failed, "failed")
    await until(lambda: any("❌" in text for text in world.texts()), "the bad news")
    world.telegram.refusals += [(400, "Bad Request: failed to get HTTP URL content")]
    by_bytes = await world.order("as bytes")
    await ended(world, by_bytes, "delivered")
    assert world.photos()[-1]["photo"][0]["file_id"].startswith("file/")
    world.telegram.refusals += [(400, "Bad Request: failed to get HTTP URL content")]
    world.telegram.photo_gate.clear()
    expired = await world.order("gone by now")
    world.kie.expired.add(await world.task_of(expired))
    world.telegram.photo_gate.set()
    await ended(world, expired, "expired")
    world.telegram.photo_gate.clear()
    blocked = await world.order("for nobody")
    await world.task_of(blocked)
    world.telegram.refusals += [(403, "Forbidden: bot was blocked by the user")]
    world.telegram.photo_gate.set()
    await ended(world, blocked, "blocked")
    assert await balance(world) == (1500, 0)
    assert len(world.photos()) == 1


async def test_a_send_without_an_answer_is_shown_as_uncertain_and_settled_by_its_user(world: World) -> None:
    await world.start("one")
    await world.say("/start")
    world.kie.gate.clear()
    job_id = await world.order()
    await until(lambda: world.kie.looks, "a look")
    world.telegram.trouble = world.telegram.trouble.parsed("vanish")
    world.kie.gate.set()
    await until(lambda: world.lines("DELIVER_UNCERTAIN"), "the doubt")
    world.telegram.trouble = world.telegram.trouble.parsed("")
    await ended(world, job_id, "uncertain")
    assert await balance(world) == (1500, 500)
    await world.press("here|", times=2)
    await ended(world, job_id, "delivered")
    assert await balance(world) == (1500, 0)
    assert len(world.photos()) == 1


async def test_a_creation_without_an_answer_is_never_repeated(world: World) -> None:
    await world.start("one", GENERATION_LIMIT="3")
    world.kie.trouble = world.kie.trouble.parsed("vanish")
    adopted = await world.order("its callback names the task")
    await ended(world, adopted, "delivered")
    world.kie.trouble = world.kie.trouble.parsed("vanish,lost")
    given_back = await world.order("nobody ever hears of it")
    await ended(world, given_back, "failed")
    assert len(world.kie.tasks) == 2
    assert len(world.lines("CREATE_UNCERTAIN")) == 2
    assert await balance(world) == (1500, 0)


async def test_an_admin_approves_a_topup_once_and_nobody_else_can(world: World) -> None:
    await world.start("one")
    await world.press_menu("topup")
    await world.press("topup|", times=2)
    await until(lambda: world.button("approve|", ADMIN), "the question to the admin")
    message, data = world.button("approve|", ADMIN) or (0, "")
    world.telegram.press(USER, world.telegram.chat(USER).messages[-1]["message_id"], data)
    await world.say("/grant 1001 1000")
    await world.press("approve|", ADMIN, times=2)
    await until(lambda: any("were added" in text for text in world.texts()), "the good news")
    assert await balance(world) == (12_000, 0)
    assert message


async def test_sigterm_in_the_middle_of_a_flood_loses_nothing(world: World) -> None:
    one = await world.start("one")
    for number in range(40):
        await world.say("/help", 5000 + number % 8)
    await until(lambda: len(world.telegram.accepted) > 5, "some updates")
    code = await asyncio.to_thread(one.stop)
    assert code == 0
    assert one.lines("STOP")
    one.start()

    def all_answered() -> bool:
        return sum(len(world.texts(5000 + number)) for number in range(8)) >= 40

    await until(all_answered, "forty answers")
