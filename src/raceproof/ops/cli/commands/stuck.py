"""`raceproof stuck`: work that needs an operator, since when, and the command that repairs it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from raceproof import Attempts, Delivery, Inbox, Store
from raceproof.declare import Claimable
from raceproof.kernel.errors import CallError
from raceproof.kernel.moment import moment
from raceproof.kernel.statement import reading
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_keyed, printable
from raceproof.ops.cli.repairs import RepairCommands
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import read_each
from raceproof.ops.cli.targets import find_targets, need_tenant
from raceproof.ops.doctor.work import NEXT_TRY
from raceproof.ops.sweep import overdue, spent_rows, unsearchable

_KINDS = (Claimable, Delivery, Attempts, Inbox)
_COLUMNS = ("target", "key", "why", "since", "repair")


class Stuck(NamedTuple):
    """One row or event that needs an operator, or the next claim."""

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
Exit code 6 if something is stuck, 7 if some targets could not be read."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(*_KINDS))
@shared_options("app", "url", "keys", limit=100, output=("table", "json", "jsonl", "ids"))
@click.pass_context
def stuck(context: click.Context, options: Options, names: tuple[str, ...]) -> None:
    """List stuck work, each with the command that repairs it.

    Finds rows with expired leases, rows out of attempts, deliveries with an unknown outcome, overdue attempts and dead
    events. Nothing is changed. TARGET is a lifecycle, a claim, a Delivery, an Attempts or an Inbox; without one,
    everything declared.
    """
    targets = find_targets(options.apps, names, *_KINDS)
    for target in targets:
        need_tenant(target.thing, options.tenant)
    unsearched: list[str] = []
    commands = RepairCommands(options.tenant, options.key_separator)

    def read(store: Store, target: Target[Any]) -> list[dict[str, Any]]:
        try:
            found = [one._asdict() for one in _stuck(store, target, options.limit, commands)]
            if len(found) >= options.limit:
                note = f"{target.name}: the first {options.limit:,} are listed; raise --limit for more"
                click.echo(printable(note), err=True)
            return found
        except CallError as error:  # Redis cannot be searched for everything
            unsearched.append(target.name)
            click.echo(printable(f"could not be read: {error}"), err=True)
            return []

    rows, code = read_each(options, targets, read)
    print_keyed(options, _COLUMNS, rows)
    if code != ExitCode.OK:
        context.exit(code)
    if rows:
        context.exit(ExitCode.PROBLEMS)
    if unsearched:
        note = f"nothing is stuck in the targets that could be read; unknown for {', '.join(unsearched)}"
        click.echo(printable(note), err=True)
    else:
        click.echo("nothing is stuck", err=True)


def _stuck(store: Store, target: Target[Any], limit: int, commands: RepairCommands) -> Iterator[Stuck]:
    match target.thing:
        case Claimable():
            yield from _claims(store, target, limit, commands)
        case Delivery():
            yield from _deliveries(store, target, limit, commands)
        case Attempts():
            yield from _attempts(store, target, limit, commands)
        case Inbox():
            yield from _events(store, target, limit, commands)


def _claims(store: Store, target: Target[Claimable[Any]], limit: int, commands: RepairCommands) -> Iterator[Stuck]:
    claim = target.thing
    spent = store.run(reading(spent_rows(store, claim, limit)))
    for row in spent:
        if claim.dead_letter is not None:
            why, repair = "out of attempts", commands.command("sweep", target, "--yes")
        else:
            why = "out of attempts, and its claim declares no dead_letter="
            repair = commands.move(target, _exits(claim, row.status), row.key)
        yield Stuck(target.name, row.key, why, row.since, row.status, None, repair)
    listed = {row.key for row in spent}
    for one in store.claims(claim, limit):
        if one.stale and one.key not in listed:
            yield Stuck(
                target.name,
                one.key,
                "its lease has expired; the next claim takes it",
                one.until.astimezone(UTC),
                one.status,
                one.holder,
                commands.command("claims", target, commands.key_option("--release", one.key), "--reason …"),
            )


def _exits(claim: Claimable[Any], status: str) -> list[str]:
    """The moves an operator can make instead."""
    ways = claim.lifecycle.moves_from.get(str(status), ())
    return [name for name in ways if claim.move is None or name != claim.move.name]


def _deliveries(store: Store, target: Target[Delivery], limit: int, commands: RepairCommands) -> Iterator[Stuck]:
    for one in store.deliveries(target.thing, limit, uncertain=True):
        # not with a | between them, which a shell would take for a pipe behind --arrived
        ended = (commands.key_option("--resolve", one.key), "# and --arrived or --not-arrived")
        yield Stuck(
            target.name,
            one.key,
            "its outcome is unknown" + NEXT_TRY[target.thing.policy],
            one.since,
            one.state,
            one.holder,
            commands.command("delivery", target, *ended),
        )


def _attempts(store: Store, target: Target[Attempts], limit: int, commands: RepairCommands) -> Iterator[Stuck]:
    found = target.thing
    spec = found.lifecycle
    if why := unsearchable(store, found):
        raise CallError(why)
    for parts in store.run(reading(overdue(store, found, limit))):
        own = parts[1:] if spec.tenant else parts
        key = own if len(own) > 1 else own[0]
        row = store.for_tenant(parts[0] if spec.tenant else None).read(spec, key) or {}
        began = row.get(found.started or "")
        repair = commands.command("sweep", target, "--yes")
        if found.expire is None:
            repair = f"declare expire= for it; the next attempt of {row.get(found.owner)} also ends it"
        since = None if began is None else moment(began)
        yield Stuck(target.name, key, "overdue", since, row.get(spec.column), None, repair)


def _events(store: Store, target: Target[Inbox], limit: int, commands: RepairCommands) -> Iterator[Stuck]:
    for source, event_id, status, _, received, holder, _ in store.inbox_events(target.thing, "dead", limit):
        repair = commands.command("inbox", target, commands.key_option("--revive", (source, event_id)))
        yield Stuck(target.name, (source, event_id), "dead", moment(received), status, holder, repair)
