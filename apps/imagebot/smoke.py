"""Smoke scenarios S0–S8 against the real application, with simulators beside it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import text

from appkit import commands as kit
from appkit.storm import until
from imagebot.lifecycle import updates
from imagebot.measure.ground import Ground, free_port, ground, message
from imagebot.warm import Warm

ANN, CARL = 1001, 1003
PATIENCE = 60.0

Scenario = Callable[["Smoke"], Awaitable[str]]


class Failed(Exception):
    """A scenario did not go as it should."""


class Smoke:
    """The application as the scenarios see it."""

    def __init__(self, made: Ground) -> None:
        self.made = made
        self.number = int(time.time() - 1_500_000_000)
        self.second_port = free_port()

    async def health(self, port: int = 0) -> dict[str, Any]:
        return await self.made.get(self.made.url("/health", port)) or {}

    async def chat(self, user: int = ANN) -> list[dict[str, Any]]:
        told = await self.made.get(f"{self.made.telegram}/control/chat/{user}")
        return list(told["messages"]) if told else []

    async def say(self, text: str, user: int = ANN) -> None:
        await self.made.post(f"{self.made.telegram}/control/say/{user}", {"text": text})

    async def press(self, prefix: str, user: int = ANN) -> None:
        found = await self.until(lambda: self.button(prefix, user), f"a button {prefix}")
        await self.made.post(f"{self.made.telegram}/control/press/{user}", found)

    async def button(self, prefix: str, user: int) -> dict[str, Any] | None:
        for one in reversed(await self.chat(user)):
            for row in (one.get("reply_markup") or {}).get("inline_keyboard", ()):
                for button in row:
                    if button["callback_data"].startswith(prefix):
                        return {"message_id": one["message_id"], "data": button["callback_data"]}
        return None

    async def texts(self, user: int = ANN) -> list[str]:
        return [str(one.get("text") or one.get("caption")) for one in await self.chat(user) if one["from"]["is_bot"]]

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        if not await until(condition, PATIENCE, 0.1):
            raise Failed(f"waited in vain for {what}")
        return await condition()

    def next_number(self) -> int:
        self.number += 1
        return self.number


async def s0_health(smoke: Smoke) -> str:
    """/health answers, and the first instance becomes ACTIVE."""

    async def active() -> bool:
        return (await smoke.health()).get("mode") == "ACTIVE"

    await smoke.until(active, "ACTIVE")
    told = await smoke.health()
    if set(told["loops"].values()) != {"ok"}:
        raise Failed(str(told["loops"]))
    return f"{len(told['loops'])} loops are ok"


async def s1_start(smoke: Smoke) -> str:
    """/start shows the menu."""
    await smoke.say("/start")
    await smoke.until(smoke.texts, "the menu")
    return (await smoke.texts())[0].splitlines()[0]


async def s2_storage(smoke: Smoke) -> str:
    """The user and the welcome money are in the database."""
    async with smoke.made.opened() as database:
        balance, held = await database.accounts.balance(ANN)
    if (balance, held) != (1000, 0):
        raise Failed(f"the balance is {balance}, {held} held")
    return f"balance {balance}"


async def s3_fast_ack(smoke: Smoke) -> str:
    """An update is answered within 500 ms, and is in the table when it is."""
    number = smoke.next_number()
    began = time.monotonic()
    status = await smoke.made.update(message(number, ANN, "/help"))
    took = time.monotonic() - began
    async with smoke.made.opened() as database:
        kept = await database.store.inbox_counts(updates)
    if status != 200 or not kept:
        raise Failed(f"answered {status}")
    if took > 0.5:
        raise Failed(f"it took {took * 1000:.0f} ms")
    return f"{took * 1000:.0f} ms"


async def s4_passive(smoke: Smoke) -> str:
    """A second instance is PASSIVE: it answers the menu, and keeps the rest for the ACTIVE one."""
    made = smoke.made
    second = made.start("second", PORT=str(smoke.second_port), PUBLIC_URL=made.url(""))
    await made.reached(made.url("/health", smoke.second_port), second)
    if (await smoke.health(smoke.second_port))["mode"] != "PASSIVE":
        raise Failed("it is not PASSIVE")
    before = len(await smoke.texts())
    for words in ("/balance", "/new"):
        if await made.update(message(smoke.next_number(), ANN, words), smoke.second_port) != 200:
            raise Failed("it does not take updates")

    async def both() -> bool:
        return len(await smoke.texts()) >= before + 2

    await smoke.until(both, "two answers")
    await asyncio.to_thread(second.stop)
    return "both updates were answered"


async def s5_generation(smoke: Smoke) -> str:
    """From the words to the picture, step by step, and the money is right."""
    await smoke.press("model|")
    await smoke.press("ratio|")

    async def asked() -> bool:
        return any("describe" in text.lower() for text in await smoke.texts())

    await smoke.until(asked, "the question for a description")
    await smoke.say("a lighthouse at night")
    await smoke.press("make|")

    async def picture() -> bool:
        return any(one.get("photo") for one in await smoke.chat())

    await smoke.until(picture, "the picture")

    async def charged() -> bool:
        async with smoke.made.opened() as database:
            return await database.accounts.balance(ANN) == (500, 0)

    await smoke.until(charged, "the charge")
    return "delivered and charged once"


async def s6_once(smoke: Smoke) -> str:
    """The same update, sent five times at once, is worked on once."""
    told = message(smoke.next_number(), ANN, "/image the same")
    before = len(await smoke.texts())
    answers = await asyncio.gather(*(smoke.made.update(told) for _ in range(5)))
    if set(answers) != {200}:
        raise Failed(f"answered {answers}")
    await smoke.made.update(message(smoke.next_number(), ANN, "/topup"))

    async def asked() -> bool:
        return "How much" in (await smoke.texts())[-1]

    await smoke.until(asked, "the answer to the update after it")
    new = len(await smoke.texts()) - before
    if new != 2:
        raise Failed(f"{new} answers instead of 2")
    return "one answer"


async def s7_exception(smoke: Smoke) -> str:
    """A handler that raises does not stop its user's next update, nor any other's; the user gets a message."""
    first = next(one for one in smoke.made.instances if one.name == "first")
    await smoke.say("/start", CARL)
    message_id = (await smoke.until(lambda: smoke.button("new", CARL), "the menu"))["message_id"]
    async with smoke.made.opened() as database, database.transaction() as (connection, _):
        # a language that the menu does not know
        broken = text("UPDATE users SET language = 'xx' WHERE user_id = :user")
        await connection.execute(broken, {"user": CARL})
    pressed = {"message_id": message_id, "data": "a button of yesterday"}
    await smoke.made.post(f"{smoke.made.telegram}/control/press/{CARL}", pressed)
    await smoke.say("/topup", CARL)
    before = len(await smoke.texts())
    await smoke.say("/help")

    async def more() -> bool:
        return len(await smoke.texts()) > before

    await smoke.until(more, "an answer to another user")
    await smoke.until(lambda: smoke.button("topup|", CARL), "an answer to the same user's next update")

    async def told() -> bool:
        return any("went wrong" in one for one in await smoke.texts(CARL))

    await smoke.until(told, "an apology")
    if not first.lines("HANDLER_ERROR"):
        raise Failed("no handler has raised")
    return "a handler raised, its user was told, and the next updates were answered"


async def s8_cold_start(smoke: Smoke) -> str:
    """After a kill an instance comes back with everything, and takes over."""
    instance = next(one for one in smoke.made.instances if one.name == "first")
    await asyncio.to_thread(instance.kill)
    await asyncio.to_thread(instance.start)
    await s0_health(smoke)
    before = len(await smoke.texts())
    await smoke.say("/history")

    async def more() -> bool:
        return len(await smoke.texts()) > before

    await smoke.until(more, "an answer")
    if "lighthouse" not in (await smoke.texts())[-1]:
        raise Failed("the history is gone")
    return "the history is there"


SCENARIOS: tuple[Scenario, ...] = (
    s0_health,
    s1_start,
    s2_storage,
    s3_fast_ack,
    s4_passive,
    s5_generation,
    s6_once,
    s7_exception,
    s8_cold_start,
)


async def smoked(database: str, output: str, warm: Warm | None = None) -> int:
    """Run all of them, in order; 1 if any fails."""
    rows = []
    async with ground(database, warm) as made:
        await made.simulate("--seconds", "0.5", "--size", "8")
        first = made.start("first", LOCK_SECONDS="5")
        await made.reached(made.url("/health"), first)
        smoke = Smoke(made)
        for scenario in SCENARIOS:
            name = scenario.__name__.partition("_")[0].upper()
            try:
                result, told = "ok", await scenario(smoke)
            except Failed as error:
                result, told = "failed", str(error)
            rows.append({"scenario": name, "what": scenario.__doc__, "result": result, "evidence": told})
    kit.show(rows, output)
    return int(any(row["result"] != "ok" for row in rows))
