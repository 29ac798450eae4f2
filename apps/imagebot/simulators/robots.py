"""Simulated users: they greet, ask for pictures, confirm, press twice and look at their balance, many at once."""

import asyncio
import random
import time
from typing import Any

from imagebot.simulators.telegram import Message, TelegramSimulator

FIRST = 10_000
IN_A_HURRY = 90_000
"""Users from here on say several things at once and confirm nothing: are they answered in the order of what they said?"""
BURST = 5
PATIENCE = 45.0
"""Seconds that a user waits for an answer: a bot that has lost an order must not hold up the others for ever."""


class Robots:
    """How many users, updates and orders there are; a user speaks again after an answer."""

    def __init__(
        self,
        simulator: TelegramSimulator,
        users: int,
        updates: int,
        generations: int,
        seed: int = 0,
        rate: float = 200.0,
    ) -> None:
        self._simulator = simulator
        self._choose = random.Random(seed)
        self._users = [FIRST + number for number in range(users)]
        self._updates = updates
        self._generations = generations
        self._gap = 1 / rate
        self._said = 0
        self._ordered = 0
        self._pressed: set[tuple[int, int]] = set()
        self._busy: dict[int, float] = {}
        """Users with a draft that is not confirmed yet, since when: a second one would replace it."""
        self._task: asyncio.Task[None] | None = None
        simulator.listeners.append(self._heard)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def told(self) -> dict[str, Any]:
        return {
            "said": self._said,
            "ordered": self._ordered,
            "done": self._task is not None and self._task.done(),
        }

    async def _run(self) -> None:
        """Greetings first; then orders among questions, evenly. Confirmations come by themselves, see `_heard`."""
        for user in self._users:
            self._simulator.chat(user, f"robot {user}", self._choose.choice(("en", "ru")))
            await self._speak(user, "/start")
        orders = [self._users[number % len(self._users)] for number in range(self._generations)]
        self._choose.shuffle(orders)
        talk = max(0, self._updates - len(self._users) - 2 * self._generations)
        talkers = [self._choose.choice(self._users) for _ in range(talk)]
        # and some who cannot pay any more
        orders = [*self._users[: self._generations // 20], *orders]
        every = max(1, talk // max(1, len(orders)))
        hurried = [IN_A_HURRY + number for number in range(len(orders) // 5)]
        while orders or talkers:
            if hurried and len(orders) % 4 == 0:
                await self._burst(hurried.pop())
            if orders:
                user = orders.pop()
                if time.monotonic() - self._busy.get(user, -PATIENCE) < PATIENCE:
                    orders.insert(0, user)
                    await asyncio.sleep(self._gap)
                else:
                    self._busy[user] = time.monotonic()
                    await self._speak(user, f"/image picture {self._said} for {user}")
            for _ in range(every if orders else len(talkers)):
                if talkers:
                    await self._speak(talkers.pop(), self._choose.choice(("/balance", "/status", "/history", "hello")))

    async def _burst(self, user: int) -> None:
        """All at once, after a greeting."""
        self._simulator.chat(user, f"robot {user}")
        for number in range(BURST):
            self._simulator.say(user, f"/image burst {number}")
            self._said += 1
        await asyncio.sleep(self._gap)

    async def _speak(self, user: int, text: str) -> None:
        self._simulator.say(user, text)
        self._said += 1
        await asyncio.sleep(self._gap)

    def _heard(self, user: int, message: Message) -> None:
        """The bot asks for a confirmation: press it, sometimes twice. Whatever else it says ends the wait."""
        buttons = [
            button["callback_data"]
            for row in (message.get("reply_markup") or {}).get("inline_keyboard", ())
            for button in row
            if button.get("callback_data", "").startswith("make|")
        ]
        if user >= IN_A_HURRY:
            return
        pressed = (user, message["message_id"])
        if pressed in self._pressed or message.get("photo"):
            self._busy.pop(user, None)
        elif buttons:
            self._pressed.add(pressed)
            self._ordered += 1
            for _ in range(2 if self._choose.random() < 0.2 else 1):
                self._simulator.press(user, message["message_id"], buttons[0])
                self._said += 1
