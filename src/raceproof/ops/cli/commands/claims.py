"""`raceproof claims`: who holds which rows and until when, and releasing a row whose holder hangs."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import click

from raceproof import Claim, Store
from raceproof.claims import TextMarker
from raceproof.declare import Claimable
from raceproof.kernel.shown import shown_key
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.changes import Change, change_rows, code_of, confirm, rows_of
from raceproof.ops.cli.commands.show import no_such_row
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.keys import parse_keys
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_keyed
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import read_each
from raceproof.ops.cli.targets import find_target, find_targets, need_tenant

_COLUMNS = ("claim", "key", "holder", "status", "attempts", "until", "lease")
_STYLES = {"expired": "bold red", "held": "green", "released": "green", "would release": "green", "lost": "red"}


@click.command(
    epilog="""\b
Examples:
  raceproof claims --app shop.models
  raceproof claims --app shop.models Job.work --stale -o ids
  raceproof claims --app shop.models Job.work --release 1042 --reason "the worker hangs"
  raceproof claims --app shop.models Job.work --stale -o ids |
    raceproof claims --app shop.models Job.work --release - --reason "its host is gone" --yes

\b
Exit code of --release: 0 if the row is free now, 3 if it was claimed again in the meantime, 4 if there is no such
row, 7 if some of several rows were released and some were not. Without it: 7 if some targets could not be read."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(Claimable))
@shared_options("app", "url", "keys", "by", "write", limit=100, output=("table", "json", "jsonl", "ids"))
@click.option("--stale", is_flag=True, help="Only claims whose lease has expired.")
@click.option(
    "--release", "keys", metavar="KEY", multiple=True, help="Release this row; later writes of its holder are refused."
)
@click.option("--reason", help="Why it is released, for the history.")
@click.pass_context
def claims(
    context: click.Context,
    options: Options,
    names: tuple[str, ...],
    stale: bool,
    keys: tuple[str, ...],
    reason: str | None,
) -> None:
    """List who holds which rows, and until when, oldest first.

    TARGET is a claim, such as Job.work, or a lifecycle with all its claims; without one, all declared claims. A row whose
    lease has expired is free: the next claim takes it. With --release a row is released at once, and its attempt does not
    count; --release - reads keys from stdin, one per line.
    """
    if keys:
        context.exit(_release(options, names, keys, reason))
    targets: list[Target[Claimable[Any]]] = find_targets(options.apps, names, Claimable)
    for one in targets:
        need_tenant(one.thing, options.tenant)
    rows, code = read_each(options, targets, lambda store, one: _held(store, one, options.limit, stale))
    print_keyed(options, _COLUMNS, rows, _STYLES)
    if not rows:
        nothing = "no lease has expired" if stale else "no row is held"
        click.echo(nothing if code == ExitCode.OK else f"{nothing} in the targets that could be read", err=True)
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
            "lease": "expired" if one.stale else "held",
            "stale": one.stale,
        }
        for one in store.claims(target.thing, limit)
        if one.stale or not stale
    ]


def _release(options: Options, names: tuple[str, ...], keys: tuple[str, ...], reason: str | None) -> ExitCode:
    if len(names) != 1 or not reason:
        raise click.UsageError("--release needs exactly one TARGET, and a --reason for the history.")
    target = find_target(options.apps, names[0], Claimable)
    need_tenant(target.thing, options.tenant)
    wanted = parse_keys(target.thing.lifecycle, keys, options.key_separator)
    confirm(options, f"Release {target.name} of {rows_of(wanted, options.key_separator)} in {options.location}?")

    def change(store: Store) -> Iterator[Change]:
        return (_released(store, target.thing, key, options, reason) for key in wanted)

    return change_rows(options, wanted, change, ("claim", "key", "outcome", "holder"), _STYLES)


def _released(store: Store, claim: Claimable[Any], key: Any, options: Options, reason: str) -> Change:
    """Release a row on behalf of its holder, with the fence that the row has now."""
    row = store.read(claim.lifecycle, key)
    holder = row and row.get(getattr(claim.form, "holder", "") or "")
    more = {"claim": str(claim), "holder": holder}
    if row is None:
        missing = no_such_row(claim.lifecycle, key)
        return Change(key, "missing", missing.code, missing.message, more)
    if not _is_held(claim, row):
        return Change(key, "free", ExitCode.OK, f"{claim} of {shown_key(key)} is not held", more)
    if options.dry_run:
        return Change(key, "would release", ExitCode.OK, f"held by {holder or 'an unnamed holder'}", more)
    fence = row.get(claim.form.fence_column)
    held = Claim(key, claim, fence, options.actor, 1, claim.held[0], 0.0, None, store.tenant)
    (answer,) = store.release(held, reason=reason)
    return Change(key, answer.outcome, code_of(answer), str(answer), more)


def _is_held(claim: Claimable[Any], row: dict[str, Any]) -> bool:
    """Whether the columns of the row name a holder; a text without the marker's prefix is the user's own."""
    mark = row.get(claim.form.cleared[-1])
    if isinstance(claim.form, TextMarker) and not str(mark).startswith(claim.form.prefix):
        return False
    return mark is not None and str(row.get(claim.lifecycle.column)) in claim.held
