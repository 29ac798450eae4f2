"""docs/core.md: what a call sends to each of the three stores, and the guards in it, each with the promise that it keeps.

The texts are the golden files, which are what the stores were really sent. A guard that no longer stands in them fails the
build, so the page cannot say what is not so.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).parents[1] / "tests" / "promises" / "golden" / "texts"
STORES = {"postgres": "PostgreSQL", "sqlite": "SQLite", "redis": "Redis"}


class Guard(NamedTuple):
    """A condition or a lock, as it stands in the text of each store."""

    promise: str
    says: str
    postgres: str
    sqlite: str
    redis: str


class Decision(NamedTuple):
    """One call: where its texts are, as (call, statement) of a golden file, and what guards it."""

    title: str
    about: str
    scene: str
    texts: Mapping[str, tuple[tuple[str, str], ...]]
    guards: tuple[Guard, ...]


_LOCKED = "the write lock of `BEGIN IMMEDIATE`"
_SCRIPT = "a script runs alone"

DECISIONS = (
    Decision(
        "Move a row",
        "`db.move(Command.send, key)`, with a revision and a history that keeps losers. PostgreSQL tries the first "
        "statement and asks the second one only if that moved nothing; SQLite writes from one source status after the "
        "other, in one transaction with the history; on Redis it is one script.",
        "commands",
        {
            "postgres": (("move, won", "move.fast"), ("move, already", "move.one")),
            "sqlite": (("move, won", "move.write"), ("move, won", "move.note"), ("move, already", "move.look")),
            "redis": (("move, won", "move"),),
        },
        (
            Guard(
                "P1, P2",
                "the row leaves only a status from which the move is declared",
                "AND t.\"status\" IN ('QUEUED', 'SEND_FAILED')",
                "AND t.\"status\" = 'QUEUED'",
                "not sources[before]",
            ),
            Guard("P1", "who loses waits for the winner's commit", "FOR NO KEY UPDATE", _LOCKED, _SCRIPT),
            Guard(
                "L5",
                "the history is written by the same decision",
                "), noted AS (",
                'INSERT INTO "raceproof_history"',
                "note(stream, i, 'moved', before, after)",
            ),
        ),
    ),
    Decision(
        "Claim rows",
        "`db.claim(Job.work, limit)`: up to `limit` rows in order, each for this caller alone.",
        "jobs",
        {
            "postgres": (("claim by the store's clock, returning", "claim.acquire"),),
            "sqlite": (
                ("claim by the store's clock, returning", "claim.due"),
                ("claim by the store's clock, returning", "claim.take"),
            ),
            "redis": (("claim by the store's clock, returning", "claim.acquire"),),
        },
        (
            Guard(
                "P1",
                "only rows that wait, or whose holder did not finish them",
                "t.\"status\" IN ('QUEUED', 'RUNNING')",
                "t.\"status\" IN ('QUEUED', 'RUNNING')",
                "open[seen[1]] and 0 or 1",
            ),
            Guard(
                "P3, P13",
                "the row has no holder, or the lease has ended by the store's clock",
                't."claimed_until" <= statement_timestamp()',
                't."claimed_until" <= strftime(',
                "if is_held(columns_end(seen[2]), seen[3])",
            ),
            Guard(
                "P13",
                "a lease from before the clock was set back has ended too",
                't."claimed_until" > (SELECT statement_timestamp() + make_interval',
                't."claimed_until" > strftime(',
                "ends > now + 2 *",
            ),
            Guard(
                "L7",
                "a row backs off after a failure",
                't."not_before" <= statement_timestamp()',
                't."not_before" <= strftime(',
                "if (tonumber(seen[4]) or 0) > now",
            ),
            Guard(
                "L7",
                "a row that kills its workers is not claimed more than `max_attempts` times",
                'COALESCE(t."attempts", 0) < 3',
                'COALESCE(t."attempts", 0) < 3',
                "if (tonumber(seen[5]) or 0) >= 3",
            ),
            Guard(
                "P3",
                "no other claim takes the row meanwhile",
                "FOR NO KEY UPDATE OF t SKIP LOCKED",
                _LOCKED,
                _SCRIPT,
            ),
            Guard(
                "P4",
                "the fence grows, also after a failover that forgot the last ones",
                '"fence" = GREATEST(COALESCE(t."fence", 0) + 1',
                '"fence" = max(COALESCE(t."fence", 0) + 1',
                "local function grown(number, now)",
            ),
        ),
    ),
    Decision(
        "Renew a claim",
        "`db.renew(claims)`; giving back and failing have the same guards.",
        "jobs",
        {
            "postgres": (("renew", "claim.change_many"),),
            "sqlite": (("renew", "claim.change"), ("renew", "claim.found")),
            "redis": (("renew", "claim.renew"),),
        },
        (
            Guard(
                "P4, P5",
                "only the current holder: the row still carries the fence",
                't."fence" = w.rp_fence_wanted',
                'AND t."fence" = ?',
                "seen[3] ~= fence",
            ),
            Guard(
                "P5",
                "and is still at the status of a claimed one",
                "t.\"status\" IN ('RUNNING')) IS TRUE AS rp_mine",
                "AND t.\"status\" IN ('RUNNING')",
                "not held[seen[1]]",
            ),
            Guard("P13", "many claims are locked in key order", 'ORDER BY t."job_id"', _LOCKED, _SCRIPT),
        ),
    ),
    Decision(
        "Finish a claimed row",
        "`db.move(Job.finish, claim)`: a move that names the claim's fence, and ends the claim in the same write.",
        "jobs",
        {
            "postgres": (("finish", "move.fast without history"),),
            "sqlite": (("finish", "move.write"),),
            "redis": (("finish", "move"),),
        },
        (
            Guard(
                "P1",
                "from the status of a claimed row",
                "AND t.\"status\" IN ('RUNNING')",
                "AND t.\"status\" = 'RUNNING'",
                "not sources[before]",
            ),
            Guard(
                "P4",
                "an older fence than the row's is refused",
                'AND t."fence" = $3',
                'AND t."fence" = ?',
                "if fence ~= ARGV[1]",
            ),
            Guard(
                "P3",
                "the claim ends with it",
                '"claimed_until" = NULL',
                '"claimed_until" = NULL',
                "redis.call('HDEL', row, 'claimed_by', 'claimed_until')",
            ),
        ),
    ),
    Decision(
        "Begin a delivery",
        "`db.begin_delivery(receipt, key)`: the permit to send, with the policy `hold`.",
        "pictures",
        {
            "postgres": (("begin a receipt by the store's clock, returning", "delivery.take"),),
            "sqlite": (
                ("begin a receipt by the store's clock, returning", "delivery.look"),
                ("begin a receipt by the store's clock, returning", "delivery.take"),
            ),
            "redis": (("begin a receipt by the store's clock, returning", "delivery.take"),),
        },
        (
            Guard(
                "P7",
                "nothing was delivered yet",
                't."receipt_sent_at" IS NULL',
                't."receipt_sent_at" IS NULL',
                "not seen[2]",
            ),
            Guard(
                "P7",
                "no process is sending",
                't."receipt_sending_at" IS NULL',
                't."receipt_sending_at" IS NULL',
                "not seen[1]",
            ),
            Guard(
                "P7",
                "an attempt that may have arrived is held for an operator",
                "AND NOT COALESCE(t.\"receipt_state\" = 'uncertain'",
                "AND NOT COALESCE(t.\"receipt_state\" = 'uncertain'",
                "free = free and not doubt",
            ),
            Guard("P7", "one caller at a time decides", "FOR NO KEY UPDATE OF t", _LOCKED, _SCRIPT),
        ),
    ),
    Decision(
        "Record that it was delivered",
        "`db.delivered(permit)`; a failure and an unknown outcome have the same guards.",
        "pictures",
        {
            "postgres": (("delivered a receipt by the store's clock", "delivery.mark"),),
            "sqlite": (("delivered a receipt by the store's clock", "delivery.mark"),),
            "redis": (("delivered a receipt by the store's clock", "delivery.mark"),),
        },
        (
            Guard(
                "P4, P5",
                "only the current sender: its timestamp is its fence",
                'AND t."receipt_sending_at" = $',
                'AND t."receipt_sending_at" = ?',
                "seen[1] ~= ARGV[1]",
            ),
            Guard(
                "P7",
                "and once",
                'AND t."receipt_sent_at" IS NULL',
                'AND t."receipt_sent_at" IS NULL',
                "or seen[2] then return found",
            ),
        ),
    ),
    Decision(
        "Start an attempt",
        "`db.start_attempt(logins, owner, key)` ends the owner's open attempt by an ordinary move, in one transaction.",
        "attempts",
        {
            "postgres": (
                ("start", "attempt.lock_owner"),
                ("start", "attempt.lock_key"),
                ("start by the store's clock", "attempt.look"),
                ("start, superseding", "move.one"),
                ("start by the store's clock", "attempt.insert"),
            ),
            "sqlite": (
                ("start by the store's clock", "attempt.look"),
                ("start, superseding", "move.write"),
                ("start by the store's clock", "attempt.insert"),
            ),
            "redis": (("start by the store's clock", "attempt.start"),),
        },
        (
            Guard(
                "P9",
                "starters of one owner go one after the other",
                "pg_advisory_xact_lock(",
                _LOCKED,
                _SCRIPT,
            ),
            Guard(
                "P9",
                "only an open attempt is superseded",
                "cur.rp_before IN ('pending', 'scanned')",
                "AND t.\"status\" = 'pending'",
                "local is_open = found[1] and open[found[1]]",
            ),
            Guard(
                "P9",
                "an attempt that is there already is never started again",
                "ON CONFLICT DO NOTHING",
                "ON CONFLICT DO NOTHING",
                "if found[1] then return already(found, pointed) end",
            ),
        ),
    ),
    Decision(
        "Acquire a lease",
        "`db.acquire_lease(lease, name)`.",
        "leases",
        {
            "postgres": (
                ("acquire a lease by the store's clock", "lease.acquire"),
                ("acquire a lease, refused", "lease.look"),
            ),
            "sqlite": (
                ("acquire a lease by the store's clock", "lease.acquire"),
                ("acquire a lease, refused", "lease.look"),
            ),
            "redis": (("acquire a lease by the store's clock", "lease.acquire"),),
        },
        (
            Guard(
                "P10",
                "the last lease has ended by the store's clock",
                "OR t.until <= statement_timestamp()",
                "OR t.until <= strftime(",
                "ends > now and not ahead",
            ),
            Guard(
                "P10",
                "every change of holder is a later epoch",
                "epoch = GREATEST(t.epoch + 1, EXCLUDED.epoch + 1)",
                "epoch = max(t.epoch + 1, EXCLUDED.epoch + 1)",
                "local next_epoch = grown(last, now)",
            ),
            Guard(
                "P10",
                "who is refused has waited for the holder's commit",
                "FOR KEY SHARE OF t",
                _LOCKED,
                _SCRIPT,
            ),
        ),
    ),
    Decision(
        "Renew a lease",
        "`db.renew_lease(held)`; releasing it has the same guards.",
        "leases",
        {
            "postgres": (("renew a lease", "lease.renew"),),
            "sqlite": (("renew a lease", "lease.renew"),),
            "redis": (("renew a lease", "lease.renew"),),
        },
        (
            Guard("P10", "only the holder", "AND t.holder = $4", "AND t.holder = ?", "holder ~= ARGV[1]"),
            Guard("P10", "only in its own epoch", "AND t.epoch = $5", "AND t.epoch = ?", "current ~= ARGV[3]"),
        ),
    ),
    Decision(
        "Receive an event",
        "`db.receive(inbox, arrival)` returns when the event is durable, also if it was there already.",
        "events",
        {
            "postgres": (("receive", "inbox.receive"), ("receive again, at a given time", "inbox.duplicates")),
            "sqlite": (("receive", "inbox.receive"),),
            "redis": (("receive", "inbox.receive"),),
        },
        (
            Guard(
                "P8",
                "one row for each source and event id",
                "ON CONFLICT (source, event_id) DO NOTHING",
                "ON CONFLICT (source, event_id) DO NOTHING",
                "if redis.call('EXISTS', row) == 1",
            ),
            Guard(
                "P8",
                "a duplicate is answered after the commit of the first one",
                "FOR KEY SHARE OF t",
                _LOCKED,
                _SCRIPT,
            ),
        ),
    ),
)


def page() -> str:
    """The whole page."""
    found = [_INTRODUCTION.strip()]
    for decision in DECISIONS:
        texts = {store: list(_texts(decision, store)) for store in STORES}
        found.append(f"## {decision.title}\n\n{decision.about}")
        found.append(_guards(decision, texts))
        for store, name in STORES.items():
            language = "lua" if store == "redis" else "sql"
            shown = "\n\n".join(f"-- {statement}\n{text}" for statement, text in texts[store])
            found.append(f"<details><summary>{name}</summary>\n\n```{language}\n{shown}\n```\n\n</details>")
    return "\n\n".join(found) + "\n"


_INTRODUCTION = """
# The core: every decision, on three stores

