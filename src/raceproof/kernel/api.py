"""What all calls on a store share: whose rows it sees, and how answers become events."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from raceproof.declare.spec import Claimable, Move
from raceproof.kernel import events
from raceproof.kernel.errors import CallError, StoreUnavailable
from raceproof.kernel.sqlstate import READ_ONLY, sqlstate
from raceproof.kernel.statement import AcknowledgementLost, Conflicted

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

D = TypeVar("D", bound="Driver | AsyncDriver")

NOTHING_KEPT = "this call wrote nothing"
ASKED_AGAIN = "this attempt wrote nothing; what an earlier call with the same id did stays as it is; ask again"


class Calls(Generic[D]):
    """A driver, a tenant, and the one place where the calls of a store report their events."""

    def __init__(self, driver: D, tenant: Any = None) -> None:
        self.driver: D = driver
        self.tenant = tenant

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dialect}>"

    @property
    def dialect(self) -> str:
        """Which kind of store this is: postgres, sqlite or redis."""
        name: str = self.driver.dialect.name
        return name

    def for_tenant(self, tenant: Any) -> Self:
        """The same store, seeing only the rows of one tenant."""
        return type(self)(self.driver, tenant)

    def tell(self, operation: str, answer: Any, by: str | None, started: float, tenant: Any) -> None:
        move: Move[Any] | Claimable[Any] = answer.declared
        events.tell(
            events.Event(
                operation=operation,
                outcome=answer.outcome,
                lifecycle=move.lifecycle.name,
                move=move.name,
                key=answer.key,
                by=by,
                settled=self.driver.settled,
                started=started,
                answer=answer,
                tenant=tenant if getattr(move.lifecycle, "tenant", None) else None,
            )
        )

    def tell_all(
        self,
        operation: str,
        answers: Sequence[Any],
        by: str | None,
        started: float,
        tenants: Iterable[Any] | None = None,
    ) -> None:
        """Report one event for each answer; `tenants` says whose rows they were, where that is not the store's tenant."""
        if events.subscribers:
            of = [self.tenant] * len(answers) if tenants is None else tenants
            for answer, tenant in zip(answers, of, strict=True):
                self.tell(operation, answer, by, started, tenant)

    def _kept_of_many(self, some: str) -> str:
        """What is kept of many rows when a call fails: on Redis each is decided alone, in SQL all in one statement."""
        return some if self.dialect == "redis" else NOTHING_KEPT

    def _add_note(self, error: Exception, declared: Any, what: str, kept: str = NOTHING_KEPT) -> None:
        """Note on a driver's error what was asked, and what of it is kept."""
        if isinstance(error, AcknowledgementLost | Conflicted) and isinstance(error.__cause__, Exception):
            raise error.__cause__
        if not isinstance(error, CallError):
            error.add_note(
                f"raceproof: {declared} of {what} in table {declared.lifecycle.table}: {kept}. {_hint(error)}"
            )


def _hint(error: Exception) -> str:
    """What to do about an error of the driver's."""
    if isinstance(error, StoreUnavailable):
        return "The same call again is safe."
    if sqlstate(error) == READ_ONLY:
        return (
            "This server takes no writes: it is a standby, or a primary that was demoted. Connect to the primary, or list "
            "every server in the URL with target_session_attrs=read-write, so that `connect` finds it."
        )
    return "`raceproof verify` compares the table with the declaration."
