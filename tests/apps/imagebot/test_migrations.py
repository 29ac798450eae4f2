"""Migrations (A8): a database from before the delivery lock, with orders in it, and the bot that has it."""

import shutil
from pathlib import Path

from sqlalchemy import text

from appkit.database import open_database
from imagebot.lifecycle import Job
from imagebot.services import MIGRATIONS, open_service
from imagebot.settings import Settings

USER = 7
ORDERS = [("delivered", "delivered"), ("waiting", "ready"), ("late", "generating")]


async def before_009(url: str, folder: Path) -> None:
    """The tables as they were, with an order that was delivered, one whose picture is there, and one that is being made."""
    old = folder / "old"
    old.mkdir()
    for script in sorted(MIGRATIONS.glob("00[1-8]_*.sql")):
        shutil.copy(script, old)
    async with open_database(url, old, lambda _: []) as database, database.transaction() as (connection, _):
        now = "CURRENT_TIMESTAMP" if database.dialect == "sqlite" else "clock_timestamp()"
        for name, status in ORDERS:
            at = now if status == "delivered" else "NULL"
            await connection.execute(
                text(
                    "INSERT INTO generation_jobs (job_id, user_id, chat_id, status, model, aspect_ratio, prompt, price,"
                    " external_task_id, result_urls, made_at, confirmed_at, submitted_at, delivered_at)"
                    f" VALUES (:job, {USER}, {USER}, :status, 'z-image', '1:1', 'a lighthouse', 500, :task,"
                    f" '[\"https://x.example/1\"]', {now}, {now}, {now}, {at})"
                ),
                {"job": name, "status": status, "task": f"task-{name}"},
            )
        await connection.execute(text(f"INSERT INTO user_balances VALUES ({USER}, 1000, 1000, 'RUB')"))
        for reference, amount, held in (("grant", 2500, 0), ("hold", -1500, 1500), ("charge", 0, -500)):
            await connection.execute(
                text(
                    "INSERT INTO transactions (reference, user_id, kind, amount, held, made_at)"
                    f" VALUES (:reference, {USER}, :reference, {amount}, {held}, {now})"
                ),
                {"reference": reference},
            )


async def test_a_database_from_before_the_delivery_lock_is_taken_over_with_its_orders(
    database_url: str, tmp_path: Path
) -> None:
    await before_009(database_url, tmp_path)
    settings = Settings(database_url=database_url, folder=tmp_path, instance="test")
    for _ in range(2):
        async with open_service(settings) as service:
            storage = service.storage
            jobs = {name: await service.jobs.get(name) or {} for name, _ in ORDERS}
            assert [job["status"] for job in jobs.values()] == [status for _, status in ORDERS]
            assert {job["delivering_at"] for job in jobs.values()} == {None}
            assert await storage.try_acquire_delivery_lock("task-delivered") is None
            assert await storage.try_acquire_delivery_lock("task-late") is None
            assert await service.accounts.balance(USER) == (1000, 1000)
    async with open_service(settings) as service:
        storage = service.storage
        assert await storage.try_acquire_delivery_lock("task-waiting") is not None
        assert await storage.mark_delivered("task-waiting")
        assert await service.accounts.balance(USER) == (1000, 500)
        assert (await service.store.move(Job.ready, "late", set={"result_urls": "[]"})).won
        async with service.transaction() as (connection, _):
            names = (await connection.execute(text("SELECT name FROM applied_migrations ORDER BY name"))).scalars()
            applied = [name for name in names if name.startswith("0")]
        assert len(applied) == 10
        assert applied[-1] == "010_add_doubted_at"
