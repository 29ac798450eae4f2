"""The pages of `raceproof top` as rows of cells. Values from a store are text, never markup."""

from datetime import datetime
from typing import Any, NamedTuple

from rich.text import Text

from raceproof.ops.doctor.finding import Problem
from raceproof.ops.top.watch import Look

_BAR = 24
_LONGEST = 60


class Page(NamedTuple):
    """A table: its columns, its rows, what to say when it is empty, and for each row what to do about it."""

    columns: tuple[str, ...]
    rows: list[list[Text]]
    empty: str
    repairs: tuple[str, ...] = ()


def plain(value: Any, style: str = "", longest: int = _LONGEST) -> Text:
    """A value as text: without control characters, and not longer than a cell should be."""
    text = "" if value is None else str(value)
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[: longest + 1])
    return Text(shown if len(shown) <= longest else shown[: longest - 1] + "…", style=style, no_wrap=True)


def age(since: datetime | None, now: datetime) -> str:
    """The time since a moment; negative until it."""
    if since is None:
        return ""
    seconds = (now - since).total_seconds()
    sign, seconds = ("-" if seconds <= -0.5 else "", abs(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{sign}{seconds / size:.1f}{unit}"
    return f"{sign}{seconds:.0f}s"


def lifecycles(look: Look, before: Look | None) -> Page:
    """Rows at each status, and how that has changed since the last look."""
    earlier = {(one.target, one.status): one.number for one in before.snapshot.states} if before else {}
    most = max((one.number for one in look.snapshot.states), default=0) or 1
    rows, last = [], ""
    for one in look.snapshot.states:
        if one.target in look.snapshot.inboxes:
            continue
        change = one.number - earlier.get((one.target, one.status), one.number)
        bar = "█" * round(_BAR * one.number / most) or ("▏" if one.number else "")
        rows.append(
            [
                plain(one.target if one.target != last else "", "bold"),
                plain(one.status, "dim" if one.ended else ""),
                Text(_number(one.number, one.more), justify="right"),
                Text(f"{change:+,d}" if change else "", "green" if change > 0 else "red", justify="right"),
                Text(bar, "dim" if one.ended else "cyan"),
                Text(age(one.oldest, look.snapshot.at), justify="right"),
            ]
        )
        last = one.target
    return Page(
        ("lifecycle", "status", "rows", "change", "", "oldest"),
        rows,
        "No lifecycle is declared: name a module that has some with --app.",
    )


def claims(look: Look) -> Page:
    """Held rows; expired leases first."""
    now = look.snapshot.at
    held = [(claim, one) for claim in look.snapshot.claims for one in claim.rows]
    held.sort(key=lambda pair: (not pair[1].stale, pair[1].until))
    rows = [
        [
            plain(f"{claim.target}.{claim.claim}", "bold"),
            plain(_key(one.key)),
            plain(one.holder or "-"),
            plain(one.fence, "dim"),
            plain(one.attempts),
            Text("expired " + age(one.until, now), "bold red")
            if one.stale
            else Text(age(one.until, now).removeprefix("-") + " left", "green"),
        ]
        for claim, one in held[:500]
    ]
    return Page(("claim", "key", "holder", "fence", "attempt", "lease"), rows, "No row is held: no worker is busy.")


def races(look: Look) -> Page:
    """The newest decisions; losers are red."""
    rows = [
        [
            plain(age(one.at, look.snapshot.at) or "0s"),
            Text("won" if one.won else "lost", "green" if one.won else "bold red"),
            plain(f"{one.lifecycle}.{one.move}", "bold"),
            plain(one.key),
            plain(one.outcome),
            plain(f"{one.before or '(new)'} → {one.after}"),
            plain(one.actor or "-"),
            plain(one.reason),
        ]
        for one in look.races
    ]
    empty = "No history yet. Declare history=History(losers=True) to record losers too."
    return Page(("ago", "", "move", "key", "outcome", "status", "who", "reason"), rows, empty)


def leaders(look: Look) -> Page:
    """The holder of each lease, its epoch, and the remaining time."""
    rows = []
    for name, (holder, epoch, until) in look.snapshot.leases.items():
        left = age(until, look.snapshot.at).removeprefix("-") if holder else ""
        held = plain(holder, "green") if holder else Text("(none)", "bold red")
        rows.append([plain(name, "bold"), held, plain(epoch, "dim"), plain(left)])
    return Page(("lease", "holder", "epoch", "left"), rows, "No lease is declared.")


def inboxes(look: Look) -> Page:
    """Events by status, and deliveries in progress."""
    now = look.snapshot.at
    rows = [
        [
            plain(one.target, "bold"),
            plain(one.status, "bold red" if one.status == "dead" and one.number else ""),
            Text(_number(one.number, one.more), justify="right"),
            Text(age(one.oldest, now), justify="right"),
        ]
        for one in look.snapshot.states
        if one.target in look.snapshot.inboxes
    ]
    for name, counts in look.snapshot.deliveries.items():
        rows += [
            [
                plain(name, "bold"),
                plain(state, "bold red" if state == "uncertain" and number else ""),
                Text(_number(number, name in look.snapshot.more_deliveries), justify="right"),
                Text(""),
            ]
            for state, number in counts.items()
        ]
    return Page(("inbox or delivery", "status", "number", "oldest"), rows, "No inbox and no delivery is declared.")


def stuck(look: Look) -> Page:
    """Stuck work; the repair of the selected row is shown below."""
    rows, repairs = [], []
    for problem in look.diagnosis.problems:
        for evidence in problem.evidence or ({},):
            rows.append(
                [
                    Text(problem.level, "bold red" if problem.level == "error" else "yellow"),
                    plain(problem.target, "bold"),
                    plain(_shown(evidence, look.snapshot.at), longest=44),
                    plain(problem.what, longest=90),
                ]
            )
            repairs.append(_repair(problem))
    return Page(("", "target", "row", "why"), rows, "Nothing is stuck.", tuple(repairs))


def _repair(problem: Problem) -> str:
    return problem.repair.text if problem.repair else ""


def _shown(evidence: Any, now: datetime) -> str:
    """The fields of a row in a line; a moment as how long ago."""
    values = {
        name: f"{age(value, now)} ago" if isinstance(value, datetime) else _key(value)
        for name, value in evidence.items()
        if value is not None
    }
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _key(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def summary(look: Look) -> str:
    """One line: rows held, decisions won and lost, and stuck rows."""
    held = _number(sum(one.held for one in look.snapshot.claims), any(one.more for one in look.snapshot.claims))
    stuck_rows = sum(len(one.evidence) or 1 for one in look.diagnosis.problems)
    stuck_more = any(one.more for one in look.diagnosis.problems)
    return f"{held} held · {_decided(look)} · {_number(stuck_rows, stuck_more)} stuck"


def _decided(look: Look) -> str:
    """The newest recorded decisions, and the time they span."""
    if not look.races:
        return "no decisions recorded"
    lost = sum(not one.won for one in look.races)
    since = age(min(one.at for one in look.races), look.snapshot.at).removeprefix("-")
    return f"{len(look.races) - lost:,} won, {lost:,} lost in the last {since}"


def _number(number: int, more: bool) -> str:
    """A count, as all of them are shown; one that ended at a bound has a plus."""
    return f"{number:,}{'+' * more}"
