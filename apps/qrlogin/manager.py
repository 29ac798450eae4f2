"""Starts attempts, and has them processed and examined; see `note` for the same without asyncio."""

import logging
import time
from typing import TYPE_CHECKING, Any

from qrlogin.beside import seconds_of
from qrlogin.identity import ANY_ACCOUNT, SessionId, account_of
from qrlogin.lifecycle import ACTIVE_SECONDS, AGAIN_SECONDS, Attempt, Status, attempts
from qrlogin.metrics import Metrics
from qrlogin.places import AttemptPlaces
from raceproof import Conflict, Started, Unknown
from raceproof.attempts import Rejected
from raceproof.moves import Answer

if TYPE_CHECKING:
    from qrlogin.ingest import Ingest

log = logging.getLogger("qrlogin.attempts")

PATIENCE = 5
SOON = 3.0
"""Seconds after which ingest looks for an attempt whose starter has died while it started it."""


class StoreBusy(Exception):
    """The store did not tell what came of a start; to ask again is safe."""


class Forgotten(Exception):
    """Nothing is known of this attempt any more."""


class TooLate(Exception):
    """The first start was too long ago to try again without a new one."""


class Manager:
    """Attempts of users. A start ends the open one before it, and none that has ended."""

    def __init__(
        self,
        places: AttemptPlaces,
        metrics: Metrics,
        by: str = "api",
        ingest: "Ingest | None" = None,
        any_account: bool = False,
    ) -> None:
        self._places = places
        self._metrics = metrics
        self._by = by
        self._ingest = ingest
        self._any_account = any_account

    async def create_session(
        self, user_id: str, ttl_seconds: int = ACTIVE_SECONDS, account_id: int | None = None
    ) -> str:
        """Start an attempt and make it the user's active one; returns its id.

        Only the phone of one Telegram account may scan for it: `account_id`, or the user id if it is one.
        """
        if account_id is not None:
            return await self._started(user_id, ttl_seconds, str(account_id), None)
        account = ANY_ACCOUNT if self._any_account else account_of(user_id)
        return await self._started(user_id, ttl_seconds, account, None)

    async def try_again(self, session_id: SessionId, ttl_seconds: int = ACTIVE_SECONDS) -> str:
        """A new attempt of the same user, for the same account, after one that is still known."""
        row = await self._places.row(session_id)
        if row is None:
            raise Forgotten("this login was so long ago that it is forgotten")
        chain = row.get("chain_unix") or session_id.unix
        if time.time() - int(chain) > AGAIN_SECONDS:
            raise TooLate("the first try was too long ago; start a new login")
        return await self._started(session_id.user_id, ttl_seconds, row.get("expected_account"), chain)

    async def _started(self, user_id: str, ttl_seconds: int, account: str | None, chain: str | None) -> str:
        if not 1 <= ttl_seconds <= ACTIVE_SECONDS:
            raise ValueError(f"an attempt lasts 1 to {ACTIVE_SECONDS} seconds")
        session_id = SessionId.made_for(user_id)
        for _ in range(PATIENCE):
            await self._places.beside.announce(session_id, SOON)
            columns = {
                "session_id": str(session_id),
                "ttl_seconds": ttl_seconds,
                "expected_account": account,
                "chain_unix": chain or session_id.unix,
            }
            answer = await self._places.store.start_attempt(
                attempts, user_id, session_id.key, columns=columns, by=self._by
            )
            match answer:
                case Started(superseded=ended):
                    await self._places.beside.announce(session_id)
                    self._metrics.reached(Status.PENDING)
                    if ended is not None:
                        old = SessionId(user_id, *map(str, ended))
                        self._metrics.reached(Status.SUPERSEDED, await self._age(old))
                    log.info("%s started%s", session_id, " in place of an open one" if ended else "")
                    if self._ingest is not None:
                        self._ingest.wake()
                    return str(session_id)
                case Rejected():  # eight random characters that were drawn before, in the same second
                    session_id = SessionId.made_for(user_id)
                case Unknown() | Conflict():
                    continue
        raise StoreBusy(f"the start of a login of {user_id} was not confirmed")

    async def get_active_session_for_user(self, user_id: str) -> dict[str, Any] | None:
        """The active attempt with all its columns, and never another."""
        return await self._places.active(user_id)

    async def process_qr_session(self, user_id: str) -> bool:
        """Take the active attempt of a user and bring it to its end; False if there is none, or another process has it."""
        if self._ingest is None:
            raise RuntimeError("this manager only starts attempts; give it an ingest")
        row = await self._places.active(user_id)
        if row is None:
            return False
        return await self._ingest.process(SessionId.parsed(row["session_id"]))

    async def cancel(self, session_id: SessionId) -> Answer[Any, Any]:
        """End an attempt because its user says so; refused once its session is being saved."""
        answer = await self._places.of(session_id.user_id).move(
            Attempt.cancel, session_id.key, set={"reason": "cancelled"}, by=self._by, reason="cancelled"
        )
        if answer.won:
            self._metrics.reached(Status.FAILED, await self._age(session_id))
            log.info("%s is failed: cancelled", session_id)
        return answer

    async def _age(self, session_id: SessionId) -> float | None:
        """Seconds since it was started, for the figures; none if that cannot be found out now."""
        try:
            row = await self._places.row(session_id)
            began = None if row is None else seconds_of(row["created_at"])
            return None if began is None else max(0.0, await self._places.beside.now() - began)
        except Exception as error:
            log.debug("the age of %s is not known (%s)", session_id, type(error).__name__)
            return None

    async def check_session_health(self, user_id: str) -> dict[str, Any]:
        """What is wrong with the attempts of a user, with the repair."""
        from qrlogin.diagnose import health_of_user

        return await health_of_user(self._places, user_id)
