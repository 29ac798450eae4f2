"""`raceproof doctor`: what is wrong with a store, with the rows that show it, and what repairs it."""

import shlex
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from raceproof import Attempts, Delivery, Inbox, Lease
from raceproof.declare import Claimable, Spec
from raceproof.ops.cli.changes import by_option, confirm, login_name, write_options
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, limit_option, output_option, url_option
from raceproof.ops.cli.output import console, print_json, print_jsonl, printable, shown
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import Target, find_things
from raceproof.ops.doctor import Diagnosis, Problem, Repair, Subject, diagnose, fix

_KINDS = (Spec, Claimable, Delivery, Attempts, Lease, Inbox)
_STYLES = {"warning": "yellow", "error": "bold red"}
_MARKS = {"warning": "!", "error": "✗"}
_PASTE = {"postgres": "psql", "sqlite": "sqlite3", "redis": "redis-cli"}


@click.command(
    epilog="""\b
Examples:
  raceproof doctor --app shop.models
  raceproof doctor --app shop.models --fix --dry-run
  raceproof doctor --app shop.models --ignore guard -o jsonl | jq -r .repair.text

\b
Checks, for --ignore: durability, primary, eviction, schema, guard, index, status, owner,
ttl, clock, pooler, and stuck (stuck.claim, stuck.delivery, stuck.attempt, stuck.inbox).

\b
Exit code 6 if there are problems, with --fix if some are left."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(*_KINDS))
@app_option
@url_option
@click.option("--tenant", help="Whose rows, where a lifecycle has a tenant column.")
@click.option("--fix", "fixing", is_flag=True, help="Do the repairs that are safe, and look again.")
@click.option("--ignore", metavar="CHECK", multiple=True, help="Leave a check out. May be given several times.")
@limit_option(20)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=50_000,
    show_default=True,
    help="So many rows at each end of a table, where no index leads to the bad ones.",
)
@by_option
@write_options
@output_option("table", "json", "jsonl")
@debug_option
@click.pass_context
def doctor(
    context: click.Context,
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    fixing: bool,
    ignore: tuple[str, ...],
    limit: int,
    rows: int,
    by: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Find what is wrong, and say what repairs it.

    Looked for are work that is stuck, statuses that are not declared, owners with several active attempts, missing
    indexes and times to live, guards that are missing or switched off, a schema that has drifted, a clock that is wrong,
    a pooler in front, and settings of the server with which a promise does not hold. Each problem comes with the rows
    that show it and with a repair to paste: into psql, sqlite3, redis-cli or a shell. Nothing is written without --fix,
    and then only what is safe. TARGET is anything declared; without one, all of it. Rows are looked at a bounded number
    of, whatever the size of a table.
    """
    subjects = _subjects(context, find_things(apps, names, *_KINDS), apps, location)
    with open_store(location, None, tenant) as store:
        found = diagnose(store, *subjects, limit=limit, rows=rows, ignore=ignore)
        done: list[Problem] = []
        if fixing:
            safe = [one for one in found.problems if one.repair and one.repair.safe]
            if safe and not (dry_run or yes):
                _print(found, store.dialect)
                confirm(f"Do the {len(safe)} repairs that are safe in {location}?")
            if safe and not dry_run:
                done = fix(store, safe, by or login_name())
                found = diagnose(store, *subjects, limit=limit, rows=rows, ignore=ignore)
        dialect = store.dialect
    match output:
        case "json":
            print_json({"problems": [_data(one) for one in found.problems], "checked": found.checked}
                       | {"fixed": [_data(one) for one in done]})  # fmt: skip
        case "jsonl":
            print_jsonl(_data(one) for one in found.problems)
        case _:
            _print(found, dialect, fixing and dry_run)
    _summary(found, done)
    if found.problems:
        context.exit(ExitCode.PROBLEMS)


def _subjects(
    context: click.Context, targets: Sequence[Target[Any]], apps: Sequence[str], location: Location | None
) -> list[Subject]:
    """The targets, with the options that a repair has to repeat: those that were typed, but never a secret."""

    def typed(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    more = []
    if location and typed("location"):
        secret = location.secrets or "?" in location.url
        more = ["--url", "$RACEPROOF_URL" if secret else location.url]
    options = " ".join(f'"{word}"' if word.startswith("$") else shlex.quote(word) for word in more)
    named = typed("apps") or not apps
    return [
        Subject(
            target.thing, target.name, " ".join(filter(None, (f"--app {shlex.quote(target.app)}" * named, options)))
        )
        for target in targets
    ]


def _data(one: Problem) -> dict[str, Any]:
    repair = one.repair
    return {
        "check": one.check,
        "level": one.level,
        "target": one.target,
        "what": one.what,
        "evidence": one.evidence,
        "more": one.more,
        "repair": repair and {"way": repair.way, "text": repair.text, "safe": repair.safe},
    }


def _print(found: Diagnosis, dialect: str, foreseen: bool = False) -> None:
    out = console()
    for one in found.problems:
        out.print(_one_line(f"{_MARKS[one.level]} {one.target}: {one.what}  [{one.check}]"), style=_STYLES[one.level])
        for number, row in enumerate(one.evidence):
            text = ", ".join(f"{name}={shown(value) or '-'}" for name, value in row.items())
            out.print(f"    {'evidence:' if number == 0 else '':<10}{_one_line(text)}", soft_wrap=True)
        if one.more:
            out.print("              … and more")
        if one.repair:
            where = {"sql": f" ({_PASTE[dialect]})", "redis": f" ({_PASTE[dialect]})"}.get(one.repair.way, "")
            safe = ", safe" if one.repair.safe else ""
            would = " — --fix would do it" if foreseen and one.repair.safe else ""
            out.print(f"    repair{where}{safe}{would}:", style="dim")
            _print_repair(one.repair)
        out.print()


def _one_line(text: str) -> str:
    """Evidence stays on its line: a value of a row must not be able to print a repair of its own."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _print_repair(repair: Repair) -> None:
    """Exactly what has to be pasted, or nothing; SQL without an indentation, which would become part of a quoted text."""
    if printable(repair.text) != repair.text:
        click.echo("      It contains characters that a terminal would change; take it from the output of -o json.")
        return
    for line in repair.text.split("\n"):
        click.echo(line if repair.way == "sql" else f"      {line}")


def _summary(found: Diagnosis, done: Sequence[Problem]) -> None:
    """What was looked at, for people; what was left out is said, so that silence means health."""
    for one in done:
        click.echo(printable(f"repaired: {one.target}: {one.what}"), err=True)
    notes = [
        f"{check.check} of {check.target}: {'left out' if check.skipped else 'looked at'}: {check.note}"
        for check in found.checked
        if check.note
    ]
    for note in dict.fromkeys(notes):
        click.echo(printable(note), err=True)
    made = sum(not check.skipped for check in found.checked)
    problems = f"{len(found.problems)} problem{'s' * (len(found.problems) != 1)}"
    safe = sum(bool(one.repair and one.repair.safe) for one in found.problems)
    hint = f"; {safe} of them can be repaired with --fix" if safe else ""
    click.echo(f"{made} checks, {problems if found.problems else 'no problem'}{hint}", err=True)
