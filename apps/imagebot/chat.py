"""A chat with the simulated bot in a terminal."""

import asyncio
import sys
from typing import Any

import aiohttp
import click

from appkit import commands as kit

QUIET = 6.0
"""Seconds for the bot's last words, after the end of the input."""


async def talk(url: str, user: int) -> int:
    """Until the end of the input."""
    async with aiohttp.ClientSession(url, trust_env=False, timeout=aiohttp.ClientTimeout(total=10)) as http:
        try:
            async with http.get(f"/control/chat/{user}"):
                pass
        except aiohttp.ClientError:
            click.echo(f"nothing answers at {url}: start `imagebot serve --simulate` first", err=True)
            return kit.UNREACHABLE
        click.echo("Say /start. A number presses that button, an empty line ends.", err=True)
        window = _Window(http, user)
        watching = asyncio.create_task(window.watch())
        try:
            while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
                await window.say(line)
            await asyncio.sleep(QUIET)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return kit.OK


class _Window:
    def __init__(self, http: aiohttp.ClientSession, user: int) -> None:
        self._http = http
        self._user = user
        self._shown: dict[int, str] = {}
        self._buttons: list[tuple[int, str]] = []

    async def say(self, line: str) -> None:
        if line.isdigit() and 0 < int(line) <= len(self._buttons):
            message, data = self._buttons[int(line) - 1]
            told: dict[str, Any] = {"message_id": message, "data": data}
            path = f"/control/press/{self._user}"
        else:
            told, path = {"text": line}, f"/control/say/{self._user}"
        async with self._http.post(path, json=told):
            pass

    async def watch(self) -> None:
        while True:
            async with self._http.get(f"/control/chat/{self._user}") as answer:
                for message in (await answer.json())["messages"]:
                    self._show(message)
            await asyncio.sleep(0.2)

    def _show(self, message: dict[str, Any]) -> None:
        text = message.get("text") or message.get("caption") or ""
        rows = (message.get("reply_markup") or {}).get("inline_keyboard", ())
        seen = f"{text}{rows}"
        if not message["from"]["is_bot"] or self._shown.get(message["message_id"]) == seen:
            return
        self._shown[message["message_id"]] = seen
        picture = f"[picture: {message['photo'][0]['file_id']}]\n" if message.get("photo") else ""
        click.echo(f"\nbot: {picture}{text}")
        if rows:
            self._buttons = [(message["message_id"], one["callback_data"]) for row in rows for one in row]
            names = [one["text"] for row in rows for one in row]
            click.echo("  " + "   ".join(f"{place}) {name}" for place, name in enumerate(names, 1)))
