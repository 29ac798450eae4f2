"""One active attempt for an owner, declared once: whose attempts, and how a new one ends the old one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from raceproof.declare.lifecycle import Lifecycle, spec_of
from raceproof.declare.spec import Move, Spec, check_seconds
from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.keys import key_text
from raceproof.kernel.quoting import identifier


@dataclass(frozen=True, eq=False)
class Attempts:
    """The attempts of an owner: rows of a lifecycle, of which at most one is open.

    `supersede` is the move that ends an open one when the next begins, and `link` the column among its `sets` that then
    names its successor. `started` is stamped when an attempt begins; with `ttl`, an open one older than that is no longer
    the owner's current one. Further columns are given with each start.
    """

    of: type[Lifecycle[Any]] | Spec[Any]
    owner: str
    supersede: Move[Any]
    link: str | None = None
    started: str | None = None
    ttl: float | None = None
    expire: Move[Any] | None = None
    """The move of an open attempt whose time is over; `raceproof sweep` makes it. None: it stays as it is."""
    active_key: str | None = None
    """Redis: the name before the owner in the key of the pointer to the active attempt; `<table>/active` if not given."""
    owned_key: str | None = None
    """Redis: the name before the owner in the key of the set of its attempts; `<table>/owned` if not given."""

    def __post_init__(self) -> None:
        spec = self.lifecycle
        identifier(self.owner)
        for column in (self.started, self.link):
            if column is not None:
                identifier(column)
        problem = ""
        if self.supersede.lifecycle is not spec:
            problem = f"supersede= is a move of {spec}"
        elif self.supersede.target not in spec.terminal:
            problem = f"{self.supersede} must lead to a terminal status, not to {self.supersede.target!r}"
        elif missing := [status for status in self.open if status not in self.supersede.sources]:
            problem = f"{self.supersede} must lead from every open status, also from {', '.join(missing)}"
        elif self.supersede.where:
            # P9: refused by it, the old one would stay open beside the new one
            problem = f"{self.supersede} must have no where=, which could keep an open attempt open"
        elif aside := self._aside:
            problem = (
                f"{', '.join(aside)} is where claims set rows aside, and an open status: with expires= Redis would keep "
                "such a row longer than the pointer to it; let dead_letter= lead to a terminal status"
            )
        elif self.link is not None and self.link not in self.supersede.sets:
            problem = f"link={self.link!r} must be one of the columns that {self.supersede} sets"
        elif self.ttl is not None and self.started is None:
            problem = "ttl= needs started=, the column that says when an attempt began"
        elif self.expire is not None and self.expire.lifecycle is not spec:
            problem = f"expire= is a move of {spec}"
        elif self.expire is not None and self.expire.target not in spec.terminal:
            problem = f"{self.expire} must lead to a terminal status, not to {self.expire.target!r}"
        elif self.expire is not None and self.ttl is None:
            problem = "expire= needs ttl=, the time after which an attempt is over"
        if problem:
            raise DeclarationError(f"attempts of {spec}: {problem}")
        if self.ttl is not None:
            check_seconds(f"attempts of {spec}: ttl", self.ttl)

    @cached_property
    def lifecycle(self) -> Spec[Any]:
        return spec_of(self.of)

    @property
    def name(self) -> str:
        return "attempt"

    @cached_property
    def owner_columns(self) -> tuple[str, ...]:
        """What distinguishes owners: the same name at two tenants is two owners."""
        tenant = self.lifecycle.tenant
        return (self.owner,) if tenant is None or tenant == self.owner else (tenant, self.owner)

    def owner_text(self, owner: Any, tenant: Any) -> str:
        """An owner as a text that no other owner has, at whatever tenant."""
        return key_text((tenant, owner)) if len(self.owner_columns) > 1 else str(owner)

    @property
    def open(self) -> tuple[Any, ...]:
        """The statuses of an attempt that has not ended."""
        spec = self.lifecycle
        return tuple(status for status in spec.statuses if status not in spec.terminal)

    @property
    def _aside(self) -> list[str]:
        """Open statuses whose rows Redis keeps from the day that they were dead-lettered, and the pointer from its start."""
        spec = self.lifecycle
        return [str(status) for status in self.open if spec.expires and str(status) in spec.ended]

    def __str__(self) -> str:
        return f"{self.lifecycle.name}.attempt"
