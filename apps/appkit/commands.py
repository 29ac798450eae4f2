"""Command lines: what is printed, where, and with which exit code; the same as those of `raceproof`."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, NoReturn

import click

OK, ERROR, USAGE, REFUSED, NOT_FOUND, UNREACHABLE, PROBLEMS = range(7)
INTERRUPTED = 130

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl"]),
    default="table",
    help="How results are printed.",
)


class Unusable(Exception):
    """Something outside is missing that the command needs; the message is one line for its user."""


def run(main: Coroutine[Any, Any, int | None]) -> NoReturn:
    """Run an async command and exit with what it returns; Ctrl-C is 130, without a traceback."""
    try:
        code = asyncio.run(main)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    except Unusable as error:
        click.echo(str(error), err=True)
        code = UNREACHABLE
    except RuntimeError as error:
        if type(error).__name__ != "ServerMissing":
            raise
        # of raceproof.testing, which is imported where a server is started and nowhere else
        click.echo(f"{error}; or install the extra `simulate` or `storm` of this application", err=True)
        code = UNREACHABLE
    sys.exit(code or OK)


def show(rows: Iterable[Mapping[str, Any]], output: str, columns: Iterable[str] | None = None) -> None:
    """Rows as a table for people, or as JSON for programs."""
    listed = [dict(row) for row in rows]
    if output == "json":
        click.echo(json.dumps(listed, default=str, ensure_ascii=False, indent=2))
    elif output == "jsonl":
        for row in listed:
            click.echo(json.dumps(row, default=str, ensure_ascii=False))
    elif listed:
        from rich.console import Console
        from rich.table import Table

        named = list(columns or listed[0])
        table = Table(*named, box=None, header_style="bold", pad_edge=False)
        for row in listed:
            table.add_row(*("" if row.get(name) is None else str(row.get(name)) for name in named))
        console = Console()
        console.print(table, soft_wrap=not console.is_terminal)


def log_to_stderr(level: str = "INFO") -> None:
    """One line for each thing that happens; loud libraries are turned down."""
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s %(message)s")
    for name in ("httpx", "httpcore", "aiosqlite", "asyncio", "uvicorn.access", "mqtt"):
        logging.getLogger(name).setLevel(logging.WARNING)


def stop_event() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
