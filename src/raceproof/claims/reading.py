"""Claims that are held, as people and tools read them. Nothing is decided here."""

from abc import abstractmethod
from datetime import datetime
from typing import Any

from raceproof.claims.request import ClaimRequest
from raceproof.kernel.dialect import SqlDialect, Texts
from raceproof.kernel.redis import key_of_member, text_of
from raceproof.kernel.statement import Prepared, Program, Rows, Statement


class SqlClaimReading:
    """On an SQL database."""

    def __init__(self, dialect: Any) -> None:
        self.dialect: SqlDialect = dialect
        self.texts: Texts = dialect.texts("claims", "claim.sql", "reading.sql")

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns."""
        return (yield self.text("claim.list", request).bind(self.dialect.bound(request.values())))

    @abstractmethod
    def text(self, name: str, request: ClaimRequest) -> Prepared:
        """A statement for calls of this shape."""


class RedisClaimReading:
    """On Redis and Valkey: the rows of the index."""

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns."""
        spec, page = request.claim.lifecycle, 500
        found: list[list[Any]] = []
        offset: Any = 0
        while True:
            reply: Any = yield self.listing(request, offset)
            proposed, *rows, now = reply
            for place in range(0, len(rows), 6):
                member, score, status, holder, fence, attempts = map(text_of, rows[place : place + 6])
                key = key_of_member(spec, member, request.tenant)
                if key is not None:
                    parts = key if isinstance(key, tuple) else (key,)
                    own = (request.tenant, *parts) if spec.tenant else parts
                    ends, stale = (datetime.fromtimestamp(float(score)).astimezone(), float(score) <= float(now))
                    found.append([ends, stale, status, holder, fence, attempts, *own])
            offset += proposed
            if proposed < page or len(found) >= request.limit:
                return found[: request.limit]

    @abstractmethod
    def listing(self, request: ClaimRequest, offset: int) -> Statement:
        """Look at a page of the index, from this place on."""
