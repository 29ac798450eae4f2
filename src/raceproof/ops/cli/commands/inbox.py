"""`raceproof inbox`: how many events wait, which are dead, and reviving dead ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from raceproof import Inbox, Lifecycle, Store
from raceproof.declare import Move
from raceproof.kernel.moment import moment
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.changes import Change, change_rows, confirm, move_rows, preview_moves
from raceproof.ops.cli.exits import ExitCode
from raceproof.ops.cli.keys import Key, parse_keys
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_rows
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_target, find_targets

_EVENT = ("source", "event_id", "status", "attempts", "received", "holder", "size")
_STYLES = {"dead": "bold red", "moved": "green", "would move": "green", "refused": "red", "missing": "red"}


@click.command(
    epilog="""\b
Examples:
  raceproof inbox
  raceproof inbox --app shop.models events --dead
  raceproof inbox --app shop.models events --dead -o ids | raceproof inbox --app shop.models events --revive - --yes

\b
Exit codes of --revive are those of `raceproof move`."""
)
@click.argument("name", metavar="[TARGET]", required=False, shell_complete=complete_target(Inbox))
@shared_options("app", "url", "by", "write", limit=100, output=("table", "json", "jsonl", "ids"))
@click.option("--dead", is_flag=True, help="List the dead events: those out of attempts.")
@click.option("--revive", "keys", metavar="SOURCE,ID", multiple=True, help="Let a dead event be processed again.")
@click.option("--key-separator", default=",", show_default=True, help="Separates source and id.")
@click.option("--reason", help="Why, for the history of the event.")
@click.pass_context
def inbox(
    context: click.Context, options: Options, name: str | None, dead: bool, keys: tuple[str, ...], reason: str | None
) -> None:
    """Count, list and revive the events of an inbox.

    Events are counted by status, with the time of the oldest. TARGET is an Inbox declared in a module; without one, the
    only declared inbox or the default table. A revived event starts over with all its attempts. --revive - reads keys
    from stdin, one per line.
    """
    box = _find(options, name).thing
    if dead and keys:
        raise click.UsageError("--dead lists and --revive changes: use one of them.")
    if keys:
        wanted = parse_keys(box.lifecycle, keys, options.key_separator)
        confirm(options, f"Revive {len(wanted)} events of {box} in {options.location}?")

        def change(store: Store) -> Iterator[Change]:
            return _revived(store, box, wanted, options, reason)

        context.exit(change_rows(options, wanted, change, ("key", "outcome", "status"), _STYLES))
    with open_store(options) as store:
        if dead:
            found = [dict(zip(_EVENT, row, strict=True)) for row in store.inbox_events(box, "dead", options.limit)]
            events = [{**event, "received": moment(event["received"])} for event in found]
            separator = options.key_separator
            print_rows(
                options.output, _EVENT, events, _STYLES, lambda row: separator.join((row["source"], row["event_id"]))
            )
            return
        counts = [
            {"status": status, "events": number, "oldest": None if oldest is None else moment(oldest)}
            for status, number, oldest in store.inbox_counts(box)
        ]
    print_rows(options.output, ("status", "events", "oldest"), counts, _STYLES, lambda row: str(row["status"]))
    if not counts:
        click.echo(f"{box} is empty", err=True)


def _find(options: Options, name: str | None) -> Target[Inbox]:
    if name is not None:
        return find_target(options.apps, name, Inbox)
    declared: list[Target[Inbox]] = find_targets(options.apps, (), Inbox) if options.apps else []
    if len(declared) > 1:
        listed = ", ".join(target.name for target in declared)
        raise click.UsageError(f"several inboxes are declared: name one of {listed}.")
    return declared[0] if declared else Target("", "inbox", Inbox())


def _revived(store: Store, box: Inbox, keys: Sequence[Key], options: Options, reason: str | None) -> Iterator[Change]:
    move = _revive_move(box)
    if options.dry_run:
        yield from preview_moves(store, move, keys)
        return
    changes = list(move_rows(store, move, keys, {"attempts": 0}, options.actor, reason))
    if received := [one.key for one in changes if one.code == ExitCode.OK]:
        store.offer(box.work, received)
    yield from changes


def _revive_move(box: Inbox) -> Move[Any]:
    """The move `revive`, which also resets the attempts: with the old count the event would be dead again at once."""
    declared = box.lifecycle.moves["revive"]
    if "attempts" in declared.sets:
        return declared
    data = box.lifecycle.to_dict()
    data["moves"]["revive"]["sets"] = [*declared.sets, "attempts"]
    return Lifecycle.from_dict(data).moves["revive"]
