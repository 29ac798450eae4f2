"""The finished statements of claims, deliveries, attempts, leases and inboxes, without a database.

Their programs are run against answers that lead them on; what they yield is written down. What a program asks when things go
another way has the same texts, for the decision is made in the store.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from raceproof import Attempts, Claim, Delivery, Inbox, Lease, SendPermit
from raceproof.attempts.request import start_request
from raceproof.claims.request import claim_request
from raceproof.declare import Claimable
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
from raceproof.ops.cli.statements import Shown, older_and_newest
from raceproof.programs import Programs

Asked = Claimable[Any] | Delivery | Attempts | Lease | Inbox
Answers = Mapping[str, Any]
_TOKEN = "0123456789abcdef"


def statements_for(asked: Asked, dialect: str) -> list[Shown]:
    """What the calls of a primitive send to a store, each text once."""
    if dialect == "redis":
        return _trace(asked, RedisDialect())
    if dialect == "sqlite":
        return _trace(asked, SqliteDialect("question"))
    return older_and_newest(lambda version: _trace(asked, PostgresDialect("dollar", version)))


def _trace(asked: Asked, dialect: Any) -> list[Shown]:
    primitives = Programs(dialect)
    match asked:
        case Claimable():
            runs = _claim_runs(asked, primitives)
        case Delivery():
            runs = _delivery_runs(asked, primitives)
        case Attempts():
            runs = _attempt_runs(asked, primitives)
        case Lease():
            runs = _lease_runs(asked, primitives)
        case Inbox():
            runs = _inbox_runs(asked, primitives)
    found: dict[Any, Shown] = {}
    for program, answers in runs:
        for statement in _run(program, answers):
            if not statement.name.startswith(("begin", "commit", "rollback", "move", "table", "time")):
                known = (statement.name, statement.text, tuple(statement.keys))
                found.setdefault(known, _shown(statement))
    return list(found.values())


def _run(program: Program[Any], answers: Answers) -> Iterator[Statement]:
    """Run a program to its end; a kind of call that this store does not have is left out."""
    try:
        statement = next(program)
        while True:
            yield statement
            rows: Rows = answers.get(statement.name, ())
            statement = program.send(rows)
    except (StopIteration, CallError):
        return


def _shown(statement: Statement) -> Shown:
    parameters = tuple("NULL" if value is None else _written(value) for value in statement.params)
    return Shown(statement.name, statement.text, parameters, tuple(statement.keys), "")


def _written(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value).replace(_TOKEN, "<token>")


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
