"""`raceproof verify`: does the database match the declaration?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import click

from raceproof import Store
from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError
from raceproof.ops.cli.apps import WORDS, Target
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import console, print_json, print_jsonl, printable
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import BESIDE, find_declared
from raceproof.ops.verify import Beside, Finding, Trial, try_matrix
from raceproof.ops.verify import verify as compare
from raceproof.ops.verify.finding import NO_GUARDS
from raceproof.schema.needed import table_of

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}
_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


class Report(NamedTuple):
    """The findings about one declaration."""

    what: str
    name: str
    place: str
    findings: list[Finding]
    trials: list[Trial]
    declaration: str | None = None

    def has_problems(self, strict: bool) -> bool:
        levels = ("error", "warning") if strict else ("error",)
        return any(one.level in levels for one in self.findings) or any(trial.wrong for trial in self.trials)


@click.command(
    epilog="""\b
Examples:
  raceproof verify --app shop.models --url postgresql://localhost/shop
  raceproof verify --app shop.models Order --matrix
  raceproof verify --app shop.models --guards
  raceproof verify --app shop.models -o jsonl | jq 'select(.level == "error")'

\b
Exit code 6 if there are problems."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(Spec, *BESIDE))
@shared_options("app", "url", output=("table", "json", "jsonl"))
@click.option(
    "--matrix",
    is_flag=True,
    help="Try every change of status against the guards, in a transaction that is rolled back.",
)
@click.option(
    "--guards/--no-guards",
    default=None,
    help="Whether a lifecycle must have guards.  [default: if the database has any]",
)
@click.option("--strict", is_flag=True, help="Treat warnings as problems.")
@click.pass_context
def verify(
    context: click.Context, options: Options, names: tuple[str, ...], matrix: bool, guards: bool | None, strict: bool
) -> None:
    """Compare the database with the declaration.

    Checks columns, statuses, key, history and guards; nothing is written. Each finding comes with evidence and a repair.
    TARGET is a lifecycle, a Delivery, an Attempts, a Lease or an Inbox; without one, everything declared.

    Missing guards are a problem with --guards, and without it if the database has guards of another lifecycle or
    remains of dropped ones. With --no-guards they never are.
    """
    specs, others = find_declared(options.apps, names)
    with open_store(options) as store:
        reports = [_examine(store, spec, matrix, guards) for spec in specs]
        reports += [_examine_beside(store, other) for other in others]
    match options.output:
        case "json":
            print_json([_data(report) for report in reports])
        case "jsonl":
            print_jsonl(line for report in reports for line in _lines(report))
        case _:
            for report in reports:
                _print(report)
    if any(report.has_problems(strict) for report in reports):
        context.exit(ExitCode.PROBLEMS)


def _examine(store: Store, spec: Spec[Any], matrix: bool, guards: bool | None) -> Report:
    findings = [_required(one, guards) for one in compare(store, spec)]
    trials: list[Trial] = []
    if matrix:
        try:
            trials = try_matrix(store, spec)
        except CallError as error:
            findings.append(Finding("error", "the matrix cannot be tried", str(error)))
    return Report("lifecycle", spec.name, f"{spec.table}.{spec.column}", findings, trials, spec.hash)


def _required(one: Finding, guards: bool | None) -> Finding:
    """Missing guards, as severe as --guards and --no-guards ask for."""
    if guards is None or one.what != NO_GUARDS:
        return one
    return replace(one, level="error") if guards else Finding("ok", "no guards, and none are required")


def _examine_beside(store: Store, target: Target[Beside]) -> Report:
    what = WORDS[type(target.thing)]
    return Report(what, target.name, f"{what}, {table_of(target.thing)}", compare(store, target.thing), [])


def _data(report: Report) -> dict[str, Any]:
    declared = {"declaration": report.declaration} if report.declaration else {}
    return {
        report.what: report.name,
        **declared,
        "findings": report.findings,
        "matrix": [_trial(trial) for trial in report.trials],
    }


def _lines(report: Report) -> list[dict[str, Any]]:
    name = {report.what: report.name}
    found = [
        {**name, "level": one.level, "what": one.what, "evidence": one.evidence, "repair": one.repair}
        for one in report.findings
    ]
    return found + [
        {**name, "level": "error" if trial.wrong else "ok", "what": "matrix", **_trial(trial)}
        for trial in report.trials
    ]


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "before": trial.before,
        "after": trial.after,
        "declared": trial.declared,
        "accepted": trial.accepted,
        "error": trial.error,
    }


def _print(report: Report) -> None:
    out = console()
    out.print(printable(f"{report.name} ({report.place})"), style="bold")
    for one in report.findings:
        out.print(f"  {_MARKS[one.level]} {printable(one.what)}", style=_STYLES[one.level])
        for title, text in (("evidence", one.evidence), ("repair", one.repair)):
            for number, line in enumerate(printable(text).splitlines()):
                out.print(f"      {title + ':' if number == 0 else '':<10}{line}", soft_wrap=True)
    if report.trials:
        _print_matrix(report.trials)
    out.print()


def _print_matrix(trials: Sequence[Trial]) -> None:
    out = console()
    wrong = [trial for trial in trials if trial.wrong]
    declared = sum(trial.declared for trial in trials)
    level = "error" if wrong else "ok"
    out.print(
        f"  {_MARKS[level]} {len(trials)} changes of status tried: {declared} declared, {len(wrong)} decided wrongly",
        style=_STYLES[level],
    )
    for trial in wrong:
        decided = "accepted" if trial.accepted else f"refused: {trial.error}"
        meant = "declared" if trial.declared else "not declared"
        before = "(new)" if trial.before is None else trial.before
        out.print(printable(f"      {before} → {trial.after} is {meant}, but was {decided}"), soft_wrap=True)
