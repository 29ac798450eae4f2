"""A user begins a login, then another one in a second tab. The first one comes through late and saves its session."""

import asyncio
from enum import StrEnum
from typing import Any

from raceproof import Attempts, Lifecycle, move
from raceproof.declare import History
from showcase.twins.scenario import Code, Scenario


class Status(StrEnum):
    OPEN = "open"
    DONE = "done"
    SUPERSEDED = "superseded"


class Attempt(Lifecycle[Status], table="attempts", key="attempt_id", history=History(losers=True)):
    """One try of a user to log in."""

    finish = move(Status.OPEN, to=Status.DONE)
    supersede = move(Status.OPEN, to=Status.SUPERSEDED, stamp="superseded_at", sets="superseded_by")


attempts = Attempts(Attempt, owner="user_id", supersede=Attempt.supersede, link="superseded_by", started="started_at")

SAVE = "INSERT OR REPLACE INTO sessions (user_id, attempt_id) VALUES (?, ?)"


class Unguarded(Code):
    """Close the open ones, begin a new one; when it was accepted and is still open, save the session."""

    async def hear(self, told: dict[str, Any]) -> None:
        user, key = told["user"], told["key"]
        await self._desk.sql("UPDATE attempts SET status = 'superseded' WHERE user_id = ? AND status = 'open'", user)
        await self._desk.sql("INSERT INTO attempts (attempt_id, user_id) VALUES (?, ?)", key, user)
        [[status]] = await self._desk.sql("SELECT status FROM attempts WHERE attempt_id = ?", key)
        await asyncio.sleep(told["seconds"])  # the phone scans, Telegram answers
        if status == "open":
            await self._desk.sql("UPDATE attempts SET status = 'done' WHERE attempt_id = ?", key)
            await self._desk.sql(SAVE, user, key)


class Guarded(Code):
    """A new attempt ends the open one in the same write; the session is saved with the move, or not at all."""

    async def hear(self, told: dict[str, Any]) -> None:
        user, key = told["user"], told["key"]
        await self._desk.db.start_attempt(attempts, user, key, by=self._desk.me)
        await asyncio.sleep(told["seconds"])  # the phone scans, Telegram answers

        def save(db: Any, connection: Any) -> Any:
            answer = db.move(Attempt.finish, key, by=self._desk.me)
            if answer.won:
                connection.execute(SAVE, (user, key))
            return answer

        answer = await self._desk.transaction(save)
        if not answer.won:
            await self._desk.held_off("logins", key, answer)


LOGINS = Scenario(
    name="logins",
    title="An old login wins over the new one",
    story="A user begins a second login while the first is under way. The first one comes through late and saves its"
    " session over the new one.",
    app="qrlogin",
    unguarded=Unguarded,
    guarded=Guarded,
    done=("sessions saved", "SELECT count(DISTINCT attempt_id) FROM seen_sessions"),
    wrong={
        "saved by an old attempt": "SELECT count(*) FROM seen_sessions WHERE stale",
        "two open attempts": """
            SELECT count(*) FROM (SELECT 1 FROM attempts WHERE status = 'open'
                                  GROUP BY user_id HAVING count(*) > 1)
        """,
    },
    held_off="old attempts refused",
)
