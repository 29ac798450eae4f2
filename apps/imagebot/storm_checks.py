"""What must hold after a storm, by evidence that the code under test has not made up.

Telegram's own log says which instance put what into which chat, and when; KIE's says which tasks were made. The amounts are
added up by hand from the price and the welcome that the storm has set. The moves of a job are compared with a table that was
written by hand, not with the declaration.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import text

from appkit.storm import Report, percentile
from imagebot.measure.ground import Ground
from imagebot.simulators.robots import BURST, IN_A_HURRY

FROZEN = 70_000
"""Users from here on order pictures whose sender is frozen; with `resend` they may get one twice."""
PRICE, WELCOME = 500, 1000
"""As `measure.ground` sets them."""

MOVES = {
    "confirming": {"queued", "cancelled"},
    "queued": {"creating", "generating", "failed"},
    "creating": {"queued", "generating", "create_unknown", "failed"},
    "create_unknown": {"generating", "failed", "refunded"},
    "generating": {"ready", "failed"},
    "ready": {"delivered", "uncertain", "blocked", "expired", "refunded"},
    "uncertain": {"delivered", "ready", "refunded"},
    "delivered": {"refunded"},
}
"""From where to where a job may go; written by hand."""
GIVEN_BACK = {"failed", "blocked", "expired", "refunded"}

_NUMBER = re.compile(r"#(j\d+)$")
_LINE = re.compile(
    r"^(?P<at>[\d-]{10} [\d:]{8},\d{3}) .*\[(?P<corr>(?P<job>j\d+)/\S+)\] \[(?P<tag>[A-Z_]+)\]", re.MULTILINE
)
_BURST = re.compile(r"burst (\d+)")


@dataclass(frozen=True)
class Evidence:
    """What was found when the storm was over."""

    stats: dict[str, Any]
    """Of the simulated Telegram."""
    tasks: dict[str, Any]
    """Of the simulated KIE."""
    logs: str
    """Of all instances."""
    updates: dict[int, str]
    jobs: list[Any]
    balances: list[Any]
    ledger: list[Any]
    history: list[Any]


async def evidence(made: Ground) -> Evidence:
    """Read it, with SQL that knows nothing of the application."""
    stats = await made.get(f"{made.telegram}/control/stats?full")
    tasks = await made.get(f"{made.kie}/control/tasks")
    async with made.opened() as database, database.transaction() as (connection, _):

        async def rows(statement: str) -> list[Any]:
            return list((await connection.execute(text(statement))).mappings())

        return Evidence(
            stats,
            tasks,
            "".join(one.log for one in made.instances),
            {
                int(row["event_id"]): row["status"]
                for row in await rows("SELECT event_id, status FROM telegram_updates")
            },
            await rows("SELECT job_id, status, user_id FROM generation_jobs WHERE confirmed_at IS NOT NULL"),
            await rows("SELECT user_id, balance, held FROM user_balances"),
            await rows("SELECT user_id, kind, amount, held, job_id FROM transactions"),
            await rows('SELECT "key", outcome, "before", "after" FROM job_history ORDER BY id'),
        )


def judge(found: Evidence, report: Report, generations: int) -> None:
    """All of it."""
    _updates(found, report)
    _pictures(found, report, generations)
    _money(found, report)
    _marks(found, report)
    _order(found, report)
    _roles(found, report)
    _moves(found, report)


def job_of(caption: str) -> str:
    """The job that a picture belongs to."""
    number = _NUMBER.search(caption)
    return number.group(1) if number else "?"


def none(report: Report, name: str, what: str, wrong: Iterable[Any], of: int) -> None:
    """Nothing of this kind; the first of them are named."""
    listed = list(wrong)
    detail = f"{len(listed)} of {of}: {', '.join(map(str, listed[:5]))}" if listed else f"0 of {of}"
    report.check(what, not listed, detail, name)


def _updates(found: Evidence, report: Report) -> None:
    accepted = set(found.stats["accepted_ids"])
    report.counts["updates accepted"] = len(accepted)
    times = [1000 * one for one in found.stats["answered"]]
    report.counts["answer time p50 / p99, ms"] = f"{percentile(times, 0.5):.0f} / {percentile(times, 0.99):.0f}"
    lost = [one for one in accepted if found.updates.get(one) != "done"]
    none(report, "no-accepted-update-lost", "every accepted update was dealt with", lost, len(accepted))
    dead = [one for one, status in found.updates.items() if status == "dead"]
    none(report, "no-update-dead-lettered", "no update was dead-lettered", dead, len(found.updates))


def _pictures(found: Evidence, report: Report, generations: int) -> None:
    photos = Counter(job_of(caption) for _, caption in found.stats["photo_captions"])
    made = Counter(str(one["callBackUrl"]).partition("job=")[2] for one in found.tasks["tasks"])
    status = {row["job_id"]: row["status"] for row in found.jobs}
    twice = {row["job_id"] for row in found.jobs if row["user_id"] >= FROZEN}
    by_end = Counter(status.values())
    report.counts["jobs paid"] = len(status)
    report.counts["jobs by end"] = dict(by_end)
    report.counts["pictures in chats"] = sum(photos.values())
    report.counts["tasks and callbacks of KIE"] = f"{len(made)}, {found.tasks['callbacks_sent']}"
    report.at_least("pictures delivered", generations // 2, by_end["delivered"])
    delivered = [job for job, at in status.items() if at == "delivered"]
    wrong = [f"{job} {photos[job]}×" for job in delivered if not 1 <= photos[job] <= 1 + (job in twice)]
    none(report, "one-picture-per-job", "a delivered picture is in its chat once", wrong, len(delivered))
    back = [job for job, at in status.items() if at in GIVEN_BACK]
    wrong = [job for job in back if photos[job]]
    none(report, "no-picture-after-refund", "what was given back is in no chat", wrong, len(back))
    doubtful = [job for job, at in status.items() if at == "uncertain"]
    wrong = [job for job in doubtful if photos[job] > 1]
    none(report, "uncertain-at-most-once", "an uncertain picture is there once or not", wrong, len(doubtful))
    open_ = [f"{job} {at}" for job, at in status.items() if at not in {*GIVEN_BACK, "delivered", "uncertain"}]
    none(report, "every-job-has-an-end", "every paid job has ended", open_, len(status))
    wrong = [job for job, number in made.items() if number > 1]
    none(report, "one-task-per-job", "no job has two tasks", wrong, len(made))
    strange = [job for job in {*photos, *made} if job not in status]
    none(report, "nothing-unpaid-was-made", "no picture and no task without a paid job", strange, len(made))


def _money(found: Evidence, report: Report) -> None:
    spent: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for row in found.jobs:
        spent[row["user_id"]] += PRICE * (row["status"] in ("delivered", "uncertain"))
        held[row["user_id"]] += PRICE * (row["status"] == "uncertain")
    users = len(found.balances)
    wrong = [
        f"user {row['user_id']} has {row['balance']}, {row['held']} held"
        for row in found.balances
        if (row["balance"], row["held"]) != (WELCOME - spent[row["user_id"]], held[row["user_id"]])
    ]
    what = "a balance is the welcome less what was delivered or may have been"
    none(report, "amounts-by-hand", what, wrong, users)
    below = [row["user_id"] for row in found.balances if row["balance"] < 0 or row["held"] < 0]
    none(report, "no-balance-below-zero", "no balance is below zero", below, users)
    sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in found.ledger:
        sums[row["user_id"]][0] += row["amount"]
        sums[row["user_id"]][1] += row["held"]
    wrong = [row["user_id"] for row in found.balances if sums[row["user_id"]] != [row["balance"], row["held"]]]
    none(report, "balance-is-ledger", "every balance is the sum of its ledger", wrong, users)
    entries = Counter((row["job_id"], row["kind"], row["amount"], row["held"]) for row in found.ledger)
    report.counts["ledger"] = dict(Counter(row["kind"] for row in found.ledger))
    for name, kind, amount, change, ends in (
        ("held-once", "hold", -PRICE, PRICE, {*GIVEN_BACK, "delivered", "uncertain"}),
        ("charged-once", "charge", 0, -PRICE, {"delivered"}),
        ("released-once", "release", PRICE, -PRICE, GIVEN_BACK),
    ):
        due = Counter((row["job_id"], kind, amount, change) for row in found.jobs if row["status"] in ends)
        written = Counter({one: number for one, number in entries.items() if one[1] == kind})
        wrong = [one[0] for one in ((due - written) + (written - due))]
        none(report, name, f"one {kind} of {PRICE} for each job that has to have one", wrong, len(due))


def _marks(found: Evidence, report: Report) -> None:
    """A mark by a sender after another one has won the lock was made without its fence."""
    lines = sorted(_LINE.finditer(found.logs), key=lambda line: line["at"])
    winner: dict[str, str] = {}
    wrong, marks = [], 0
    for line in lines:
        if line["tag"].endswith("_LOCK_WIN"):
            winner[line["job"]] = line["corr"]
        elif line["tag"] == "MARK_DELIVERED":
            marks += 1
            if winner.get(line["job"]) != line["corr"]:
                wrong.append(f"{line['corr']} (the lock was {winner.get(line['job'])}'s)")
    for tag in ("DELIVER_LOCK_WIN", "POLL_LOCK_WIN", "DELIVER_LOCK_SKIP", "POLL_LOCK_SKIP", "MARK_LOST"):
        report.counts[tag] = sum(line["tag"] == tag for line in lines)
    none(report, "mark-by-the-last-winner", "only the last winner of a lock marks", wrong, marks)
    report.at_least("wins by a callback", 1, report.counts["DELIVER_LOCK_WIN"])
    report.at_least("wins by the poller", 1, report.counts["POLL_LOCK_WIN"])


def _order(found: Evidence, report: Report) -> None:
    """Several things said at once are answered in the order in which they were said; an answer may come twice."""
    answers: defaultdict[int, list[int]] = defaultdict(list)
    for call in found.stats["log"]:
        number = _BURST.search(call["words"]) if call["method"] == "sendMessage" else None
        if call["user"] >= IN_A_HURRY and number:
            answers[call["user"]].append(int(number.group(1)))
    wrong = [f"user {user} {numbers}" for user, numbers in answers.items() if numbers != sorted(numbers)]
    none(report, "one-user-in-order", "a user is answered in the order of what he said", wrong, len(answers))
    missing = [user for user, numbers in answers.items() if set(numbers) != set(range(BURST))]
    none(report, "every-burst-is-answered", "everything said at once is answered", missing, len(answers))
    report.at_least("users in a hurry", 5, len(answers))


def _roles(found: Evidence, report: Report) -> None:
    """Only the ACTIVE instance asks for a confirmation: who asks changes with the trouble, not with each question."""
    asked = [call["via"] for call in found.stats["log"] if call["button"].startswith("make|")]
    changes = sum(before != after for before, after in pairwise(asked))
    allowed = 3 * report.counts.get("disturbances", 0) + 5
    told = f"{changes} changes in {len(asked)} questions of {dict(Counter(asked))}, at most {allowed} expected"
    report.check("one instance works on orders at a time", changes <= allowed, told, "one-active-at-a-time")


def _moves(found: Evidence, report: Report) -> None:
    """Every move is in the table, and begins where the one before has ended."""
    at: dict[str, str] = {}
    wrong, moved = [], 0
    for row in found.history:
        if row["outcome"] != "moved":
            continue
        moved += 1
        key, before, after = row["key"], row["before"], row["after"]
        if after not in MOVES.get(before, set()) or at.get(key, before) != before:
            wrong.append(f"{key} {before} → {after}")
        at[key] = after
    none(report, "only-known-moves", "every move is in the table that was written by hand", wrong, moved)
    report.at_least("moves in the history", 100, moved)
