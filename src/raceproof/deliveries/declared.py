"""A delivery, declared once: in which row it is kept, when a sender counts as gone, and what happens to an unknown end."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from raceproof.declare.spec import check_seconds
from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.keys import key_text, keyed_parts
from raceproof.kernel.quoting import identifier, qualified

Policy = Literal["resend", "hold", "probe"]


class DeliveryState(StrEnum):
    """What a delivery can be at; a table with two timestamps distinguishes all of them but reserved and failed."""

    READY = "ready"
    RESERVED = "reserved"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, eq=False)
class Delivery:
    """Something that is sent once from each row of a table. Two timestamps are enough; further columns say more.

    `delivering` is when a sender took the row, and its fence; `delivered` when it was done. `state` keeps the states by
    name, so that a crash before the send is known to be one. `holder`, `error` and `attempts` are for people who look.
    """

    name: str
    table: str
    key: str | tuple[str, ...] = "id"
    delivering: str = "delivering_at"
    delivered: str = "delivered_at"
    state: str | None = None
    holder: str | None = None
    error: str | None = None
    attempts: str | None = None
    stale: float = 300.0
    """Seconds after which a sender that has recorded no outcome counts as gone."""
    policy: Policy = "resend"
    """What to do if the outcome of the last attempt is unknown: send again, hold it for an operator, or ask a probe."""
    tenant: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.key, list):
            object.__setattr__(self, "key", tuple(self.key))
        qualified(self.table)
        columns = [*self.key_columns, self.delivering, self.delivered, *self._told]
        for column in columns:
            identifier(column)
            if columns.count(column) > 1:
                raise DeclarationError(f"delivery {self.name}: column {column!r} has two roles")
        if self.policy not in ("resend", "hold", "probe"):
            raise DeclarationError(f"delivery {self.name}: policy is resend, hold or probe, not {self.policy!r}")
        check_seconds(f"delivery {self.name}: stale", self.stale)

    def __str__(self) -> str:
        return self.name

    @property
    def _told(self) -> Iterable[str]:
        return (column for column in (self.state, self.holder, self.error, self.attempts) if column is not None)

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        own = (self.key,) if isinstance(self.key, str) else self.key
        return (self.tenant, *own) if self.tenant else own

    def parts(self, key: Any, tenant: Any) -> tuple[Any, ...]:
        """A key as one value for each key column, the tenant first."""
        own = (self.key,) if isinstance(self.key, str) else self.key
        return keyed_parts(self, own, self.tenant, key, tenant)

    def idempotency_key(self, key: Any, tenant: Any = None) -> str:
        """The idempotency key of this delivery: the same for every try, whoever makes it."""
        return self.idempotency_key_of(self.parts(key, tenant))

    def idempotency_key_of(self, parts: tuple[Any, ...]) -> str:
        """The same for a key that is known by its columns."""
        text = f"{self.name}\0{self.table}\0{key_text(parts)}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    # What an event says of it: a delivery is its own lifecycle.

    @property
    def lifecycle(self) -> "Delivery":
        return self
