"""Attempts on a store."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from raceproof.attempts import Attempts
from raceproof.attempts.answers import StartAnswer
from raceproof.attempts.request import WhenOpen, start_request
from raceproof.kernel.answers import Key
from raceproof.kernel.api import Calls
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program, reading

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

D = TypeVar("D", bound="Driver | AsyncDriver")


class StartOptions(TypedDict, total=False):
    """What may go along with the start of an attempt."""

    when_open: WhenOpen
    """What to do if the owner has an open attempt: supersede it (usual), keep it, or reject the new one."""
    columns: Mapping[str, Any] | None
    """Further columns of the new row."""
    by: str | None
    """Who starts it; kept in the history."""
    now: datetime | None
    """The time to use, for tests; the store's clock otherwise."""


class AttemptPrograms(Calls[D], Generic[D]):
    """The programs behind the calls."""

    def _start_attempt(self, attempts: Attempts, owner: Any, key: Key, options: StartOptions) -> Program[StartAnswer]:
        _check(attempts)
        asked = start_request(attempts, owner, key, tenant=self._of(attempts, owner), **options)
        started = time.monotonic()
        try:
            answer = yield from self.driver.programs.attempts.start(asked)
        except Exception as error:
            self._add_note(error, attempts, repr(owner))
            raise
        self.tell_all("start", (answer,), asked.by, started, (asked.tenant,))
        return answer

    def _current_attempt(self, attempts: Attempts, owner: Any, now: datetime | None) -> Program[dict[str, Any] | None]:
        _check(attempts)
        spec = attempts.lifecycle
        tenant = self._of(attempts, owner)
        anything = "-" if len(spec.key) == 1 else ("-",) * len(spec.key)
        asked = start_request(attempts, owner, anything, tenant=tenant, now=now)
        return (yield from reading(self.driver.programs.attempts.current(asked)))

    def _of(self, attempts: Attempts, owner: Any) -> Any:
        """Where the owner is the tenant, its rows are meant."""
        return owner if attempts.lifecycle.tenant == attempts.owner else self.tenant


def _check(attempts: Any) -> None:
    if not isinstance(attempts, Attempts):
        raise CallError(f"{attempts!r} is not a declaration of attempts; make one with Attempts(…)")


class SyncAttempts(AttemptPrograms["Driver"]):
    """Attempts on a sync connection."""

    def start_attempt(self, attempts: Attempts, owner: Any, key: Key, **options: Unpack[StartOptions]) -> StartAnswer:
        """Make a new row the owner's active attempt; an open predecessor is superseded, kept or respected."""
        return self.driver.run(self._start_attempt(attempts, owner, key, options))

    def current_attempt(self, attempts: Attempts, owner: Any, now: datetime | None = None) -> dict[str, Any] | None:
        """The owner's active attempt as it is now, or None."""
        return self.driver.run(self._current_attempt(attempts, owner, now))


class AsyncAttempts(AttemptPrograms["AsyncDriver"]):
    """Attempts on an async connection."""

    async def start_attempt(
        self, attempts: Attempts, owner: Any, key: Key, **options: Unpack[StartOptions]
    ) -> StartAnswer:
        """Make a new row the owner's active attempt; an open predecessor is superseded, kept or respected."""
        return await self.driver.run(self._start_attempt(attempts, owner, key, options))

    async def current_attempt(
        self, attempts: Attempts, owner: Any, now: datetime | None = None
    ) -> dict[str, Any] | None:
        """The owner's active attempt as it is now, or None."""
        return await self.driver.run(self._current_attempt(attempts, owner, now))
