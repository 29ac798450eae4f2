"""What must hold after a storm, by the tables in plain SQL and by what the simulated nodes and the submitter wrote down.

Nothing here asks the declaration of the lifecycle: the table of moves is the note's, written out by hand.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database
from appkit.storm import Report, percentile
from devices.simulator import Entry, Simulator

OPEN = {"QUEUED", "SENT", "ACK"}
NOTE = {
    "sent": ({"QUEUED", "SEND_FAILED"}, "SENT"),
    "ack": ({"QUEUED", "SENT"}, "ACK"),
    "done": (OPEN, "DONE"),
    "no_effect": (OPEN, "NO_EFFECT"),
    "failed": (OPEN, "ERROR"),
    "invalid": (OPEN, "INVALID"),
    "busy": (OPEN, "BUSY"),
    "timeout": (OPEN, "TIMEOUT"),
    "send_failed": ({"QUEUED"}, "SEND_FAILED"),
}
"""The note's moves: from where, and where to."""
PROMPT = 2.0
"""Seconds before a TIMEOUT in which a response may be stored without being seen."""


@dataclass
class Asked:
    """What the submitter wrote down about one command, by its own clock."""

    node: str
    channel: str
    stop: bool
    asked: float
    answered: float = 0.0


@dataclass
class Happened:
    """What a storm consisted of."""

    submitted: dict[str, Asked] = field(default_factory=dict)
    in_doubt: set[str] = field(default_factory=set)
    """Commands whose dispatcher was killed while it published, and whose node has booted since."""
    kills: int = 0
    blackouts: int = 0
    pauses: int = 0
    broker_restarts: int = 0
    broker_pauses: int = 0
    ended: bool = False


async def judge(report: Report, opened: Database, simulator: Simulator, happened: Happened) -> None:
    """Count, and check; each check names the commands that violate it."""
    log = simulator.log
    async with opened.read() as connection:
        rows = {row["cmd_id"]: dict(row) for row in await _rows(connection, "SELECT * FROM commands")}
        doubtful = {row["cmd_id"] for row in await _rows(connection, "SELECT cmd_id FROM doubts")}
        said = {
            (row["cmd_id"], row["status"]) for row in await _rows(connection, "SELECT cmd_id, status FROM evidence")
        }
        stored: dict[str, float] = {}
        for row in await _rows(connection, "SELECT body, received_at FROM responses"):
            answer = json.loads(bytes(row["body"]))
            if answer["status"] != "ACK":
                stored.setdefault(answer["cmd_id"], _moment(row["received_at"]))
        moves = await _rows(
            connection,
            "SELECT key, move, before, after, at FROM command_history"
            " WHERE lifecycle = 'Command' AND outcome = 'moved' ORDER BY id",
        )
    statuses = Counter(str(row["status"]) for row in rows.values())
    report.counts |= {f"ended at {status}": count for status, count in sorted(statuses.items())}
    report.counts["uncertain at some time"] = len(doubtful)
    report.counts["late answers of commands at TIMEOUT"] = _late(rows, log)
    waits = [(_moment(row["published_at"]) - _moment(row["made_at"])) for row in rows.values() if row["published_at"]]
    report.counts["p50 from submit to SENT"] = f"{percentile(waits, 0.5):.3f} s"
    report.counts["p99 from submit to SENT"] = f"{percentile(waits, 0.99):.3f} s"
    _check_enough(report, happened, statuses, log)
    _check_rows(report, happened, rows, moves)
    _check_timeouts(report, rows, stored)
    _check_nodes(report, happened, rows, doubtful, said, moves, log)


def _check_enough(report: Report, happened: Happened, statuses: Counter[str], log: list[Entry]) -> None:
    """A storm in which nothing happened proves nothing."""
    number = len(happened.submitted)
    for what, least, found in (
        ("kills", 3, happened.kills),
        ("blackouts", 1, happened.blackouts),
        ("pauses", 1, happened.pauses),
        ("broker restarts", 1, happened.broker_restarts),
        ("broker pauses", 1, happened.broker_pauses),
        ("commands DONE", number * 0.3, statuses["DONE"]),
        ("deliveries to nodes", number * 0.5, sum(one.kind == "taken" for one in log)),
        ("stops that arrived", 3, len({one.cmd_id for one in log if one.cmd_id.startswith("stop-")})),
        ("doubtful commands at nodes that have booted", 1, len(happened.in_doubt)),
    ):
        report.at_least(what, least, found)


def _check_rows(
    report: Report, happened: Happened, rows: dict[str, dict[str, Any]], moves: list[dict[str, Any]]
) -> None:
    lost = set(happened.submitted) ^ set(rows)
    report.check("every accepted command is kept, and no other", not lost, _some(lost), "accepted-kept")
    report.check(
        "every command ends",
        happened.ended,
        _some(key for key, row in rows.items() if row["status"] in OPEN),
        "all-end",
    )
    against = []
    last: dict[str, str] = {}
    for one in moves:
        sources, target = NOTE.get(one["move"], (set(), ""))
        if one["before"] not in sources or one["after"] != target or last.get(one["key"], "QUEUED") != one["before"]:
            against.append(f"{one['key']}: {one['move']} from {one['before']} to {one['after']}")
        last[one["key"]] = one["after"]
    against += [
        key
        for key, row in rows.items()
        if last.get(key, "QUEUED") != row["status"] and not key.startswith("contradicted-")
    ]
    report.check("every status moved as the note says", not against, _some(against), "note-transitions")


