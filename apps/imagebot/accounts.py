"""Users, their balances and their top-ups."""

from typing import Any

from sqlalchemy import select, update

from appkit.database import Database, store_now
from imagebot import money
from imagebot.lifecycle import TopUp, TopUpStatus
from imagebot.settings import Settings
from imagebot.tables import topups, transactions, user_balances, users
from imagebot.telling import tell
from raceproof import sql
from raceproof.moves import Answer

AMOUNTS = (10_000, 30_000, 50_000)
"""What can be topped up by one press, in hundredths."""
LANGUAGES = ("ru", "en")


class Accounts:
    """What handlers and commands do with users and their money."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._db = database.store
        self._settings = settings

    async def language_of(self, user_id: int, chat_id: int, told: str | None) -> str:
        """Make the user known, with a welcome if there is one; returns the language."""
        known = await self.language(user_id)
        if known is not None:
            return known
        language = "ru" if (told or "").startswith("ru") else "en"
        async with self._database.transaction() as (connection, _):
            values = {"user_id": user_id, "chat_id": chat_id, "language": language}
            made = money.insert_into(connection, users).values(**values, made_at=store_now(connection))
            await connection.execute(made.on_conflict_do_nothing())
            await money.open_account(connection, user_id, self._settings.currency)
            if self._settings.welcome:
                await money.credit(
                    connection, user_id, self._settings.welcome, f"welcome:{user_id}", "welcome", "imagebot"
                )
        return language

    async def language(self, user_id: int) -> str | None:
        """The language of a user whom we know."""
        async with self._database.read() as connection:
            found = await connection.execute(select(users.c.language).where(users.c.user_id == user_id))
            language: str | None = found.scalar_one_or_none()
            return language

    async def speak(self, user_id: int, language: str) -> None:
        """The user has chosen a language."""
        async with self._database.transaction() as (connection, _):
            await connection.execute(update(users).where(users.c.user_id == user_id).values(language=language))

    async def balance(self, user_id: int) -> tuple[int, int]:
        """What can be spent, and what is held."""
        wanted = select(user_balances.c.balance, user_balances.c.held).where(user_balances.c.user_id == user_id)
        async with self._database.read() as connection:
            row = (await connection.execute(wanted)).first()
        return (row.balance, row.held) if row else (0, 0)

    async def statement(self, user_id: int, limit: int = 10) -> list[dict[str, Any]]:
        """The newest entries of the ledger."""
        wanted = select(transactions).where(transactions.c.user_id == user_id)
        async with self._database.read() as connection:
            found = await connection.execute(wanted.order_by(transactions.c.number.desc()).limit(limit))
            return [dict(row) for row in found.mappings()]

    async def begin_topup(self, topup_id: str, user_id: int) -> None:
        """A question how much; the same id is the same question."""
        async with self._database.transaction() as (connection, _):
            values = {"topup_id": topup_id, "user_id": user_id, "status": TopUpStatus.CHOOSING}
            made = money.insert_into(connection, topups).values(**values, made_at=store_now(connection))
            await connection.execute(made.on_conflict_do_nothing())

    async def ask_topup(self, topup_id: str, user_id: int, amount: int) -> Answer[Any, Any]:
        """The user says that the payment was made; every admin gets a message."""
        async with self._database.transaction() as (_, db):
            own = sql("t.user_id = {user}", user=user_id)
            answer = await db.move(TopUp.ask, topup_id, set={"amount": amount}, where=own, by=f"user {user_id}")
            if answer.won:
                for admin in self._settings.admin_ids:
                    told = {"topup_id": topup_id, "user": user_id, "amount": amount}
                    await tell(db, admin, admin, f"{topup_id}:asked", "topup_asked", **told)
        return answer

    async def end_topup(self, topup_id: str, approved: bool, by: str) -> Answer[Any, Any]:
        """An admin has looked: the money comes in, once, or it does not."""
        async with self._database.transaction() as (connection, db):
            move = TopUp.approve if approved else TopUp.reject
            answer = await db.move(move, topup_id, set={"ended_by": by}, by=by)
            if answer.won:
                found = await connection.execute(select(topups).where(topups.c.topup_id == topup_id))
                row = found.mappings().one()
                user_id, amount = row["user_id"], row["amount"]
                if approved:
                    await money.open_account(connection, user_id, self._settings.currency)
                    await money.credit(connection, user_id, amount, f"topup:{topup_id}", "topup", by)
                word = "topup_approved" if approved else "topup_rejected"
                await tell(db, user_id, user_id, f"{topup_id}:{word}", word, amount=amount)
        return answer

    async def grant(self, user_id: int, amount: int, reference: str, by: str) -> bool:
        """Money from an admin, once for each reference."""
        async with self._database.transaction() as (connection, _):
            await money.open_account(connection, user_id, self._settings.currency)
            return await money.credit(connection, user_id, amount, reference, "grant", by)

    async def waiting_topups(self, limit: int = 20) -> list[dict[str, Any]]:
        """Those that an admin has to look at, the oldest first."""
        wanted = select(topups).where(topups.c.status == TopUpStatus.REQUESTED)
        async with self._database.read() as connection:
            found = await connection.execute(wanted.order_by(topups.c.requested_at).limit(limit))
            return [dict(row) for row in found.mappings()]
