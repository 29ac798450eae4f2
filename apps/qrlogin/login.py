"""One login, from the claim of its attempt to its end.

Every write names the claim, so one who was replaced, or whose attempt has ended, writes nothing more; it then logs its
client out again, so that no login is left at Telegram unsaved.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from qrlogin.beside import seconds_of
from qrlogin.identity import ANY_ACCOUNT, SessionId
from qrlogin.leaving import leave
from qrlogin.lifecycle import ACTIVE_SECONDS, ENDED, Attempt, Status
from qrlogin.metrics import Metrics
from qrlogin.places import Places
from qrlogin.telegram import Client, ClientMaker, Silent, answered, seconds_of_code, sign_in
from qrlogin.tl import (
    FloodWaitError,
    PasswordHashInvalidError,
    QRLogin,
    RPCError,
    SessionPasswordNeededError,
    events,
    functions,
    types,
)
from raceproof import Claim, Conflict, Lost, RaceproofError, StoreUnavailable, Unknown
from raceproof.declare import Move

T = TypeVar("T")
log = logging.getLogger("qrlogin.login")

MARGIN = 15.0
"""Seconds before Redis forgets an open attempt, in which it is ended."""
LOOK = 0.25
PATIENCE = 30.0
"""Seconds for which a store is asked again that cannot be reached, or takes no writes."""
UNREACHABLE = 60.0
"""Seconds after which an attempt fails for which Telegram never gave a code."""


class Ended(Exception):
    """The attempt is no longer ours to write: it has ended, or another process holds it (`lost`)."""

    def __init__(self, why: str, lost: bool = False) -> None:
        super().__init__(why)
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Manners:
    """How a login is done."""

    renew_before: float = 5.0
    password_tries: int = 5


class Login:
    """The attempt that a claim holds."""

    def __init__(
        self, places: Places, clients: ClientMaker, metrics: Metrics, manners: Manners,
        session_id: SessionId, claim: Claim[Any, Any],
    ) -> None:  # fmt: skip
        self.session_id = session_id
        self.claim = claim
        self._places, self._clients, self._metrics, self._manners = places, clients, metrics, manners
        self._account = ""
        """Which account may scan, or ANY_ACCOUNT."""
        self._began = 0.0
        self._ends = 0.0
        self._shown = 0
        self._is_scanned = False
        self._handed_on = False
        """Whether another process may save the session, or has: then the client must not be logged out."""
        self.given_up = 0.0
        """When it was last told to stop."""

    async def run(self) -> None:
        """Bring it to an end, wherever it stands."""
        try:
            row = await self._places.row(self.session_id)
            if row is None:
                return
            # an attempt from before this column was kept is for the account of its user
            self._account = row.get("expected_account") or self.session_id.user_id
            now = await self._places.beside.now()
            self._began = time.monotonic() - (now - (seconds_of(row["created_at"]) or now))
            self._ends = self._began + min(float(row["ttl_seconds"]), ACTIVE_SECONDS - MARGIN)
            match self.claim.before:
                case Status.AUTHORIZED | Status.SESSION_SAVED:
                    await self._save()
                case Status.SCANNED:
                    await self._fail("ingest_restarted")  # the client that was scanned is gone
                case _ if self._left <= 0:
                    await self._expire()
                case _:
                    await self._with_client(self._clients())
        except Ended as ended:
            log.info("%s: %s", self.session_id, ended)

    @property
    def is_begun(self) -> bool:
        """Whether its code was shown: from then on it waits for people most of the time."""
        return self._shown > 0

    def still_wanted(self) -> None:
        """Ends the task that was told to stop, where that was lost on its way through a library."""
        if self.given_up:
            raise asyncio.CancelledError

    @property
    def _left(self) -> float:
        return self._ends - time.monotonic()

    async def _with_client(self, client: Client) -> None:
        scanned = asyncio.Event()
        try:
            try:
                await answered(client.connect(), self._left)
                account = await self._entered(client, scanned)
            except (Silent, OSError):
                if not await self._ended_in_silence():
                    raise
                return
            except FloodWaitError as error:
                log.warning("%s: Telegram asks to wait for %s s", self.session_id, error.seconds)
                await self._fail("flood_wait")
                return
            except RPCError as error:
                log.warning("%s: Telegram answered %s", self.session_id, type(error).__name__)
                await self._fail("telegram_refused")
                return
            if account is not None:
                await self._authorize(client, account)
        finally:
            # a phone has said yes, and nothing came of it
            in_vain = scanned.is_set() and not self._handed_on
            await leave(client, log_out=in_vain)

    async def _ended_in_silence(self) -> bool:
        """Telegram does not answer, or the time is over; False if it is worth another try."""
        if self._left <= 0:
            await self._expire()
        elif self._is_scanned:
            await self._fail("telegram_silent")
        elif self.claim.before is Status.PENDING and time.monotonic() - self._began > UNREACHABLE:
            await self._fail("telegram_unreachable")
        else:
            return False
        return True

    async def _entered(self, client: Client, scanned: asyncio.Event) -> Any:
        """Show codes until one is scanned, ask for a password if there is one; who has entered, or nothing."""

        async def heard(_: Any) -> None:
            scanned.set()

        client.add_event_handler(heard, events.Raw(types.UpdateLoginToken))
        code = await answered(client.qr_login(), self._left)
        # waits all the time, beside the renewals: a scan of any code that is still good is heard
        entering = asyncio.create_task(code.wait(self._left))
        try:
            await asyncio.sleep(0)
            await self._show_code(client, code)
            if self.claim.before is Status.PENDING:
                await self._go(Attempt.render)
            try:
                account = await self._renewing(client, code, entering, scanned)
                if account is None:
                    account = await answered(entering, self._left)
            except SessionPasswordNeededError:
                await self._scan(scanned)
                return await self._password(client)
            await self._scan(scanned)
            return account
        finally:
            client.remove_event_handler(heard)
            if not entering.done():
                if scanned.is_set():
                    await asyncio.wait([entering], timeout=5)  # so that there is something to log out of
                entering.cancel()
            await asyncio.wait([entering])
            if not entering.cancelled():
                entering.exception()

    async def _renewing(
        self, client: Client, code: QRLogin, entering: "asyncio.Task[Any]", scanned: asyncio.Event
    ) -> Any:
        """Show the next code before one expires, until one is scanned; who has entered, if a renewal told it."""
        hearing = asyncio.create_task(scanned.wait())
        before = b""
        try:
            while True:
                rest = self._rest(client, code, code.token == before)
                before = code.token
                done, _ = await asyncio.wait([entering, hearing], timeout=rest, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    if hearing in done:
                        await self._scan(scanned)
                    return None
                await answered(code.recreate(), self._left)
                told = code._resp
                # scanned just now: the answer to the renewal is the login itself
                if isinstance(told, types.auth.LoginTokenMigrateTo):
                    await answered(client._switch_dc(told.dc_id), self._left)
                    again = functions.auth.ImportLoginTokenRequest(told.token)
                    told = await answered(client(again), self._left)
                if isinstance(told, types.auth.LoginTokenSuccess):
                    entering.cancel()
                    return await client._on_login(told.authorization.user)
                self._metrics.renewed.inc()
                await self._show_code(client, code)
        finally:
            hearing.cancel()

    def _rest(self, client: Client, code: QRLogin, is_same: bool) -> float:
        """Seconds until the next code is asked for: before this one ends, or after it, if Telegram gave the same again."""
        left = seconds_of_code(client, code)
        if is_same:
            return left + 1.0
        before = self._manners.renew_before
        return min(60.0, max(1.0, left - before if before < left else left / 2))

    async def _scan(self, scanned: asyncio.Event) -> None:
        """A phone has said yes."""
        scanned.set()
        if not self._is_scanned:
            await self._go(Attempt.scan)
            self._is_scanned = True

    async def _password(self, client: Client) -> Any:
        """Ask for the password; the client stays connected meanwhile."""
        wrong = 0
        while True:
            left = self._manners.password_tries - wrong
            await self._show({"password": {"wrong": wrong, "tries_left": left}}, self._left)
            while True:
                if self._left <= 0:
                    await self._fail("password_timeout")
                    raise Ended("no password was given in time")
                sealed = await self._patiently(lambda: self._places.beside.take_password(self.session_id))
                if sealed is not None:
                    break
                await asyncio.sleep(LOOK)
            try:
                told = self._places.vault.open(f"password {self.session_id}", sealed)
                return await sign_in(client, told, self._left)
            except PasswordHashInvalidError:
                wrong += 1
                log.info("%s: a wrong password, the %s. of %s", self.session_id, wrong, wrong + left - 1)
                if wrong >= self._manners.password_tries:
                    await self._fail("password_wrong")
                    raise Ended("too many wrong passwords") from None

    async def _authorize(self, client: Client, account: Any) -> None:
        user = getattr(account, "user", account)
        if self._account not in (ANY_ACCOUNT, str(user.id)):
            log.warning("%s: account %s scanned, not %s", self.session_id, user.id, self._account)
            await self._fail("other_account")
            return
        session = client.session.save()
        try:
            await self._patiently(lambda: self._places.saving.hold(self.session_id, user.id, session))
        except Exception:
            await self._fail("database_save_failed")
            raise
        # from here on a process that takes over finds the session, and may save it before we hear of it
        self._handed_on = True
        try:
            await self._go(Attempt.authorize, account_id=str(user.id))
        except Ended:
            await self._take_back()
            raise
        try:
            await self._save()
        except Ended as ended:
            if not ended.lost:
                await self._take_back()
            raise

    async def _take_back(self) -> None:
        """The attempt has ended before its session was saved, so it will not be saved."""
        self._handed_on = False
        await self._patiently(lambda: self._places.saving.drop(self.session_id))

    async def _save(self) -> None:
        """The move decides whether the session may be saved; from then on it is, whoever does the rest."""
        if self.claim.before is not Status.SESSION_SAVED:
            await self._go(Attempt.save)
        if not await self._patiently(lambda: self._places.saving.keep(self.session_id)):
            await self._fail("session_lost")
            return
        with contextlib.suppress(Ended):  # superseded after it was saved: the next login replaces the session
            await self._go(Attempt.finish)

    async def _show_code(self, client: Client, code: QRLogin) -> None:
        left = seconds_of_code(client, code)
        await self._show({"url": code.url, "expires": time.time() + left}, max(1.0, left))

    async def _show(self, what: dict[str, Any], seconds: float) -> None:
        self._shown += 1
        fence = int(self.claim.fence)
        told = json.dumps({**what, "version": f"{fence}-{self._shown}"})
        sealed = self._places.vault.seal(f"shown {self.session_id}", told)
        await self._patiently(lambda: self._places.beside.show(self.session_id, fence, sealed.text, seconds))

    async def _expire(self) -> None:
        if self._is_scanned:
            await self._fail("too_late")
        else:
            await self._go(Attempt.expire, reason="not_scanned")

    async def _fail(self, reason: str) -> None:
        await self._go(Attempt.fail, reason=reason)

    async def _go(self, move: Move[Any], **columns: Any) -> None:
        """A move of ours; `Ended` if it is refused."""

        async def ask() -> Any:
            answer = await self._places.of(self.session_id.user_id).move(
                move, self.claim, set=columns, by=self.claim.by, reason=columns.get("reason")
            )
            if isinstance(answer, Unknown | Conflict):
                raise ConnectionError(str(answer))
            return answer

        answer = await self._patiently(ask)
        if not answer.reached:
            taken = isinstance(answer, Lost) and answer.status not in ENDED
            raise Ended(f"{move.name} came too late, {answer.outcome}", lost=taken)
        if answer.won:
            self._metrics.reached(Status(move.target), time.monotonic() - self._began)
            log.info("%s is %s%s", self.session_id, move.target, _because(columns))

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask a store again that is away for a moment; to ask twice is safe for all that is asked here."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                told = await call()
                self.still_wanted()
                return told
            except Exception as error:  # of a driver; its message may carry what must not be told
                wrong = isinstance(error, RaceproofError) and not isinstance(error, StoreUnavailable)
                if wrong or time.monotonic() > until:
                    raise
                log.warning("%s: a store did not answer (%s)", self.session_id, type(error).__name__)
            await asyncio.sleep(LOOK)


def _because(columns: dict[str, Any]) -> str:
    return f": {columns['reason']}" if "reason" in columns else ""
