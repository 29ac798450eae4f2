"""Sessions of users, saved exactly once.

A session comes in before it is decided whether its attempt may save it (`hold`). The decision is the attempt's own move to
`session_saved`. After it the session becomes the user's current one (`keep`), and may be kept again by whoever takes over;
without it, it is forgotten (`drop`).
"""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, select, update

from appkit.database import Database, store_now
from qrlogin.identity import SessionId
from qrlogin.lifecycle import SavedSession, Standing, current_sessions
from qrlogin.sealing import CannotOpen, Vault
from qrlogin.tables import held_sessions, insert_into, saved_sessions
from raceproof import Started
from raceproof.attempts import Rejected
from raceproof.moves import Answer

ROTATED_AT_ONCE = 200
SHOWN = ("session_id", "user_id", "account_id", "status", "key_id", "saved_at", "ended_at", "replaced_by")


@dataclass(frozen=True, slots=True)
class Current:
    """A saved session, opened."""

    session_id: str
    account_id: str
    session: str = field(repr=False)


class Saving:
    """The table of sessions."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def hold(self, session_id: SessionId, account_id: int, session: str) -> None:
        """Keep a session until it is decided about; the same again changes nothing."""
        sealed = self._vault.seal(f"session {session_id}", session)
        async with self._database.transaction() as (connection, _):
            await connection.execute(
                insert_into(self._database, held_sessions)
                .values(
                    session_id=str(session_id),
                    user_id=session_id.user_id,
                    account_id=str(account_id),
                    key_id=sealed.key_id,
                    sealed=sealed.text,
                    held_at=store_now(connection),
                )
                .on_conflict_do_nothing()
            )

    async def keep(self, session_id: SessionId) -> bool:
        """Make a held session the user's current one; whether it is saved, by this call or an earlier one."""
        async with self._database.transaction() as (connection, db):
            current = (
                await connection.execute(
                    select(saved_sessions.c.session_id, saved_sessions.c.saved_at)
                    .where(saved_sessions.c.user_id == session_id.user_id)
                    .where(saved_sessions.c.status == Standing.CURRENT)
                    .with_for_update()
                )
            ).first()
            wanted = held_sessions.c.session_id == str(session_id)
            held = (await connection.execute(select(held_sessions).where(wanted))).mappings().first()
            if held is None:
                known = select(saved_sessions.c.session_id).where(saved_sessions.c.session_id == str(session_id))
                return (await connection.execute(known)).first() is not None
            await connection.execute(delete(held_sessions).where(wanted))
            # one that was decided before the current login, and kept too late, must not take its place
            if current is not None and current.saved_at > held["held_at"]:
                return str(current.session_id) == str(session_id)
            columns = {name: held[name] for name in ("account_id", "key_id", "sealed")}
            answer = await db.start_attempt(
                current_sessions, held["user_id"], str(session_id), columns=columns, by="keep"
            )
            if not isinstance(answer, Started | Rejected):
                raise ConnectionError(str(answer))
            return True

    async def drop(self, session_id: SessionId) -> None:
        """Forget a session whose attempt may not save it."""
        async with self._database.transaction() as (connection, _):
            await connection.execute(delete(held_sessions).where(held_sessions.c.session_id == str(session_id)))

    async def held_session(self, session_id: SessionId) -> str | None:
        """A session that is held, as Telethon takes it; nothing if no key of ours opens it."""
        async with self._database.read() as connection:
            found = await connection.execute(
                select(held_sessions.c.sealed).where(held_sessions.c.session_id == str(session_id))
            )
            sealed = found.scalar()
        try:
            return None if sealed is None else self._vault.open(f"session {session_id}", sealed)
        except CannotOpen:
            return None

    async def held(self, limit: int = 100) -> list[SessionId]:
        """Sessions that are held, the oldest first."""
        async with self._database.read() as connection:
            found = await connection.execute(
                select(held_sessions.c.session_id).order_by(held_sessions.c.held_at).limit(limit)
            )
            return [SessionId.parsed(one) for one in found.scalars()]

    async def listed(self, user_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """What is saved, the newest first, without the sessions themselves."""
        wanted = select(*(saved_sessions.c[name] for name in SHOWN))
        if user_id is not None:
            wanted = wanted.where(saved_sessions.c.user_id == user_id)
        async with self._database.read() as connection:
            found = await connection.execute(wanted.order_by(saved_sessions.c.saved_at.desc()).limit(limit))
            return [dict(row) for row in found.mappings()]

    async def current(self, user_id: str) -> "Current | None":
        """The current session of a user."""
        wanted = (saved_sessions.c.user_id == user_id, saved_sessions.c.status == Standing.CURRENT)
        return await self._opened(*wanted)

    async def session_of(self, user_id: str) -> str | None:
        """The current session of a user, as Telethon takes it: a full credential."""
        found = await self.current(user_id)
        return None if found is None else found.session

    async def saved(self, session_id: str) -> "Current | None":
        """A session that was saved, whether it is current or not."""
        return await self._opened(saved_sessions.c.session_id == session_id)

    async def _opened(self, *wanted: ColumnElement[bool]) -> "Current | None":
        columns = (saved_sessions.c[name] for name in ("session_id", "account_id", "sealed"))
        async with self._database.read() as connection:
            row = (await connection.execute(select(*columns).where(*wanted))).first()
        if row is None:
            return None
        session = self._vault.open(f"session {row.session_id}", row.sealed)
        return Current(row.session_id, row.account_id, session)

    async def revoke(self, session_id: str, reason: str, by: str) -> Answer[Any, Any]:
        """A session that is not to be used any more."""
        return await self._database.store.move(
            SavedSession.revoke, session_id, set={"reason": reason}, by=by, reason=reason
        )

    async def rotate(self) -> int:
        """Seal with the newest key what an older one has sealed; how many there were.

        In small transactions: logins are saved in between.
        """
        number = 0
        for table in (saved_sessions, held_sessions):
            while some := await self._rotate_some(table):
                number += some
        return number

    async def _rotate_some(self, table: Table) -> int:
        async with self._database.read() as connection:
            found = await connection.execute(
                select(table.c.session_id, table.c.sealed)
                .where(table.c.key_id != self._vault.newest)
                .limit(ROTATED_AT_ONCE)
            )
            rows = found.all()
        resealed = []
        for session_id, sealed in rows:
            purpose = f"session {session_id}"
            resealed.append((session_id, sealed, self._vault.seal(purpose, self._vault.open(purpose, sealed))))
        async with self._database.transaction() as (connection, _):
            for session_id, sealed, fresh in resealed:
                await connection.execute(
                    update(table)
                    .where(table.c.session_id == session_id, table.c.sealed == sealed)
                    .values(sealed=fresh.text, key_id=fresh.key_id)
                )
        return len(rows)
