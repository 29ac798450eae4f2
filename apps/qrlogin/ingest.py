"""The ingest worker: takes attempts that no process holds, and brings each to its end, many at once."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable
from typing import Any

from appkit.loops import Loop
from qrlogin.beside import seconds_of
from qrlogin.beside_sql import BesideDatabase
from qrlogin.identity import SessionId
from qrlogin.leaving import end_session
from qrlogin.lifecycle import ENDED, Attempt, Status
from qrlogin.login import Login, Manners
from qrlogin.metrics import Metrics
from qrlogin.places import Places
from qrlogin.settings import Settings
from qrlogin.telegram import ClientMaker
from raceproof import Claim, Lost, Missing, Taken

log = logging.getLogger("qrlogin.ingest")

POLL = 0.2
BATCH = 100
"""Attempts that are being begun at once. The next are taken when these show their codes: a process that takes over a
crowd, and may die any moment, brings some of them on instead of all of them nowhere."""
LATER = 2.0
"""Seconds until an attempt is looked at again that could not be taken."""
UPKEEP = 20.0
STOPPING = 10.0
"""Seconds that logins have to end when the process does."""
PATIENCE = 3.0


class Ingest:
    """One process of it. Several may run: an attempt belongs to the one that has claimed it."""

    def __init__(self, places: Places, clients: ClientMaker, metrics: Metrics, settings: Settings) -> None:
        self._places, self._clients, self._metrics = places, clients, metrics
        self._lease = settings.lease
        self._parallel = settings.parallel
        self._manners = Manners(settings.renew_before, settings.password_tries)
        self._by = settings.instance
        self._running: dict[SessionId, tuple[Login, asyncio.Task[None]]] = {}
        self._woken = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """There may be something new."""
        self._woken.set()

    async def run(self, loop: Loop) -> None:
        """Look for attempts until it is stopped."""
        while not self._stopping:
            loop.beat()
            beginning = sum(not login.is_begun for login, _ in self._running.values())
            room = min(BATCH - beginning, self._parallel - len(self._running))
            waiting = await self._places.beside.waiting(room) if room > 0 else []
            new = [one for one in waiting if one not in self._running]
            await asyncio.gather(*map(self._take, new))
            if len(new) < BATCH:  # nothing waits, or there is no room
                self._woken.clear()
                await _within(self._woken.wait(), POLL)

    async def renew(self, loop: Loop) -> None:
        """Renew what is held, all together, and give up what was lost."""
        while True:
            loop.beat()
            await asyncio.sleep(min(1.0, self._lease / 5))
            try:
                await self._renew_all()
            except Exception as error:  # the store is away for a moment; fences hold meanwhile
                log.warning("nothing could be renewed (%s)", type(error).__name__)

    async def _renew_all(self) -> None:
        held = [one for one in self._running.values() if not one[1].done()]
        if not held:
            return
        told = await self._places.store.renew([login.claim for login, _ in held], self._lease)
        kept = []
        for (login, task), answer in zip(held, told, strict=True):
            if isinstance(answer, Claim):
                login.claim = answer
                kept.append(login.session_id)
            elif isinstance(answer, Lost) and answer.status == Status.DONE:
                pass  # it has just ended, by its own last move
            elif isinstance(answer, Lost | Missing):
                _give_up(login, task)
        await self._places.beside.postpone(kept, self._lease)

    async def upkeep(self, loop: Loop) -> None:
        """Sessions that were held when a process died, and on a database what has had its time."""
        while True:
            loop.beat()
            for session_id in await self._places.saving.held():
                await self._settle(session_id)
            if isinstance(self._places.beside, BesideDatabase):
                await self._places.beside.forget_old()
            await asyncio.sleep(UPKEEP)

    async def process(self, session_id: SessionId) -> bool:
        """Take this attempt now and wait until it has ended; whether it was ours."""
        await self._places.beside.announce(session_id)
        await self._take(session_id)
        found = self._running.get(session_id)
        if found is None:
            return False
        await asyncio.wait([found[1]])
        return True

    def halt(self) -> None:
        """Take nothing more."""
        self._stopping = True
        self.wake()

    async def stop(self) -> None:
        """Give back what is held, after `halt`: another process goes on with it at once."""
        until = time.monotonic() + STOPPING
        while self._running and time.monotonic() < until:
            for login, task in self._running.values():
                _give_up(login, task)
            await asyncio.wait([task for _, task in self._running.values()], timeout=0.5)

    async def _take(self, session_id: SessionId) -> None:
        db = self._places.of(session_id.user_id)
        answer = await db.claim_one(Attempt.ingest, session_id.key, by=self._by, lease=self._lease)
        match answer:
            case Claim() if self._stopping:
                await self._places.store.release([answer])
            case Claim():
                await self._places.beside.postpone([session_id], self._lease)
                login = Login(self._places, self._clients, self._metrics, self._manners, session_id, answer)
                task = asyncio.create_task(self._look_after(login), name=str(session_id))
                self._running[session_id] = login, task
            case Missing():
                await self._places.beside.leave([session_id])
            case Taken(status=status) if status in ENDED:
                await self._places.beside.leave([session_id])
            case _:
                await self._places.beside.postpone([session_id], LATER)

    async def _look_after(self, login: Login) -> None:
        session_id = login.session_id
        try:
            active = await self._places.active(session_id.user_id)
            login.still_wanted()
            if active is not None and active["session_id"] != str(session_id):
                # open, and not the active one: it was written without the library
                await self._places.of(session_id.user_id).move(
                    Attempt.fail, login.claim, set={"reason": "not_active"}, by=self._by
                )
                return
            await login.run()
        except asyncio.CancelledError:
            log.info("%s is given up here", session_id)
            raise
        except Exception as error:  # its message may carry what must not be told
            log.error("%s broke off with %s", session_id, type(error).__name__)
            log.debug("", exc_info=error)
        finally:
            await asyncio.shield(self._let_go(login))

    async def _let_go(self, login: Login) -> None:
        """What is still open can be taken by another, or by us, in a moment."""
        self._running.pop(login.session_id, None)
        try:
            [answer] = await self._places.store.release([login.claim])
            if answer.outcome == "released":
                await self._places.beside.announce(login.session_id, 0.0 if self._stopping else 1.0)
            elif isinstance(answer, Lost) and answer.status in ENDED:
                await self._places.beside.leave([login.session_id])
        except Exception as error:
            log.warning("%s could not be given back (%s); its lease ends", login.session_id, type(error).__name__)

    async def _settle(self, session_id: SessionId) -> None:
        """A session that is still held: kept if its attempt had saved it before it ended, else ended at Telegram."""
        row = await self._places.row(session_id)
        if row is not None and row["status"] not in ENDED:
            return
        if row is not None and seconds_of(row.get("saved_at")) is not None:
            await self._places.saving.keep(session_id)
            return
        session = await self._places.saving.held_session(session_id)
        if session is not None and not await end_session(self._clients(session)):
            return  # Telegram is away; the next round tries again
        log.warning("%s ended before its session was saved; the session was logged out", session_id)
        await self._places.saving.drop(session_id)


def _give_up(login: Login, task: "asyncio.Task[None]") -> None:
    """Tell it to stop; again after a while, for a cancellation may be lost on its way through a library."""
    now = time.monotonic()
    if now - login.given_up > PATIENCE:
        login.given_up = now
        task.cancel()


async def _within(waiting: Awaitable[Any], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
