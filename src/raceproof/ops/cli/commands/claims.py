"""`raceproof claims`: who holds what, and until when; and taking a row out of a hand that does not let go."""

from datetime import UTC
from typing import Any

import click

from raceproof import Claim, Lost, Missing, Released, Store
from raceproof.claims import TextMarker
from raceproof.declare import Claimable
from raceproof.kernel.shown import shown_key
from raceproof.ops.cli.changes import (
    Change,
    by_option,
    change_each,
    confirm,
    login_name,
    rows_of,
    show_changes,
    write_options,
)
from raceproof.ops.cli.commands.show import no_such_row
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.keys import parse_keys, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, key_options, limit_option, output_option, url_option
from raceproof.ops.cli.output import print_rows
from raceproof.ops.cli.stores import look_at_each
from raceproof.ops.cli.things import Target, find_thing, find_things, need_tenant

_COLUMNS = ("claim", "key", "holder", "status", "attempts", "until", "lease")
_STYLES = {"over": "bold red", "held": "green", "released": "green", "would release": "green", "lost": "red"}


@click.command(
    epilog="""\b
Examples:
  raceproof claims --app shop.models
  raceproof claims --app shop.models Job.work --stale -o ids
  raceproof claims --app shop.models Job.work --release 1042 --reason "the worker hangs"
  raceproof claims --app shop.models Job.work --stale -o ids |
    raceproof claims --app shop.models Job.work --release - --reason "its host is gone" --yes

\b
Exit code of --release: 0 if the row is free now, 3 if it was claimed anew meanwhile, 4 if there is no such row,
7 if some of several are free now and some are not. Without it: 7 if some targets could not be looked at."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(Claimable))
@app_option
@url_option
@key_options
@click.option("--stale", is_flag=True, help="Only those whose lease is over.")
@limit_option(100)
@click.option(
    "--release",
    "keys",
    metavar="KEY",
    multiple=True,
    help="Take this row from its holder, whose later writes are refused.",
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
    keys: tuple[str, ...],
    by: str | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """List who holds which rows, and until when, the oldest first.

    TARGET is a claim, as Job.work, or a lifecycle with all its claims; without one, all that are declared. A row whose lease
    is over is free: the next claim takes it. With --release a row is given back at once, and its attempt does not count; a
    --release of - reads keys from stdin, one on a line.
    """
    if keys:
        if len(names) != 1 or not reason:
            raise click.UsageError("--release needs one TARGET, and a --reason that the history can keep.")
        target = find_thing(apps, names[0], Claimable)
        need_tenant(target.thing, tenant)
        wanted = parse_keys(target.thing.lifecycle, keys, key_separator)
        if not (dry_run or yes):
            confirm(f"Release {target.name} of {rows_of(wanted, key_separator)} in {location}?")
        who, why = by or login_name(), reason
        code = change_each(
            location,
            tenant,
            wanted,
            lambda store, key: _released(store, target.thing, key, who, why, dry_run),
            show_changes(output, ("claim", "key", "outcome", "holder"), _STYLES, key_separator),
        )
        context.exit(code)
    targets: list[Target[Claimable[Any]]] = find_things(apps, names, Claimable)
    for one in targets:
        need_tenant(one.thing, tenant)
    rows, code = look_at_each(location, tenant, targets, lambda store, one: _held(store, one, limit, stale))
    if output == "table":
        rows = [{**row, "key": written_key(row["key"], key_separator)} for row in rows]
    print_rows(output, _COLUMNS, rows, _STYLES, lambda row: written_key(row["key"], key_separator))
    if not rows:
        told = "nobody holds a row" if not stale else "no lease is over"
        click.echo(told if code == ExitCode.OK else f"{told}, as far as could be looked at", err=True)
    context.exit(code)


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


def _released(store: Store, claim: Claimable[Any], key: Any, by: str, reason: str, dry_run: bool) -> Change:
    """Give a row back in its holder's name, by the fence that the row has now."""
    row = store.read(claim.lifecycle, key)
    more = {"claim": str(claim), "holder": row and row.get(getattr(claim.form, "holder", "") or "")}
    if row is None:
        missing = no_such_row(claim.lifecycle, key)
        return Change(key, "missing", missing.message, missing.code, more)
    fence = row.get(claim.form.fence_column)
    if not _is_held(claim, row):
        return Change(key, "free", f"nobody holds {claim} of {shown_key(key)}", ExitCode.OK, more)
    if dry_run:
        held_by = f"held by {more['holder'] or 'somebody'}"
        return Change(key, "would release", held_by, ExitCode.OK, more)
    held = Claim(key, claim, fence, by, 1, claim.held[0], 0.0, None, store.tenant)
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
    return Change(key, answer.outcome, str(answer), code, more)


def _is_held(claim: Claimable[Any], row: dict[str, Any]) -> bool:
    """Whether the row says that somebody has it; a text that is no marker is somebody's own."""
    mark = row.get(claim.form.cleared[-1])
    if isinstance(claim.form, TextMarker) and not str(mark).startswith(claim.form.prefix):
        return False
    return mark is not None and str(row.get(claim.lifecycle.column)) in claim.held