def _check_timeouts(report: Report, rows: dict[str, dict[str, Any]], stored: dict[str, float]) -> None:
    ignored = [
        key
        for key, row in rows.items()
        if row["status"] == "TIMEOUT" and key in stored and stored[key] + PROMPT < _moment(row["ended_at"])
    ]
    report.check("TIMEOUT only where no answer was stored", not ignored, _some(ignored), "timeouts-silent")
    contradicted = {key: row for key, row in rows.items() if key.startswith("contradicted-")}
    report.at_least("failed sends that their nodes contradict", 3, len(contradicted))
    kept = [key for key, row in contradicted.items() if not str(row["why"]).startswith("the node says")]
    report.check("an answer withdraws the permit of a failed send", not kept, _some(kept), "evidence-withdraws-permit")


def _check_nodes(
    report: Report,
    happened: Happened,
    rows: dict[str, dict[str, Any]],
    doubtful: set[str],
    said: set[tuple[str, str]],
    moves: list[dict[str, Any]],
    log: list[Entry],
) -> None:
    arrivals = _by_command(log, "arrived")
    taken = _by_command(log, "taken")
    unkept = {(one.cmd_id, one.status) for one in log if one.kind == "gave" and one.cmd_id in rows} - said
    report.check(
        "every response that the broker took is evidence",
        not unkept,
        _some(f"{cmd_id} {status}" for cmd_id, status in unkept),
        "responses-kept",
    )
    twice = {key for key, times in taken.items() if len(times) > 1} - doubtful
    report.check("executed twice only what is reported as uncertain", not twice, _some(twice), "executed-once")
    again = {key for key in happened.in_doubt if len(taken.get(key, ())) > 1}
    report.check(
        "a doubtful command is not sent to a node that has booted since",
        not again,
        _some(again),
        "no-resend-after-boot",
    )
    uncounted = [
        f"{key}: {len({one.ts for one in found})} of {rows[key]['publishes']}"
        for key, found in arrivals.items()
        if key in rows and len({one.ts for one in found}) > rows[key]["publishes"]
    ]
    report.check(
        "no more messages arrived than tries are counted",
        not uncounted,
        _some(uncounted),
        "publishes-counted",
    )
    done = {key for key, row in rows.items() if row["status"] == "DONE"} - set(taken)
    report.check("what is DONE was executed", not done, _some(done), "done-was-executed")
    failed = {one["key"]: _moment(one["at"]) for one in moves if one["move"] == "send_failed"}
    arrived = [
        key
        for key, at in failed.items()
        if key not in doubtful and any(one.ts + 1 < at and one.at < at for one in arrivals.get(key, ()))
    ]
    report.check("a send that is called failed did not arrive", not arrived, _some(arrived), "failed-did-not-arrive")
    report.check(*_stopped(happened, taken, arrivals))
    report.check(*_ordered(happened, taken))


def _by_command(log: list[Entry], kind: str) -> dict[str, list[Entry]]:
    """The entries of one kind by command, in their order; a command without any is not there."""
    found: dict[str, list[Entry]] = {}
    for one in log:
        if one.kind == kind:
            found.setdefault(one.cmd_id, []).append(one)
    return found


def _stopped(
    happened: Happened, taken: dict[str, list[Entry]], arrivals: dict[str, list[Entry]]
) -> tuple[str, bool, str, str]:
    """Nothing that was answered before a stop was asked for is begun after the stop has arrived."""
    wrong = []
    for stop, asked in happened.submitted.items():
        if not asked.stop or stop not in arrivals:
            continue
        at = arrivals[stop][0].at
        wrong += [
            f"{key} after {stop}"
            for key, other in happened.submitted.items()
            if (other.node, other.channel, other.stop) == (asked.node, asked.channel, False)
            and other.answered < asked.asked
            and key in taken
            and taken[key][0].at > at
        ]
    return "nothing that came before a stop is executed after it", not wrong, _some(wrong), "stop-clears"


def _ordered(happened: Happened, taken: dict[str, list[Entry]]) -> tuple[str, bool, str, str]:
    """Of two in a line, of which one was answered before the other was asked for, that one is executed first."""
    lines: dict[tuple[str, str], list[tuple[str, Asked]]] = defaultdict(list)
    for key, asked in happened.submitted.items():
        if key in taken and not asked.stop:
            lines[asked.node, asked.channel].append((key, asked))
    wrong = [
        f"{second} before {first}"
        for line in lines.values()
        for first, one in line
        for second, other in line
        if one.answered < other.asked and taken[second][0].at < taken[first][0].at
    ]
    return "commands of a channel are executed in their order", not wrong, _some(wrong), "order-per-line"


def _late(rows: dict[str, dict[str, Any]], log: list[Entry]) -> int:
    answered = {one.cmd_id for one in log if one.kind == "gave" and one.status != "ACK"}
    return sum(row["status"] == "TIMEOUT" and key in answered for key, row in rows.items())


def _some(found: Any) -> str:
    return ", ".join(sorted(map(str, found))[:5])


def _moment(value: Any) -> float:
    """Seconds since 1970; SQLite has text in UTC."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}+00:00")
    return moment.timestamp()


async def _rows(connection: AsyncConnection, statement: str) -> list[dict[str, Any]]:
    return [dict(row) for row in (await connection.execute(text(statement))).mappings()]


async def submit_to_sent(connection: AsyncConnection) -> list[float]:
    """Seconds that each command took until the broker had it."""
    rows = await _rows(connection, "SELECT made_at, published_at FROM commands WHERE published_at IS NOT NULL")
    return [_moment(row["published_at"]) - _moment(row["made_at"]) for row in rows]
