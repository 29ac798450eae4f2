"""One command that went wrong, beside the same command on the guarded side."""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from raceproof import bind
from raceproof.moves import HistoryEntry
from raceproof.ops.demo.audit import ENDS, Auditor, Write, Wrong
from raceproof.ops.demo.commands import Command, Status
from raceproof.ops.demo.sides import UNGUARDED

_TELLING = (Wrong.LOST, Wrong.BACKWARDS, Wrong.UNDECLARED, Wrong.DOUBLE)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a command's story."""

    milliseconds: int
    actor: str
    what: str
    remark: str = ""
    wrong: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """A command and what happened to it on both sides."""

    cmd_id: str
    after: str
    """The status that was written wrongly."""
    unguarded: tuple[Step, ...]
    guarded: tuple[Step, ...]
    moral: str


def choose(connection: sqlite3.Connection) -> Example | None:
    """The most telling command: one where the very write that went wrong was refused on the other side."""
    auditor = Auditor(connection)
    store = bind(connection)

    def stories(write: Write) -> tuple[list[Write], list[HistoryEntry]]:
        return auditor.of_command(UNGUARDED, write.cmd_id), store.history(Command, write.cmd_id)[::-1]

    def rank(write: Write) -> tuple[int, ...]:
        story, entries = stories(write)
        return (
            not any(entry.outcome == "refused" and entry.after == write.after for entry in entries),
            _first_end(story) in (None, story[-1].after),
            _TELLING.index(write.wrong or Wrong.DOUBLE),
            sum(one.wrong is not None for one in story),
            write.after != Status.SENT,
            abs(len(story) + len(entries) - 8),
        )

    wrong = auditor.wrong_writes(UNGUARDED)
    if not wrong:
        return None
    write = min(wrong, key=rank)
    story, entries = stories(write)
    return Example(write.cmd_id, write.after, _unguarded(story), _guarded(entries), _moral(story))


def _first_end(story: list[Write]) -> str | None:
    return next((write.after for write in story if write.after in ENDS), None)


def _moral(story: list[Write]) -> str:
    first, last = _first_end(story), story[-1].after
    if first in (None, last):
        return ""
    return f"It had ended as {first}; without a guard, the table now says {last}."


def _unguarded(story: list[Write]) -> tuple[Step, ...]:
    start = _moment(story[0].at)
    return tuple(
        Step(
            _milliseconds(_moment(write.at) - start),
            write.actor,
            f"{write.before} → {write.after}",
            write.wrong.value if write.wrong else "",
            wrong=write.wrong is not None,
        )
        for write in story
    )


def _guarded(entries: list[HistoryEntry]) -> tuple[Step, ...]:
    steps = []
    for entry in entries:
        passed = _milliseconds(entry.at - entries[0].at)
        actor = entry.actor or ""
        if entry.outcome == "moved":
            steps.append(Step(passed, actor, f"{entry.before} → {entry.after}"))
        else:
            refused = entry.outcome == "refused"
            remark = f"{entry.after} {entry.outcome}"
            steps.append(Step(passed, actor, f"stays {entry.before}", remark, refused=refused))
    return tuple(steps)


def _moment(at: str) -> datetime:
    return datetime.fromisoformat(at).replace(tzinfo=UTC)


def _milliseconds(passed: timedelta) -> int:
    return round(passed.total_seconds() * 1000)
