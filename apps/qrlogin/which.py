"""Which Telegram logins go to: the real one, or a simulated one, here or elsewhere."""

import contextlib
from collections.abc import AsyncIterator

import click

from qrlogin.settings import Settings
from qrlogin.simulated import Line, SimulatedTelegram, simulated_clients
from qrlogin.telegram import ClientMaker, telethon_clients


class NoTelegram(click.ClickException):
    """There is none to talk to."""


@contextlib.asynccontextmanager
async def telegram_of(told: Settings, simulate: bool) -> AsyncIterator[tuple[ClientMaker, Line | None]]:
    """Clients, and the line to a simulated Telegram if it is one: that of the settings, or one that is started here."""
    if told.real and not simulate:
        yield telethon_clients(told), None
        return
    async with contextlib.AsyncExitStack() as stack:
        place = told.simulated
        path = told.folder / "telegram"
        if not place:
            here = await stack.enter_async_context(SimulatedTelegram())
            told.folder.mkdir(parents=True, exist_ok=True)
            place = f"{here.host}:{here.port}"
            path.write_text(place)
            stack.callback(path.unlink, missing_ok=True)
        line = _line_to(place)
        stack.push_async_callback(line.close)
        yield simulated_clients(line), line


def _line_to(place: str) -> Line:
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise NoTelegram("QRLOGIN_SIMULATED is host:port")
    return Line(host, int(port))


def near_telegram(told: Settings) -> Settings:
    """With the simulated Telegram that another process with the same folder has started, if there is no other."""
    if told.real or told.simulated:
        return told
    path = told.folder / "telegram"
    if not path.exists():
        raise NoTelegram(
            "no Telegram to talk to: set QRLOGIN_API_ID and QRLOGIN_API_HASH, or QRLOGIN_SIMULATED, or run"
            f" `qrlogin serve --simulate` with the same folder, {told.folder}"
        )
    return told.model_copy(update={"simulated": path.read_text()})
