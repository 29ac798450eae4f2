"""`raceproof stuck`: what does not go on by itself, since when, and the command that repairs it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from raceproof import Attempts, Delivery, Inbox, Store
from raceproof.declare import Claimable
from raceproof.kernel.errors import CallError
from raceproof.kernel.moment import moment
from raceproof.kernel.statement import reading
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.keys import written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, key_options, limit_option, output_option, url_option
from raceproof.ops.cli.output import print_rows, printable
from raceproof.ops.cli.pasting import Pasting
from raceproof.ops.cli.stores import look_at_each
from raceproof.ops.cli.things import Target, find_things, need_tenant
from raceproof.ops.sweep import overdue, spent_rows, unsearchable

_KINDS = (Claimable, Delivery, Attempts, Inbox)
_COLUMNS = ("target", "key", "why", "since", "repair")


class Stuck(NamedTuple):
    """One thing that does not go on."""

    target: str
    key: Any
    why: str
    since: datetime | None
    status: str | None
    holder: str | None
    repair: str


@click.command(
    epilog="""\b
Examples:
  raceproof stuck --app shop.models
  raceproof stuck --app shop.models Job.work -o jsonl | jq -r .repair

\b
Exit code 6 if something is stuck, 7 if some targets could not be looked at."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(*_KINDS))
@app_option
@url_option
@key_options
@limit_option(100)
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def stuck(
    context: click.Context,
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    limit: int,
    output: str,
) -> None:
    """List what does not go on by itself.

    Each with the command that repairs it; nothing is changed. Looked for are rows whose lease is over, rows that are
    out of attempts, deliveries whose end nobody knows, attempts whose time is over, and dead events. TARGET is a
    lifecycle, a claim, a Delivery, an Attempts or an Inbox; without one, all that are declared.
    """
    targets = find_things(apps, names, *_KINDS)
    for target in targets:
        need_tenant(target.thing, tenant)
    unseen: list[str] = []
    pasting = Pasting(tenant, key_separator)

    def look(store: Store, target: Target[Any]) -> list[dict[str, Any]]:
        try:
            found = [one._asdict() for one in _stuck(store, target, limit, pasting)]
            if len(found) >= limit:
                click.echo(printable(f"{target.name}: the first {limit:,} are listed; --limit lists more"), err=True)
            return found
        except CallError as error:  # Redis cannot be searched for everything
            unseen.append(target.name)
            click.echo(printable(f"not looked at: {error}"), err=True)
            return []

    rows, code = look_at_each(location, tenant, targets, look)
    if output == "table":
        rows = [{**row, "key": written_key(row["key"], key_separator)} for row in rows]
    print_rows(output, _COLUMNS, rows, {}, lambda row: written_key(row["key"], key_separator))
    if code != ExitCode.OK:
        context.exit(code)
    if rows:
        context.exit(ExitCode.PROBLEMS)
    if unseen:
        told = f"nothing is stuck as far as could be looked at; nobody knows about {', '.join(unseen)}"
        click.echo(printable(told), err=True)
    else:
        click.echo("nothing is stuck", err=True)


def _stuck(store: Store, target: Target[Any], limit: int, pasting: Pasting) -> Iterator[Stuck]:
    match target.thing:
        case Claimable():
            yield from _claims(store, target, limit, pasting)
        case Delivery():
            yield from _deliveries(store, target, limit, pasting)
        case Attempts():
            yield from _attempts(store, target, limit, pasting)
        case Inbox():
            yield from _events(store, target, limit, pasting)


def _claims(store: Store, target: Target[Claimable[Any]], limit: int, pasting: Pasting) -> Iterator[Stuck]:
    claim = target.thing
    spent = store.run(reading(spent_rows(store, claim, limit)))
    for row in spent:
        if claim.dead_letter is not None:
            why, repair = "out of attempts", pasting.command("sweep", target, "--yes")
        else:
            why = "out of attempts, and its claim has no way out for it"
            repair = pasting.move(target, _exits(claim, row.status), row.key)
        yield Stuck(target.name, row.key, why, row.since, row.status, None, repair)
    told = {row.key for row in spent}
    for one in store.claims(claim, limit):
        if one.stale and one.key not in told:
            yield Stuck(
                target.name,
                one.key,
                "the lease is over; the next claim takes it",
                one.until.astimezone(UTC),
                one.status,
                one.holder,
                pasting.command("claims", target, pasting.named("--release", one.key), "--reason …"),
            )


def _exits(claim: Claimable[Any], status: str) -> list[str]:
    """The moves that a person can make instead."""
    ways = claim.lifecycle.moves_from.get(str(status), ())
    return [name for name in ways if claim.move is None or name != claim.move.name]


def _deliveries(store: Store, target: Target[Delivery], limit: int, pasting: Pasting) -> Iterator[Stuck]:
    then = {"resend": "; the next try sends again", "probe": "; the next try asks first", "hold": ""}
    for one in store.deliveries(target.thing, limit, uncertain=True):
        # not with a | between them, which a shell would take for a pipe behind --arrived
        ended = (pasting.named("--resolve", one.key), "# and --arrived or --not-arrived")
        yield Stuck(
            target.name,
            one.key,
            "nobody knows whether it arrived" + then[target.thing.policy],
            one.since,
            one.state,
            one.holder,
            pasting.command("delivery", target, *ended),
        )


def _attempts(store: Store, target: Target[Attempts], limit: int, pasting: Pasting) -> Iterator[Stuck]:
    found = target.thing
    spec = found.lifecycle
    if why := unsearchable(store, found):
        raise CallError(why)
    for parts in store.run(reading(overdue(store, found, limit))):
        own = parts[1:] if spec.tenant else parts
        key = own if len(own) > 1 else own[0]
        row = store.for_tenant(parts[0] if spec.tenant else None).read(spec, key) or {}
        began = row.get(found.started or "")
        repair = pasting.command("sweep", target, "--yes")
        if found.expire is None:
            repair = f"declare expire= for it; the next attempt of {row.get(found.owner)} ends it too"
        since = None if began is None else moment(began)
        yield Stuck(target.name, key, "its time is over", since, row.get(spec.column), None, repair)


def _events(store: Store, target: Target[Inbox], limit: int, pasting: Pasting) -> Iterator[Stuck]:
    for source, event_id, status, _, received, holder, _ in store.inbox_events(target.thing, "dead", limit):
        repair = pasting.command("inbox", target, pasting.named("--revive", (source, event_id)))
        yield Stuck(target.name, (source, event_id), "dead", moment(received), status, holder, repair)
