"""`raceproof doctor`: problems of a store, with evidence and repairs."""

import shlex
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from raceproof import Attempts, Delivery, Inbox, Lease
from raceproof.declare import Claimable, Spec
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.changes import confirm
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import console, print_json, print_jsonl, printable, shown
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_targets
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
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(*_KINDS))
@shared_options("app", "url", "tenant", "by", "write", limit=20, output=("table", "json", "jsonl"))
@click.option("--fix", "fixing", is_flag=True, help="Apply the safe repairs, and check again.")
@click.option("--ignore", metavar="CHECK", multiple=True, help="Skip a check. Repeatable.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=50_000,
    show_default=True,
    help="Rows to scan at each end of a table that has no index for the check.",
)
@click.pass_context
def doctor(
    context: click.Context, options: Options, names: tuple[str, ...], fixing: bool, ignore: tuple[str, ...], rows: int
) -> None:
    """Find problems, and print what repairs them.

    Checks for stuck work, undeclared statuses, owners with several active attempts, missing indexes and times to live,
    missing or disabled guards, schema drift, a wrong clock, a pooler in front of the server, and server settings that
    void a promise. Each problem comes with evidence and with a repair to paste into psql, sqlite3, redis-cli or a shell.
    Nothing is written without --fix, and then only safe repairs. TARGET is anything declared; without one, everything.
    The number of rows read is bounded, whatever the size of a table.
    """
    subjects = _subjects(context, options, find_targets(options.apps, names, *_KINDS))
    with open_store(options) as store:
        found = diagnose(store, *subjects, limit=options.limit, rows=rows, ignore=ignore)
        done: list[Problem] = []
        if fixing:
            safe = [one for one in found.problems if one.repair and one.repair.safe]
            if safe and not (options.dry_run or options.yes):
                _print(found, store.dialect)
                confirm(options, f"Apply the {len(safe)} safe repairs in {options.location}?")
            if safe and not options.dry_run:
                done = fix(store, safe, options.actor)
                found = diagnose(store, *subjects, limit=options.limit, rows=rows, ignore=ignore)
        dialect = store.dialect
    match options.output:
        case "json":
            print_json({"problems": [_data(one) for one in found.problems], "checked": found.checked}
                       | {"fixed": [_data(one) for one in done]})  # fmt: skip
        case "jsonl":
            print_jsonl(_data(one) for one in found.problems)
        case _:
            _print(found, dialect, fixing and options.dry_run)
    _summary(found, done)
    if found.problems:
        context.exit(ExitCode.PROBLEMS)


def _subjects(context: click.Context, options: Options, targets: Sequence[Target[Any]]) -> list[Subject]:
    """The targets, with the options that a repair must repeat: those typed on the command line, never a secret."""

    def typed(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    more = []
    location = options.location
    if location and typed("location"):
        secret = location.secrets or "?" in location.url
        more = ["--url", "$RACEPROOF_URL" if secret else location.url]
    repeated = " ".join(f'"{word}"' if word.startswith("$") else shlex.quote(word) for word in more)
    named = typed("apps") or not options.apps
    return [
        Subject(
            target.thing, target.name, " ".join(filter(None, (f"--app {shlex.quote(target.app)}" * named, repeated)))
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
            would = " — --fix would apply it" if foreseen and one.repair.safe else ""
            out.print(f"    repair{where}{safe}{would}:", style="dim")
            _print_repair(one.repair)
        out.print()


def _one_line(text: str) -> str:
    """Evidence on one line, so that a value of a row cannot look like a repair."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _print_repair(repair: Repair) -> None:
    """Exactly what is to be pasted, or nothing; SQL is not indented, because the spaces would become part of quoted text."""
    if printable(repair.text) != repair.text:
        click.echo("      It contains characters that a terminal would change; copy it from -o json.")
        return
    for line in repair.text.split("\n"):
        click.echo(line if repair.way == "sql" else f"      {line}")


def _summary(found: Diagnosis, done: Sequence[Problem]) -> None:
    """The checks that ran, for people; skipped ones are named, so that silence means health."""
    for one in done:
        click.echo(printable(f"repaired: {one.target}: {one.what}"), err=True)
    notes = [
        f"{check.check} of {check.target}: {'skipped' if check.skipped else 'checked'}: {check.note}"
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
