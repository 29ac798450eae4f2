"""The finished statements of a move or a primitive, without a database.

Their programs are run against answers that lead them on, and what they yield is written down. Other answers lead to the
same texts, because the decisions are made in the store.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from raceproof import Attempts, Claim, Delivery, Inbox, Lease, SendPermit
from raceproof.attempts.request import start_request
from raceproof.claims.request import claim_request
from raceproof.declare import Claimable, Move
from raceproof.declare.claim_forms import ClaimColumns, TimestampClaim
from raceproof.deliveries import DeliveryState
from raceproof.deliveries.request import send_request
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import key_parts
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.redis import RedisDialect
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Program, Rows, Statement
from raceproof.leases.request import LeaseRequest
from raceproof.moves.request import request as move_request
from raceproof.programs import Programs

Declared = Move[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox
Answers = Mapping[str, Any]
Run = tuple[Program[Any], Callable[[Statement], Rows]]
_NEWEST_POSTGRES = 18
_OLDER_POSTGRES = 17
_TOKEN = "0123456789abcdef"
_PLUMBING = ("begin", "commit", "rollback", "move", "table", "time")


class Shown(NamedTuple):
    """A statement with its parameters as names in angle brackets."""

    name: str
    text: str
    parameters: tuple[str, ...]
    keys: tuple[str, ...]
    note: str


def statements_of(declared: Declared, dialect: str) -> list[Shown]:
    """What the calls send to a store, each text once; the path on which a move succeeds comes first."""
    if dialect == "redis":
        return _trace(declared, RedisDialect())
    if dialect == "sqlite":
        return _trace(declared, SqliteDialect("question"))
    older = {shown.text for shown in _trace(declared, PostgresDialect("dollar", _OLDER_POSTGRES))}
    newest = _trace(declared, PostgresDialect("dollar", _NEWEST_POSTGRES))
    note = f"on PostgreSQL {_NEWEST_POSTGRES} and later"
    return [shown if shown.text in older else shown._replace(note=note) for shown in newest]


def _trace(declared: Declared, dialect: Any) -> list[Shown]:
    programs, names = Programs(dialect), {_TOKEN: "<token>"}
    found: dict[Any, Shown] = {}
    if isinstance(declared, Move):
        for program, answer in _move_runs(declared, programs, names):
            for statement in _run(program, answer):
                found.setdefault(statement.text, _shown(statement, names))
        return list(found.values())
    runs: Iterator[tuple[Program[Any], Answers]]
    match declared:
        case Claimable():
            runs = _claim_runs(declared, programs)
        case Delivery():
            runs = _delivery_runs(declared, programs)
        case Attempts():
            runs = _attempt_runs(declared, programs)
        case Lease():
            runs = _lease_runs(declared, programs)
        case Inbox():
            runs = _inbox_runs(declared, programs)
    for program, answers in runs:
        with suppress(CallError):  # this store has no such call
            for statement in _run(program, lambda statement, known=answers: known.get(statement.name, ())):  # type: ignore[misc]
                if not statement.name.startswith(_PLUMBING):
                    key = (statement.name, statement.text, tuple(statement.keys))
                    found.setdefault(key, _shown(statement, names))
    return list(found.values())


def _run(program: Program[Any], answer: Callable[[Statement], Rows]) -> Iterator[Statement]:
    """Run a program to its end."""
    try:
        statement = next(program)
        while True:
            yield statement
            statement = program.send(answer(statement))
    except StopIteration:
        return


def _shown(statement: Statement, names: Mapping[str, str]) -> Shown:
    begins = statement.name == "begin"
    text = "BEGIN IMMEDIATE" if begins else statement.text
    values = () if begins else statement.params
    parameters = tuple("NULL" if value is None else _written(value, names) for value in values)
    return Shown(statement.name, text, parameters, tuple(statement.keys), "")


def _written(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return f"[{', '.join(_written(one, names) for one in value)}]"
    text = str(value)
    for token, name in names.items():
        text = text.replace(token, name)
    return text


def _move_runs(move: Move[Any], programs: Programs, names: dict[str, str]) -> Iterator[Run]:
    """A call that moves the row, and one that does not: the store answers with a row at the last write, or never."""
    spec = move.lifecycle
    for wins in (True, False):
        asked = move_request(
            move,
            _named(spec.key),
            tenant=f"<{spec.tenant}>" if spec.tenant else None,
            set={column: f"<{column}>" for column in move.sets},
            by="<by>",
            reason="<reason>",
        )
        if asked.call:
            names[asked.call] = "<call>"
        writes = iter(range(1, 100))

        def answer(statement: Statement, wins: bool = wins, writes: Iterator[int] = writes, ended: Any = asked) -> Rows:
            if statement.name == "move.write":
                return (("<revision>", "<key>"),) if next(writes) == len(move.sources) and wins else ()
            if statement.name.startswith("move.fast") and wins:
                return (("<before>", "<revision>", *(("<holder>",) if ended.ended else ())),)
            return ()

        yield programs.moves.one(asked), answer


def _named(columns: Sequence[str]) -> Any:
    found = tuple(f"<{column}>" for column in columns)
    return found if len(found) > 1 else found[0]


def _claim_runs(claim: Claimable[Any], primitives: Programs) -> Iterator[tuple[Program[Any], Answers]]:
    spec = claim.lifecycle
    key, tenant = _named(spec.key), f"<{spec.tenant}>" if spec.tenant else None
    parts = key_parts(spec, key, tenant)
    request = claim_request(claim, by="<by>", tenant=tenant)
    request.token = _TOKEN
    held = Claim(key, claim, "<fence>", "<by>", 1, claim.held[0], 0.0, None, tenant)
    kinds = dict.fromkeys((*spec.key_columns, *(c for m in spec.moves.values() for c in m.sets)), "text")
    form = claim.form
    kinds[form.fence_column] = (
        "bigint" if isinstance(form, ClaimColumns) else "timestamptz" if isinstance(form, TimestampClaim) else "text"
    )
    answers = _claim_answers(claim, parts, kinds, primitives.dialect.name)
    programs = primitives.claims
    yield programs.acquire(request), answers
    yield programs.one(request, key), answers
    if claim.dead_letter:
        yield programs.dead_letter(request), answers
    ways: list[Callable[[], Program[Any]]] = [
        lambda: programs.renew([held], claim.lease, None, _TOKEN),
        lambda: programs.give_back([held], [0.0], True, "<reason>", None),
        lambda: programs.give_back([held], [claim.backoff.after(1)], False, "<reason>", None),
    ]
    for way in ways:
        yield way(), answers
        if primitives.dialect.name == "sqlite":
            yield way(), {**answers, "claim.change": [("<fence>", "<key>", 1)]}
    yield programs.offer(claim, [parts]), answers
    if primitives.dialect.name != "redis":
        yield programs.listed(request), answers


def _claim_answers(claim: Claimable[Any], parts: Sequence[Any], kinds: Mapping[str, str], dialect: str) -> Answers:
    """What leads the programs of claims on, in each dialect."""
    waiting = (*parts, str(claim.at[0]), "<key>")
    match dialect:
        case "redis":
            found: dict[str, Any] = {f"claim.{action}": (0, 0) for action in ("acquire", "dead_letter")}
            return found | {f"claim.{action}": [["missing"]] for action in ("one", "renew", "give_back")}
        case "sqlite":
            return {
                "claim.due": [waiting],
                "claim.take": [(*parts, "<fence>", 1, 1)],
                "claim.look": [(str(claim.at[0]), 0, None, "<key>")],
                "claim.spent": [waiting],
                "claim.dead_letter": [(*parts, 1, 1)],
            }
        case _:
            return {"table.columns": list(kinds.items())}


def _delivery_runs(delivery: Delivery, primitives: Programs) -> Iterator[tuple[Program[Any], Answers]]:
    own = (delivery.key,) if isinstance(delivery.key, str) else delivery.key
    key, tenant = _named(own), f"<{delivery.tenant}>" if delivery.tenant else None
    request = send_request(delivery, key, by="<by>", tenant=tenant)
    permit = SendPermit(key, delivery, request.parts, "<fence>", "<by>", 1, DeliveryState.SENDING, False, 0.0)
    answers: Answers = {}
    if primitives.dialect.name == "sqlite":
        answers = {"delivery.look": [("ready", None, None, 1, 0)]}
    programs = primitives.deliveries
    yield programs.take(request), answers
    states = [DeliveryState.SENDING, DeliveryState.DELIVERED, DeliveryState.FAILED]
    if delivery.state:
        states.append(DeliveryState.UNCERTAIN)
    for state in states:
        yield programs.mark(permit, state, "<error>", None), {}
    for state in (DeliveryState.DELIVERED, DeliveryState.FAILED):
        yield programs.resolve(request, state, "resolved by <by>"), {}
    for uncertain in (False, True):
        yield programs.listed(delivery, 100, tenant, None, uncertain), {}


def _attempt_runs(attempts: Attempts, primitives: Programs) -> Iterator[tuple[Program[Any], Answers]]:
    spec = attempts.lifecycle
    owner = f"<{attempts.owner}>"
    tenant = owner if spec.tenant == attempts.owner else f"<{spec.tenant}>" if spec.tenant else None
    request = start_request(attempts, owner, _named(spec.key), by="<by>", tenant=tenant)
    answers: Answers = {"attempt.insert": [("<key>",)], "attempt.pointer": [None], "attempt.start": ["started", ""]}
    yield primitives.attempts.start(request), answers
    yield primitives.attempts.current(request), answers
    if attempts.ttl is not None:
        yield primitives.attempts.expired(request, 100), answers


def _lease_runs(lease: Lease, primitives: Programs) -> Iterator[tuple[Program[Any], Answers]]:
    reply = (0, "", "0", "")
    answers: Answers = {}
    if primitives.dialect.name == "redis":
        answers = {f"lease.{action}": reply for action in ("acquire", "renew", "release", "look")}
    programs = primitives.leases
    yield programs.acquire(LeaseRequest(lease, "<by>")), answers
    yield programs.renew(LeaseRequest(lease, "<by>", 1)), answers
    yield programs.release(LeaseRequest(lease, "<by>", 1)), answers
    yield programs.holder(LeaseRequest(lease)), answers


def _inbox_runs(inbox: Inbox, primitives: Programs) -> Iterator[tuple[Program[Any], Answers]]:
    arrival = Arrival("<source>", "<event_id>", b"<body>", {}, "<ordering_key>")
    programs = primitives.inbox
    key = [("<source>", "<event_id>")]
    if primitives.dialect.name == "postgres":
        yield programs.receive(inbox, [arrival], None), {"inbox.duplicates": key}
    else:
        yield programs.receive(inbox, [arrival], None), {"inbox.receive": key}
    yield programs.forget(inbox, 1000, None), {}
    yield programs.counts(inbox), {"inbox.counts": [0]}
    yield programs.listed(inbox, "dead", 100), {}
