"""What must hold after a storm, judged without the code under test: plain reads of the stores, a transition table written by
hand, the crowd's own notes, and what the simulated Telegram counted itself.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis
from sqlalchemy import text

from appkit.database import Database
from appkit.storm import Report
from qrlogin.simulated import SimulatedTelegram
from qrlogin.tl import StringSession

STEPS = {
    ("", "pending"),
    ("pending", "qr_rendered"),
    ("qr_rendered", "scanned"),
    ("scanned", "authorized"),
    ("authorized", "session_saved"),
    ("session_saved", "done"),
    ("pending", "expired"),
    ("qr_rendered", "expired"),
    *((before, "failed") for before in ("pending", "qr_rendered", "scanned", "authorized", "session_saved")),
    *((before, "superseded") for before in ("pending", "qr_rendered", "scanned", "authorized", "session_saved")),
}
"""By hand, from the note."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of an attempt's history."""

    outcome: str
    before: str
    after: str
    actor: str


@dataclass
class Attempt:
    """An attempt as the store has it."""

    name: str
    row: dict[str, str]
    history: list[Entry] = field(default_factory=list)

    @property
    def status(self) -> str:
        return self.row.get("status", "")

    @property
    def was_saved(self) -> bool:
        return bool(self.row.get("saved_at"))

    def wrong_steps(self) -> list[str]:
        """Changes of its status that the table does not have, or that do not follow from the one before."""
        at, wrong = "", []
        for one in self.history:
            if one.outcome not in ("moved", "started"):
                continue
            if (one.before, one.after) not in STEPS or one.before != at:
                wrong.append(f"{self.name}: {one.before or 'nothing'} to {one.after} when it was at {at}")
            at = one.after
        if at != self.status:
            wrong.append(f"{self.name} is at {self.status}, and its history ends at {at}")
        return wrong

    def strangers(self) -> list[str]:
        """Moves by an ingest process that did not hold the attempt then."""
        holder, wrong = "", []
        for one in self.history:
            if one.outcome == "claimed":
                holder = one.actor
            elif one.outcome == "moved" and one.actor.startswith("ingest-") and one.actor != holder:
                wrong.append(f"{self.name}: {one.actor} moved it to {one.after} while {holder} held it")
        return wrong

    def late(self) -> int:
        """Writes that were refused because the writer had lost its claim."""
        return sum(one.outcome == "lost" for one in self.history)


async def read_attempts(names: Iterable[str], client: "Redis | None", database: Database) -> list[Attempt]:
    """All attempts, by plain reads of Redis, or of the database without it."""
    found = []
    for name in names:
        if client is None:
            found.append(await _read_sql(database, name))
            continue
        row: Any = await client.hgetall(f"tg:qr:session:{name}")
        found.append(Attempt(name, row, await read_history(client, name)))
    return found


async def read_history(client: "Redis", name: str) -> list[Entry]:
    """The oldest first."""
    found: Any = await client.xrange(f"tg:qr:session/history:{name}")
    return [_entry(fields) for _, fields in found]


def _entry(fields: Any) -> Entry:
    return Entry(fields["outcome"], fields["before"] or "", fields["after"], fields["actor"] or "")


async def _read_sql(database: Database, name: str) -> Attempt:
    asked = 'SELECT * FROM "tg:qr:session" WHERE session_id = :name'
    history = "SELECT outcome, before, after, actor FROM qr_history WHERE key = :name ORDER BY id"
    async with database.read() as connection:
        row = (await connection.execute(text(asked), {"name": name})).mappings().first()
        entries = [_entry(one) for one in (await connection.execute(text(history), {"name": name})).mappings()]
    return Attempt(name, {key: str(value) for key, value in (row or {}).items() if value is not None}, entries)


def judge_attempts(report: Report, attempts: list[Attempt], claims_recorded: bool) -> None:
    """The history of each attempt, step by step."""
    wrong = [one for attempt in attempts for one in attempt.wrong_steps()]
    report.check(
        "every change of a status is one of the note's, and nothing changes after the end",
        not wrong,
        "; ".join(wrong[:3]),
        "only-declared-steps",
    )
    if claims_recorded:
        strangers = [one for attempt in attempts for one in attempt.strangers()]
        report.check(
            "only the process that holds an attempt moves it",
            not strangers,
            "; ".join(strangers[:3]),
            "only-the-holder-writes",
        )


def judge_ends(report: Report, attempts: list[Attempt], seen: dict[str, str], cancelled: set[str]) -> None:
    """What users were told in the end is true, and stays."""
    changed = [
        f"{one.name} is {one.status}, and its user saw {seen[one.name]}"
        for one in attempts
        if one.name in seen and one.status != seen[one.name]
    ]
    report.check("an attempt that has ended stays as it is", not changed, "; ".join(changed[:3]), "ended-stays-ended")
    untrue = [
        f"{one.name} is {one.status}, saved: {one.was_saved}"
        for one in attempts
        if one.name in cancelled and (one.status != "failed" or one.was_saved)
    ]
    report.check("a cancel that was confirmed is true", not untrue, "; ".join(untrue[:3]), "confirmed-cancels-are-true")


def judge_sessions(report: Report, attempts: list[Attempt], rows: list[dict[str, Any]], cancelled: set[str]) -> None:
    """The rows of saved sessions, by plain SQL, beside the attempts that made them."""
    by_name = {one.name: one for one in attempts}
    counted = Counter(row["session_id"] for row in rows)
    done = {one.name for one in attempts if one.status == "done"}
    missing = [name for name in done if counted[name] != 1]
    report.check(
        "a session was saved for every attempt that is done, exactly once",
        not missing,
        "; ".join(missing[:3]),
        "done-means-saved-once",
    )
    undecided = [name for name in counted if name in cancelled or name not in by_name or not by_name[name].was_saved]
    report.check(
        "no session was saved without the decision of its attempt",
        not undecided,
        "; ".join(undecided[:3]),
        "no-session-without-decision",
    )
    foreign = [f"{row['session_id']} has {row['account_id']}" for row in rows if row["account_id"] != row["user_id"]]
    report.check("no session of another account was saved", not foreign, "; ".join(foreign[:3]), "only-own-accounts")
    several = [
        user
        for user, number in Counter(row["user_id"] for row in rows if row["status"] == "current").items()
        if number > 1
    ]
    report.check("no user has two current sessions", not several, "; ".join(several[:3]), "one-current-session")


def judge_telegram(
    report: Report,
    telegram: SimulatedTelegram,
    current: dict[str, str | None],
    users: set[str],
    refused: dict[str, int],
    kills: int,
) -> None:
    """What Telegram itself has: a device for each user's session, and none for other accounts that were refused."""
    broken = [user for user in users if not _works(telegram, user, current.get(user))]
    report.check(
        "every user has a current session, of the own account, that works at Telegram",
        not broken,
        f"{len(broken)} do not: {'; '.join(broken[:3])}" if broken else "",
        "sessions-work-at-telegram",
    )
    there = set(telegram.logged_in())
    left = [name for name, account in refused.items() if account in there]
    report.check(
        "another account that was refused is logged out again, but for one at each kill",
        len(left) <= kills,
        f"{len(left)} of {len(refused)} are left, {kills} kills: {'; '.join(left[:3])}",
        "logged-out-in-vain",
    )


def _works(telegram: SimulatedTelegram, user: str, session: str | None) -> bool:
    if session is None:
        return False
    device = telegram.devices.get(int.from_bytes(StringSession(session).auth_key.key[:8], "big"))
    return device is not None and device.authorized and str(getattr(device.account, "id", "")) == user
