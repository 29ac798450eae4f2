"""What all commands share: settings, a database that is open, and errors that a person can read."""

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import click
from sqlalchemy.exc import DBAPIError

from appkit import commands as kit
from appkit.settings import load
from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.service import Service, prepared
from outreach.settings import Settings


def settings_or_exit(**more: Any) -> Settings:
    """What is set, or an error that says which setting is wrong."""
    return load(Settings, **more)


def with_service(
    body: Callable[[Service], Awaitable[int | None]], purpose: Purpose = Purpose.LOOK, **more: Any
) -> NoReturn:
    """Run a command on the database of the settings; unless its purpose is to, it changes nothing of the schema."""
    told = settings_or_exit(**more)

    async def run() -> int:
        try:
            async with prepared(told, Metrics(), purpose) as service:
                return await body(service) or kit.OK
        except (OSError, DBAPIError) as error:
            # what a driver says may carry a DSN
            click.echo(f"the database cannot be reached: {type(error).__name__}; look at OUTREACH_DATABASE", err=True)
            return kit.UNREACHABLE

    kit.run(run())


def told(answer: Any) -> int:
    """Print what came of a decision; the exit code says whether it is so now."""
    click.echo(str(answer), err=not answer.reached)
    if answer.outcome == "missing":
        return kit.NOT_FOUND
    return kit.OK if answer.reached else kit.REFUSED
