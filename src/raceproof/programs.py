"""What a store can do: the programs of each primitive in its dialect, imported when they are first used.

The protocols say what a primitive consists of; a dialect needs one class for each.
"""

from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol

from raceproof.attempts.answers import StartAnswer
from raceproof.attempts.request import StartRequest
from raceproof.claims.answers import Claim, DeadLettered, GivenBack, Renewal, Taken
from raceproof.claims.request import ClaimRequest
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries.answers import RecordAnswer, SendAnswer, SendPermit
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.request import SendRequest
from raceproof.inbox.answers import Received
from raceproof.inbox.arrival import Arrival
from raceproof.inbox.declared import Inbox
from raceproof.kernel.answers import Conflict, Missing, Unknown
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.statement import Program, Rows
from raceproof.leases.answers import LeaseAnswer, LeaseHeldByOther, ReleaseAnswer
from raceproof.leases.request import LeaseRequest
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest

Answers = list[Answer[Any, Any]]
Claims_ = Sequence[Claim[Any, Any]]


class Moves(Protocol):
    """Moves of rows along the declared moves."""

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]: ...
    def many(self, requests: Sequence[MoveRequest]) -> Program[Answers]: ...
    def many_claimed(self, first: MoveRequest, claims: Claims_) -> Program[Sequence[Answer[Any, Any] | None]]:
        """None for a row that has moved from the one source of the move, with no more to say."""
        ...

    def matching(self, request: MoveRequest, limit: int | None) -> Program[Answers]: ...


class Reading(Protocol):
    """Rows and their histories, for people and tools."""

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]: ...
    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]: ...


class Claims(Protocol):
    """Rows of work, held exclusively for a lease."""

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]: ...
    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]: ...
    def dead_letter(self, request: ClaimRequest) -> Program[list[DeadLettered[Any]]]: ...
    def renew(
        self, claims: Claims_, lease: float, now: datetime | None, token: str
    ) -> Program[list[Renewal[Any, Any]]]: ...
    def give_back(
        self, claims: Claims_, delays: Sequence[float], refund: bool, reason: str | None, now: datetime | None
    ) -> Program[list[GivenBack[Any]]]: ...
    def add(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]: ...
    def offer(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]: ...
    def listed(self, request: ClaimRequest) -> Program[Rows]: ...


class Deliveries(Protocol):
    """Messages that are sent once."""

    def take(self, request: SendRequest) -> Program[SendAnswer]: ...
    def mark(
        self, permit: SendPermit, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[RecordAnswer | SendPermit]: ...
    def resolve(self, request: SendRequest, state: DeliveryState, error: str | None) -> Program[Any]: ...
    def look(self, request: SendRequest) -> Program[str | None]: ...
    def listed(
        self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None, uncertain: bool = False
    ) -> Program[Rows]: ...


class Attempts(Protocol):
    """At most one active attempt per owner."""

    def start(self, asked: StartRequest) -> Program[StartAnswer]: ...
    def current(self, asked: StartRequest) -> Program[dict[str, Any] | None]: ...
    def expired(self, asked: StartRequest, limit: int, of_owner: bool = False) -> Program[Rows]: ...


class Leases(Protocol):
    """At most one holder per name."""

    def acquire(self, request: LeaseRequest) -> Program[LeaseAnswer]: ...
    def renew(self, request: LeaseRequest) -> Program[LeaseAnswer]: ...
    def release(self, request: LeaseRequest) -> Program[ReleaseAnswer]: ...
    def holder(self, request: LeaseRequest) -> Program[LeaseHeldByOther]: ...
    def listed(self, request: LeaseRequest) -> Program[Rows]: ...


class Events(Protocol):
    """Events of others, each stored once."""

    def receive(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[list[Received]]: ...
    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]: ...
    def counts(self, inbox: Inbox) -> Program[Rows]: ...
    def listed(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]: ...


_CLASSES = {
    "postgres": {
        "moves": "moves.fast.postgres.FastPostgresMoves",
        "reading": "moves.reading.SqlReading",
        "claims": "claims.fast.postgres.FastPostgresClaims",
        "deliveries": "deliveries.sql.SqlDeliveries",
        "attempts": "attempts.postgres.PostgresAttempts",
        "leases": "leases.sql.SqlLeases",
        "inbox": "inbox.postgres.PostgresInbox",
    },
    "sqlite": {
        "moves": "moves.fast.sqlite.FastSqliteMoves",
        "reading": "moves.reading.SqlReading",
        "claims": "claims.sqlite.SqliteClaims",
        "deliveries": "deliveries.sqlite.SqliteDeliveries",
        "attempts": "attempts.sqlite.SqliteAttempts",
        "leases": "leases.sql.SqlLeases",
        "inbox": "inbox.sqlite.SqliteInbox",
    },
    "redis": {
        "moves": "moves.fast.redis.FastRedisMoves",
        "reading": "moves.reading.RedisReading",
        "claims": "claims.redis.RedisClaims",
        "deliveries": "deliveries.redis.RedisDeliveries",
        "attempts": "attempts.redis.RedisAttempts",
        "leases": "leases.redis.RedisLeases",
        "inbox": "inbox.redis.RedisInbox",
    },
}


class Programs:
    """The programs of all primitives in one dialect."""

    moves: Moves
    reading: Reading
    claims: Claims
    deliveries: Deliveries
    attempts: Attempts
    leases: Leases
    inbox: Events

    def __init__(self, dialect: Any) -> None:
        self.dialect = dialect

    def __getattr__(self, primitive: str) -> Any:
        classes = _CLASSES[self.dialect.name]
        if primitive not in classes:
            raise AttributeError(primitive)
        module, _, name = classes[primitive].rpartition(".")
        made = getattr(import_module(f"raceproof.{module}"), name)(self.dialect)
        setattr(self, primitive, made)
        return made
