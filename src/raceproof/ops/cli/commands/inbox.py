"""`raceproof inbox`: how many events wait, which are dead, and giving a dead one another chance."""

from collections.abc import Sequence
from typing import Any

import click

from raceproof import Inbox, Lifecycle, Store
from raceproof.declare import Move
from raceproof.kernel.moment import moment
from raceproof.ops.cli.changes import by_option, confirm, login_name, write_options
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode
from raceproof.ops.cli.keys import Key, parse_keys, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.moving import Line, exit_code, foresee_rows, move_rows
from raceproof.ops.cli.options import app_option, debug_option, limit_option, output_option, url_option
from raceproof.ops.cli.output import print_rows, printable
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import Target, find_thing, find_things

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
@click.argument("name", metavar="[TARGET]", required=False, shell_complete=complete_thing(Inbox))
@app_option
@url_option
@click.option("--dead", is_flag=True, help="List the events that have used up their attempts.")
@click.option("--revive", "keys", metavar="SOURCE,ID", multiple=True, help="Let a dead event be tried again.")
@click.option("--key-separator", default=",", show_default=True, help="Between source and id.")
@limit_option(100)
@by_option
@click.option("--reason", help="Why, for the event's history.")
@write_options
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def inbox(
    context: click.Context,
    name: str | None,
    apps: tuple[str, ...],
    location: Location | None,
    dead: bool,
    keys: tuple[str, ...],
    key_separator: str,
    limit: int,
    by: str | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Count, list and revive the events of an inbox.

    They are counted by their status, with the time of the oldest. TARGET is an Inbox that a module declares; without
    one it is the only one there is, or the usual table. A revived event begins again with all its attempts. A --revive
    of - reads keys from stdin, one on a line.
    """
    box = _find(apps, name).thing
    if dead and keys:
        raise click.UsageError("--dead lists and --revive changes: say one of them.")
    if keys:
        wanted = parse_keys(box.lifecycle, keys, key_separator)
        if not (dry_run or yes):
            confirm(f"Revive {len(wanted)} events of {box} in {location}?")
        with open_store(location) as store:
            lines = _revived(store, box, wanted, by or login_name(), reason, dry_run)
        rows = [line.data() for line in lines]
        if output == "table":
            rows = [{**row, "key": written_key(row["key"], key_separator)} for row in rows]
        print_rows(
            output,
            ("key", "outcome", "status"),
            [row for row, line in zip(rows, lines, strict=True) if output != "ids" or line.moves],
            _STYLES,
            lambda row: written_key(row["key"], key_separator),
        )
        for line in lines:
            if line.code != ExitCode.OK:
                click.echo(printable(line.message), err=True)
        context.exit(exit_code(lines))
    with open_store(location) as store:
        if dead:
            found = [dict(zip(_EVENT, row, strict=True)) for row in store.inbox_events(box, "dead", limit)]
            for event in found:
                event["received"] = moment(event["received"])
            print_rows(output, _EVENT, found, _STYLES, lambda row: key_separator.join((row["source"], row["event_id"])))
            return
        counts = [
            {"status": status, "events": number, "oldest": None if oldest is None else moment(oldest)}
            for status, number, oldest in store.inbox_counts(box)
        ]
    print_rows(output, ("status", "events", "oldest"), counts, _STYLES, lambda row: str(row["status"]))
    if not counts:
        click.echo(f"{box} is empty", err=True)


def _find(apps: tuple[str, ...], name: str | None) -> Target[Inbox]:
    if name is not None:
        return find_thing(apps, name, Inbox)
    declared: list[Target[Inbox]] = find_things(apps, (), Inbox) if apps else []
    if len(declared) > 1:
        listed = ", ".join(target.name for target in declared)
        raise click.UsageError(f"which inbox? There are {listed}.")
    return declared[0] if declared else Target("", "inbox", Inbox())


def _revived(store: Store, box: Inbox, keys: Sequence[Key], by: str, reason: str | None, dry_run: bool) -> list[Line]:
    move = _reviving(box)
    if dry_run:
        return list(foresee_rows(store, move, keys))
    lines = list(move_rows(store, move, keys, {"attempts": 0}, by, reason))
    back = [key for key, line in zip(keys, lines, strict=False) if line.code == ExitCode.OK]
    if back:
        store.offer(box.work, back)
    return lines


def _reviving(box: Inbox) -> Move[Any]:
    """The move `revive`, which also counts the attempts anew: with the old count the event would be dead again at once."""
    declared = box.lifecycle.moves["revive"]
    if "attempts" in declared.sets:
        return declared
    data = box.lifecycle.to_dict()
    data["moves"]["revive"]["sets"] = [*declared.sets, "attempts"]
    return Lifecycle.from_dict(data).moves["revive"]
