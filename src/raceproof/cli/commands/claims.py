"""`raceproof claims`: who holds what, and until when; and taking a row out of a hand that does not let go."""

from datetime import UTC
from typing import Any

import click

from raceproof import Claim, Claimable, Lost, Marker, Missing, Released, Store
from raceproof.cli.changes import by_option, confirm, login_name, write_options
from raceproof.cli.commands.show import no_such_row
from raceproof.cli.completing import complete_thing
from raceproof.cli.ends import ExitCode
from raceproof.cli.keys import parse_key, written_key
from raceproof.cli.location import Location
from raceproof.cli.options import (
    app_option,
    debug_option,
    key_options,
    limit_option,
    output_option,
    url_option,
)
from raceproof.cli.output import print_rows, printable
from raceproof.cli.stores import open_store
from raceproof.cli.things import Target, find_thing, find_things, need_tenant

_COLUMNS = ("claim", "key", "holder", "status", "attempts", "until", "lease")
_STYLES = {"over": "bold red", "held": "green", "released": "green", "would release": "green", "lost": "red"}


@click.command(
    epilog="""\b
Examples:
  raceproof claims --app shop.models
  raceproof claims --app shop.models Job.work --stale -o ids
  raceproof claims --app shop.models Job.work --release 1042 --reason "the worker hangs"

\b
Exit code of --release: 0 if the row is free now, 3 if it was claimed anew meanwhile, 4 if there is no such row."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(Claimable))
@app_option
@url_option
@key_options
@click.option("--stale", is_flag=True, help="Only those whose lease is over.")
@limit_option(100)
@click.option(
    "--release", metavar="KEY", help="Take this row from its holder, whose later writes are refused."
)
@by_option
@click.option("--reason", help="Why it is released, for the history.")
@write_options
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def claims(
    context: click.Context,
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    stale: bool,
    limit: int,
    release: str | None,
    by: str | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """List who holds which rows, and until when, the oldest first.

    TARGET is a claim, as Job.work, or a lifecycle with all its claims; without one, all that are declared. A row whose lease
    is over is free: the next claim takes it. With --release a row is given back at once, and its attempt does not count.
    """
    if release is not None:
        if len(names) != 1 or not reason:
            raise click.UsageError("--release needs one TARGET, and a --reason that the history can keep.")
        target = find_thing(apps, names[0], Claimable)
        need_tenant(target.thing, tenant)
        key = parse_key(target.thing.lifecycle, release, key_separator)
        if not (dry_run or yes):
            confirm(f"Release {target.name} of {release} in {location}?")
        with open_store(location, None, tenant) as store:
            line, code = _released(store, target.thing, key, by or login_name(), reason, dry_run)
        line["key"] = written_key(line["key"], key_separator) if output in ("table", "ids") else line["key"]
        columns = ("claim", "key", "outcome", "holder")
        print_rows(output, columns, [line], _STYLES, lambda row: str(row["key"]))
        if code != ExitCode.OK:
            click.echo(printable(line["message"]), err=True)
        context.exit(code)
    targets: list[Target[Claimable[Any]]] = find_things(apps, names, Claimable)
    for one in targets:
        need_tenant(one.thing, tenant)
    with open_store(location, None, tenant) as store:
        rows = [row for one in targets for row in _held(store, one, limit, stale)]
    if output == "table":
        rows = [{**row, "key": written_key(row["key"], key_separator)} for row in rows]
    print_rows(output, _COLUMNS, rows, _STYLES, lambda row: written_key(row["key"], key_separator))
    if not rows:
        click.echo("nobody holds a row" if not stale else "no lease is over", err=True)


def _held(store: Store, target: Target[Claimable[Any]], limit: int, stale: bool) -> list[dict[str, Any]]:
    return [
        {
            "claim": target.name,
            "key": one.key,
            "holder": one.holder,
            "status": one.status,
            "attempts": one.attempts,
            "fence": one.fence,
            "until": one.until.astimezone(UTC),
            "lease": "over" if one.stale else "held",
            "stale": one.stale,
        }
        for one in store.claims(target.thing, limit)
        if one.stale or not stale
    ]


def _released(
    store: Store, claim: Claimable[Any], key: Any, by: str, reason: str, dry_run: bool
) -> tuple[dict[str, Any], ExitCode]:
    """Give a row back in its holder's name, by the fence that the row has now."""
    row = store.read(claim.lifecycle, key)
    if row is None:
        raise no_such_row(claim.lifecycle, key)
    holder = row.get(getattr(claim.form, "holder", "") or "")
    line = {"claim": str(claim), "key": key, "outcome": "free", "holder": holder, "message": ""}
    fence = row.get(claim.form.fence_column)
    if not _is_held(claim, row):
        return {**line, "message": f"nobody holds {claim} of {key!r}"}, ExitCode.OK
    if dry_run:
        return {**line, "outcome": "would release", "message": f"held by {holder or 'somebody'}"}, ExitCode.OK
    held = Claim(key, claim, fence, by, 1, claim.held[0], 0.0, None, store._tenant)
    (answer,) = store.release(held, reason=reason)
    match answer:
        case Released():
            code = ExitCode.OK
        case Lost():
            code = ExitCode.REFUSED
        case Missing():
            code = ExitCode.NOT_FOUND
        case _:
            code = ExitCode.UNREACHABLE
    return {**line, "outcome": answer.outcome, "message": str(answer)}, code


def _is_held(claim: Claimable[Any], row: dict[str, Any]) -> bool:
    """Whether the row says that somebody has it; a text that is no marker is somebody's own."""
    mark = row.get(claim.form.cleared[-1])
    if isinstance(claim.form, Marker) and not str(mark).startswith(claim.form.prefix):
        return False
    return mark is not None and str(row.get(claim.lifecycle.column)) in claim.held
