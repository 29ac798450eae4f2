"""What commands that change rows share: confirmation, the answer for each row, and one exit code for all of them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from rich.progress import Progress

from raceproof import Conflict, Missing, Moved, Store, Unknown
from raceproof.declare import Move, Spec
from raceproof.declare.statuses import text_of_status
from raceproof.moves import Answer
from raceproof.ops.cli.exits import ExitCode, Failure
from raceproof.ops.cli.keys import Key, written_key
from raceproof.ops.cli.options import Options
from raceproof.ops.cli.output import console, print_keyed, printable
from raceproof.ops.cli.stores import open_store
from raceproof.ops.explain import explain

BATCH = 500
"""Rows moved by one statement; a batch is kept or rolled back as a whole."""
_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one row, or, in a dry run, would happen."""

    key: Any
    outcome: str
    code: ExitCode
    message: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    changed: bool = True
    """Whether `-o ids` prints its key, provided that `code` is OK."""

    def data(self) -> dict[str, Any]:
        return {"key": self.key, "outcome": self.outcome, **self.columns, "message": self.message}


def confirm(options: Options, question: str) -> None:
    """Ask the person at the terminal; without a terminal, raise a usage error."""
    if options.dry_run or options.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("there is no terminal to ask on: add --yes to confirm, or --dry-run to preview.")
    if not click.confirm(printable(question), err=True):
        raise Failure("nothing was changed")


def rows_of(keys: Sequence[Key], separator: str) -> str:
    """Which rows a question is about: the key of a single one, or their number."""
    return written_key(keys[0], separator) if len(keys) == 1 else f"{len(keys)} rows"


def change_rows(
    options: Options,
    keys: Sequence[Key],
    change: Callable[[Store], Iterable[Change]],
    columns: Sequence[str],
    styles: Mapping[str, str],
    spec: Spec[Any] | None = None,
) -> ExitCode:
    """Change rows, print the answer for each, and return one exit code; rows changed before an error stay changed."""
    done: list[Change] = []
    failure: Failure | None = None
    try:
        with open_store(options, spec) as store:
            _collect(change(store), done, len(keys))
    except Failure as error:
        failure = error
    finally:  # an interrupted run has changed rows too
        if done or not failure:
            shown = [one for one in done if options.output != "ids" or (one.changed and one.code == ExitCode.OK)]
            print_keyed(options, columns, [one.data() for one in shown], styles)
    if failure and done:
        message = f"after {len(done)} of {len(keys)} rows: {failure.message}"
        raise Failure(message, ExitCode.PARTLY, failure.advice) from failure
    if failure:
        raise failure
    _report(done, len(keys))
    return _exit_code(done)


def _collect(changes: Iterable[Change], done: list[Change], expected: int) -> None:
    """Take the answers as they come, with a progress bar for many rows on a terminal."""
    if expected <= BATCH or not sys.stderr.isatty():
        for one in changes:
            done.append(one)
        return
    with Progress(console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("rows", total=expected)
        for one in changes:
            done.append(one)
            progress.advance(task)


def _report(done: Sequence[Change], expected: int) -> None:
    """For people, on stderr: why rows did not change, and how many had which outcome."""
    failed = [one for one in done if one.code != ExitCode.OK]
    for one in failed[:_MESSAGES]:
        click.echo(printable(one.message), err=True)
    if len(failed) > _MESSAGES:
        click.echo(f"… and {len(failed) - _MESSAGES} more.", err=True)
    if expected != 1:
        counted = Counter(one.outcome for one in done).items()
        click.echo(
            ", ".join(f"{number} {outcome}" for outcome, number in counted) or "no keys, nothing to do", err=True
        )
    if len(done) < expected:
        click.echo(f"Stopped: {expected - len(done)} rows were not tried.", err=True)


def _exit_code(done: Sequence[Change]) -> ExitCode:
    """The code of a single row, or `PARTLY` where some rows succeeded and some did not."""
    failed = {one.code for one in done if one.code != ExitCode.OK}
    if failed and any(one.code == ExitCode.OK for one in done):
        return ExitCode.PARTLY
    ranked = (ExitCode.UNREACHABLE, ExitCode.ERROR, ExitCode.REFUSED, ExitCode.NOT_FOUND)
    return next((code for code in ranked if code in failed), ExitCode.OK)


# Moves


def move_rows(
    store: Store, move: Move[Any], keys: Sequence[Key], columns: Mapping[str, Any], by: str | None, reason: str | None
) -> Iterator[Change]:
    """Move the rows in batches; stop after a batch whose outcome is unknown."""
    if len(keys) == 1:
        yield _moved(store.move(move, keys[0], set=columns, by=by, reason=reason))
        return
    for start in range(0, len(keys), BATCH):
        answers = store.move_many(move, keys[start : start + BATCH], set=columns, by=by, reason=reason)
        yield from map(_moved, answers)
        if any(isinstance(answer, Unknown) for answer in answers):
            return


def preview_moves(store: Store, move: Move[Any], keys: Sequence[Key]) -> Iterator[Change]:
    """What a move would do to the rows as they are now; nothing is written."""
    for key in keys:
        found = explain(move.lifecycle, store.read(move.lifecycle, key), move, key=key)
        outcome, code = _VERDICTS[found.verdict]
        would_move = found.verdict in ("possible", "depends")
        unmet = [f"{one.what} ({one.found})" for one in found.conditions if not one.holds]
        message = found.lines()[0] + (f" Unmet: {'; '.join(unmet)}." if unmet else "")
        before, after = (found.status, found.target) if would_move else (None, found.status)
        yield Change(found.key, outcome, code, message, _columns(before, after, None), would_move)


_VERDICTS = {
    "possible": ("would move", ExitCode.OK),
    "depends": ("may move", ExitCode.OK),
    "already": ("already", ExitCode.OK),
    "impossible": ("would be refused", ExitCode.REFUSED),
    "missing": ("missing", ExitCode.NOT_FOUND),
}


def _moved(answer: Answer[Any, Any]) -> Change:
    before = text_of_status(answer.before) if isinstance(answer, Moved) else None
    match answer:
        case Missing() | Unknown() | Conflict():
            columns = _columns(before, None, None)
        case _:
            columns = _columns(before, text_of_status(answer.status), answer.revision)
    return Change(answer.key, answer.outcome, code_of(answer), str(answer), columns, answer.won)


def _columns(before: str | None, status: str | None, revision: int | None) -> dict[str, Any]:
    return {"before": before, "status": status, "revision": revision}


def code_of(answer: Any) -> ExitCode:
    """The exit code for one answer of a store."""
    if answer.reached:
        return ExitCode.OK
    match answer:
        case Missing():
            return ExitCode.NOT_FOUND
        case Unknown():
            return ExitCode.UNREACHABLE
        case Conflict():
            return ExitCode.ERROR
        case _:
            return ExitCode.REFUSED
