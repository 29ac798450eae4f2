"""Deliveries as people and tools read them. Nothing is decided here."""

from abc import abstractmethod
from datetime import datetime
from typing import Any

from raceproof.deliveries.declared import Delivery
from raceproof.deliveries.request import SendRequest
from raceproof.kernel.dialect import SqlDialect, Texts
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Prepared, Program, Rows


class SqlDeliveryReading:
    """On an SQL database."""

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect
        self.texts: Texts = dialect.texts("deliveries", "delivery.sql", "reading.sql")

    def look(self, request: SendRequest) -> Program[str | None]:
        """How the delivery stands, in one word; None if there is no such row."""
        values = self.dialect.bound(request.values())
        rows = yield self.text("delivery.look", request.delivery, request.now).bind(values)
        if not rows:
            delivery = request.delivery
            yield from self.dialect.not_found(delivery, delivery.table, delivery.key_columns, request.parts)
        return str(rows[0][0]) if rows else None

    def listed(
        self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None, uncertain: bool = False
    ) -> Program[Rows]:
        """What is being sent or uncertain, or only the latter: state, holder, since, attempts, error, the key's columns."""
        values = {"limit": limit, "key_0": tenant, "stale": delivery.stale, "now": now}
        name = "delivery.uncertain" if uncertain else "delivery.list"
        return (yield self.text(name, delivery, now).bind(self.dialect.bound(values)))

    @abstractmethod
    def text(self, name: str, delivery: Delivery, now: datetime | None = None) -> Prepared:
        """A statement."""


class RedisDeliveryReading:
    """On Redis and Valkey."""

    def listed(
        self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None, uncertain: bool = False
    ) -> Program[Rows]:
        raise CallError(f"{delivery}: Redis cannot search hashes for deliveries that are under way; ask for their keys")
        yield
