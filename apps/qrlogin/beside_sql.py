"""What lies beside the attempts where they live in a database."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from sqlalchemy import delete, func, or_, select

from appkit.database import Database, store_now
from qrlogin.beside import Known
from qrlogin.identity import SessionId
from qrlogin.lifecycle import ENDED_SECONDS, OPEN
from qrlogin.tables import history, insert_into, passwords, sessions, shown

BATCH = 500


async def check_writes(database: Database, by: str) -> None:
    """A row of our own, written again; `forget_old` removes it when this instance is gone."""
    async with database.transaction() as (connection, _):
        now = (await connection.execute(select(store_now(connection)))).scalar_one()
        told = {"sealed": "", "until": now + timedelta(seconds=60)}
        await connection.execute(
            insert_into(database, shown)
            .values(session_id=f"health of {by}", fence=0, **told)
            .on_conflict_do_update(index_elements=["session_id", "fence"], set_=told)
        )


class BesideDatabase:
    """Attempts are found by the index of open ones, so they need not be announced."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> float:
        async with self._database.read() as connection:
            return float((await connection.execute(select(store_now(connection)))).scalar_one().timestamp())

    async def check_writes(self, by: str) -> None:
        await check_writes(self._database, by)

    async def announce(self, session_id: SessionId, delay: float = 0.0) -> None:
        pass

    async def waiting(self, limit: int) -> list[SessionId]:
        async with self._database.read() as connection:
            until = sessions.c.claimed_until
            found = await connection.execute(
                select(sessions.c.session_id)
                .where(sessions.c.status.in_(OPEN))
                .where(or_(until.is_(None), until < store_now(connection)))
                .order_by(sessions.c.created_at)
                .limit(limit)
            )
            return [SessionId.parsed(one) for one in found.scalars()]

    async def postpone(self, session_ids: Iterable[SessionId], seconds: float) -> None:
        pass

    async def leave(self, session_ids: Sequence[SessionId]) -> None:
        pass

    async def count_open(self) -> int:
        async with self._database.read() as connection:
            counted = select(func.count()).select_from(sessions).where(sessions.c.status.in_(OPEN))
            return int((await connection.execute(counted)).scalar_one())

    async def known(self, user_id: str) -> Known:
        async with self._database.read() as connection:
            found = await connection.execute(
                select(sessions)
                .where(sessions.c.user_id == user_id)
                .order_by(sessions.c.created_at.desc())
                .limit(BATCH)
            )
            rows = {row["session_id"]: dict(row) for row in found.mappings()}
        pointer = next((name for name, row in rows.items() if row["status"] in OPEN), None)
        return Known(pointer, rows)

    async def forget(self, session_id: SessionId) -> bool:
        async with self._database.transaction() as (connection, _):
            found = await connection.execute(
                delete(sessions).where(sessions.c.session_id == str(session_id), sessions.c.status.not_in(OPEN))
            )
            if found.rowcount:
                await connection.execute(delete(history).where(history.c.key == str(session_id)))
            return bool(found.rowcount)

    async def mend(self, known: Known) -> None:
        pass

    async def show(self, session_id: SessionId, fence: int, sealed: str, seconds: float) -> None:
        async with self._database.transaction() as (connection, _):
            now = (await connection.execute(select(store_now(connection)))).scalar_one()
            told = {"sealed": sealed, "until": now + timedelta(seconds=seconds)}
            await connection.execute(
                insert_into(self._database, shown)
                .values(session_id=str(session_id), fence=fence, **told)
                .on_conflict_do_update(index_elements=["session_id", "fence"], set_=told)
            )

    async def shown(self, session_id: SessionId, fence: int) -> str | None:
        async with self._database.read() as connection:
            found = await connection.execute(
                select(shown.c.sealed)
                .where(shown.c.session_id == str(session_id), shown.c.fence == fence)
                .where(shown.c.until > store_now(connection))
            )
            return found.scalar()

    async def put_password(self, session_id: SessionId, sealed: str, seconds: float) -> None:
        async with self._database.transaction() as (connection, _):
            now = (await connection.execute(select(store_now(connection)))).scalar_one()
            told = {"sealed": sealed, "until": now + timedelta(seconds=seconds)}
            await connection.execute(
                insert_into(self._database, passwords)
                .values(session_id=str(session_id), **told)
                .on_conflict_do_update(index_elements=["session_id"], set_=told)
            )

    async def take_password(self, session_id: SessionId) -> str | None:
        async with self._database.read() as connection:
            wanted = passwords.c.session_id == str(session_id)
            if (await connection.execute(select(passwords.c.session_id).where(wanted))).first() is None:
                return None
            taken = await connection.execute(
                delete(passwords).where(wanted, passwords.c.until > store_now(connection)).returning(passwords.c.sealed)
            )
            return taken.scalar()

    async def forget_old(self) -> int:
        """Remove what has had its time, as Redis does by itself; returns how many attempts."""
        async with self._database.transaction() as (connection, _):
            now = (await connection.execute(select(store_now(connection)))).scalar_one()
            for table in (shown, passwords):
                await connection.execute(delete(table).where(table.c.until < now))
            old = now - timedelta(seconds=ENDED_SECONDS)
            ended = func.coalesce(sessions.c.ended_at, sessions.c.superseded_at)
            found = await connection.execute(
                select(sessions.c.session_id)
                .where(sessions.c.status.not_in(OPEN), sessions.c.created_at < old, ended < old)
                .limit(BATCH)
            )
            names = list(found.scalars())
            await connection.execute(delete(sessions).where(sessions.c.session_id.in_(names)))
            await connection.execute(delete(history).where(history.c.key.in_(names)))
            return len(names)