All that decides is on this page: what a call sends, and which part of it keeps which [promise](promises.md). It is
written by `make docs` from the texts that the stores were really sent for the declarations of the examples, which are kept
in `tests/promises/golden/texts`; a guard that is not found there fails the build.

How to read it: a table names the guards of a decision, each as it stands in the text of each store; the texts follow.
`$1` and `?` are parameters, and so are `KEYS` and `ARGV`; the time is always the store's. Where SQLite has no lock of its
own, the program has taken the write lock first; where Redis has none, the script is the lock. What makes a decision faster
but decides nothing is in the `fast` folders of `src/raceproof`, and a test compares it with the plain programs.
"""


def _texts(decision: Decision, store: str) -> Iterator[tuple[str, str]]:
    suffix = "lua" if store == "redis" else "sql"
    known = golden((GOLDEN / store / f"{decision.scene}.{suffix}").read_text(encoding="utf-8"))
    for call, statement in decision.texts[store]:
        if (call, statement) not in known:
            raise SystemExit(f"{decision.title}: {store} sends no {statement} for {call!r}; see {GOLDEN}")
        yield statement, known[call, statement]


_CALL = re.compile(r"^-- (?P<call>[a-z_][^:\n]*): (?P<names>.+)$")
_SHORT = {"begin", "commit", "move", "read", "history", "scan", "time", "nothing"}
_STATEMENT = re.compile(r"^-- (?P<name>[a-z_.]+(?: without history)?)$")


def golden(text: str) -> dict[tuple[str, str], str]:
    """The texts of a golden file, by the call under which each was sent first and the name of the statement."""
    found: dict[tuple[str, str], list[str]] = {}
    call, names = "", [""]
    lines: list[str] = []
    for line in text.splitlines():
        if (head := _CALL.match(line)) and _sent(head["names"]):
            call, names, lines = head["call"], _sent(head["names"]), []
        elif (head := _STATEMENT.match(line)) and head["name"] in names:
            lines = found.setdefault((call, head["name"]), [])
        else:
            lines.append(line)
    return {key: "\n".join(text).strip() for key, text in found.items()}


def _sent(names: str) -> list[str]:
    """The statements that a call has sent, as the line above them lists them; none if it is another comment."""
    found = [re.sub(r" ×\d+$", "", name) for name in names.split(", ")]
    return (
        found if all(re.fullmatch(r"[a-z]+\.[a-z_]+( without history)?", one) or one in _SHORT for one in found) else []
    )


def _guards(decision: Decision, texts: Mapping[str, list[tuple[str, str]]]) -> str:
    lines = ["| promise | guard | " + " | ".join(STORES.values()) + " |", "|---|---|---|---|---|"]
    for guard in decision.guards:
        cells = []
        for store in STORES:
            part = str(getattr(guard, store))
            if part in (_LOCKED, _SCRIPT):
                cells.append(part)
            elif any(part in text for _, text in texts[store]):
                cells.append("`" + part.replace("|", "\\|") + "`")
            else:
                raise SystemExit(f"{decision.title}: the guard {guard.says!r} is not in the text of {store}: {part}")
        lines.append(f"| {guard.promise} | {guard.says} | {' | '.join(cells)} |")
    return "\n".join(lines)
