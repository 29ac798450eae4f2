"""The programs of every primitive in one dialect, made from those of its moves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from raceproof.attempts import (
    PostgresAttempts,
    RedisAttempts,
    SqliteAttempts,
    StartAnswer,
    StartRequest,
)
from raceproof.claims import ClaimRequest, PostgresClaims, RedisClaims, SqliteClaims
from raceproof.deliveries import (
    Delivery,
    DeliveryState,
    PostgresDeliveries,
    RedisDeliveries,
    SqliteDeliveries,
    Turn,
    TurnRequest,
)
from raceproof.deliveries.outcome import MarkAnswer, TurnAnswer
from raceproof.inbox import Inbox, PostgresInbox, Received, RedisInbox, SqliteInbox
from raceproof.intake import Arrival
from raceproof.leases import (
    LeadAnswer,
    Lease,
    Led,
    PostgresLeases,
    RedisLeases,
    SqliteLeases,
    StepDownAnswer,
)
from raceproof.moves import PostgresMoves, RedisMoves, SqliteMoves
from raceproof.moves.request import KeyParts
from raceproof.outcome import Claim, Conflict, GivenBack, Missing, Renewal, SetAside, Taken, Unknown
from raceproof.spec import Claimable
from raceproof.statement import Program, Rows


class Claims(Protocol):
    """The programs of claims in one dialect."""

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]: ...
    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]: ...
    def set_aside(self, request: ClaimRequest) -> Program[list[SetAside[Any]]]: ...
    def renew(
        self, claims: Sequence[Claim[Any, Any]], lease: float, now: datetime | None, token: str
    ) -> Program[list[Renewal[Any, Any]]]: ...
    def give_back(
        self,
        claims: Sequence[Claim[Any, Any]],
        delays: Sequence[float],
        refund: bool,
        reason: str | None,
        now: Any,
    ) -> Program[list[GivenBack[Any]]]: ...
    def add(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]: ...
    def offer(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]: ...
    def listed(self, request: ClaimRequest) -> Program[Rows]: ...


class Deliveries(Protocol):
    """The programs of deliveries in one dialect."""

    def take(self, request: TurnRequest) -> Program[TurnAnswer]: ...
    def mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[MarkAnswer | Turn]: ...
    def resolve(self, request: TurnRequest, state: DeliveryState, error: str | None) -> Program[Any]: ...
    def look(self, request: TurnRequest) -> Program[str | None]: ...
    def listed(
        self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None, uncertain: bool = False
    ) -> Program[Rows]: ...


class Attempting(Protocol):
    """The programs of attempts in one dialect."""

    def start(self, asked: StartRequest) -> Program[StartAnswer]: ...
    def current(self, asked: StartRequest) -> Program[dict[str, Any] | None]: ...
    def expired(self, asked: StartRequest, limit: int, of_owner: bool = False) -> Program[Rows]: ...


class Leases(Protocol):
    """The programs of leases in one dialect."""

    def acquire(
        self, lease: Lease, by: str, session: bool, locked: bool, now: datetime | None
    ) -> Program[LeadAnswer]: ...
    def renew(
        self, lease: Lease, by: str, epoch: int, now: datetime | None, session: bool = False
    ) -> Program[LeadAnswer]: ...
    def release(self, lease: Lease, by: str, epoch: int, now: datetime | None) -> Program[StepDownAnswer]: ...
    def look(self, lease: Lease, now: datetime | None) -> Program[Led]: ...
    def listed(self, lease: Lease, now: datetime | None) -> Program[Rows]: ...


class Receiving(Protocol):
    """The programs of the inbox in one dialect."""

    def receive(
        self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None
    ) -> Program[list[Received]]: ...
    def forget(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]: ...
    def counts(self, inbox: Inbox) -> Program[Rows]: ...
    def listed(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]: ...


class Primitives:
    """What stands beside the moves of one database."""

    def __init__(self, moves: Any) -> None:
        self.claims: Claims
        self.deliveries: Deliveries
        self.attempts: Attempting
        self.leases: Leases
        self.inbox: Receiving
        match moves:
            case PostgresMoves():
                self.claims = PostgresClaims(moves)
                self.deliveries = PostgresDeliveries(moves.style, lambda: moves.in_transaction())
                self.attempts = PostgresAttempts(moves)
                self.leases = PostgresLeases(moves.style)
                self.inbox = PostgresInbox(moves.style, lambda: moves.in_transaction())
            case SqliteMoves():
                self.claims = SqliteClaims(moves.style)
                self.deliveries = SqliteDeliveries(moves.style, lambda: True)
                self.attempts = SqliteAttempts(moves)
                self.leases = SqliteLeases(moves.style)
                self.inbox = SqliteInbox(moves.style)
            case RedisMoves():
                self.claims = RedisClaims(moves)
                self.deliveries = RedisDeliveries(moves)
                self.attempts = RedisAttempts(moves)
                self.leases = RedisLeases(moves)
                self.inbox = RedisInbox(moves)
            case _:
                raise TypeError(f"{moves!r} is not a dialect's moves")
        self.moves = moves
