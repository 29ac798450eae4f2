"""Data on stdout: as a table for people, as JSON, as JSON Lines, or as bare ids for the next command."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raceproof.kernel.shown import shown_moment
from raceproof.ops.cli.keys import written_key
from raceproof.ops.cli.options import Options

_WIDE = 10_000


def console(stderr: bool = False) -> Console:
    """A console that prints what it is given as it is; into a pipe it never wraps or cuts."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else _WIDE)


def print_json(value: Any) -> None:
    click.echo(json.dumps(plain_data(value), indent=2, ensure_ascii=False))


def print_jsonl(values: Iterable[Any]) -> None:
    for value in values:
        click.echo(json.dumps(plain_data(value), ensure_ascii=False))


def print_lines(lines: Iterable[str]) -> None:
    """Lines for people; what came from a store cannot move the cursor or change a colour."""
    for line in lines:
        click.echo(printable(line))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], styles: Mapping[str, str] = {}) -> None:
    """A table; `styles` gives a cell with that text a colour."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = [printable(shown(value)) for value in row]
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in cells))
    console().print(table)


def print_rows(
    output: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    styles: Mapping[str, str] = {},
    ids: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """The same rows in the form that was asked for; a table shows these columns of them, and nothing if there are none."""
    match output:
        case "json":
            print_json(rows)
        case "jsonl":
            print_jsonl(rows)
        case "ids" if ids is not None:
            print_lines(map(ids, rows))
        case _ if rows:
            print_table(columns, ([row[column] for column in columns] for row in rows), styles)


def print_keyed(
    options: Options, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], styles: Mapping[str, str] = {}
) -> None:
    """The same for rows with a `key`, which a table and `-o ids` write as it can be given to another command."""

    def written(row: Mapping[str, Any]) -> str:
        return written_key(row["key"], options.key_separator)

    if options.output == "table":
        rows = [{**row, "key": written(row)} for row in rows]
    print_rows(options.output, columns, rows, styles, written)


def print_one(options: Options, data: Mapping[str, Any], key: Any, print_text: Callable[[], None]) -> None:
    """One thing in the format that was asked for; `print_text` prints it for people."""
    match options.output:
        case "json":
            print_json(data)
        case "jsonl":
            print_jsonl([data])
        case "ids":
            print_lines([written_key(key, options.key_separator)])
        case _:
            print_text()


def shown(value: Any) -> str:
    """A value as a person wants to see it."""
    if value is None:
        return ""
    if isinstance(value, datetime) and value.tzinfo:
        return shown_moment(value)
    plain = plain_data(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def printable(text: str) -> str:
    """A text without control characters: a value of a row must not be able to drive the terminal."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else repr(character)[1:-1] for character in text
    )


def plain_data(value: Any) -> Any:
    """A value as JSON knows it; what it does not know becomes text."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case UUID() | Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(name): plain_data(one) for name, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain_data(one) for one in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain_data(asdict(value))
        case _:
            return str(value)
