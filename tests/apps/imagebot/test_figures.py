"""The figures of an instance: what is asked every five seconds must not read every order that was ever made."""

import json
from typing import Any

import pytest
from sqlalchemy import event, text

from imagebot.controller import LockController
from imagebot.metrics import Metrics
from imagebot.services import DatabaseService
from imagebot.settings import Settings
from imagebot.upkeep import Upkeep
from tests.apps.imagebot.test_delivery_lock import ready

ORDERS = 20_000


def upkeep(service: DatabaseService, metrics: Metrics) -> Upkeep:
    # nothing connects: the leader is not entered
    settings = Settings(database_url="sqlite:///nowhere.db", instance="test")
    lock = LockController(service, settings, metrics)
    return Upkeep(service.database, lock.leader, metrics)


async def ended_orders(service: DatabaseService) -> None:
    """Many of them, past the guards."""
    async with service.transaction() as (connection, _):
        for statement in (
            "SET LOCAL session_replication_role = replica",
            "INSERT INTO generation_jobs (job_id, user_id, chat_id, status, made_at, watch)"
            f" SELECT 'old' || n, 7, 7, 'delivered', now(), 'left' FROM generate_series(1, {ORDERS}) AS n",
            "INSERT INTO telegram_updates (source, event_id, body, headers, status, received_at, ended_at)"
            f" SELECT 'telegram', 'u' || n, 'x', '{{}}', 'done', now(), now() FROM generate_series(1, {ORDERS}) AS n",
        ):
            await connection.execute(text(statement))
    async with service.database.read() as connection:
        for table in ("generation_jobs", "telegram_updates"):
            await connection.execute(text(f"VACUUM ANALYZE {table}"))


def reads(plan: dict[str, Any]) -> int:
    """How many rows of a table or an index a plan reads, as the planner thinks."""
    own = plan["Plan Rows"] if "Scan" in plan["Node Type"] else 0
    return max([own, *(reads(one) for one in plan.get("Plans", ()))])


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_the_figures_are_read_from_indexes_of_what_is_open(service: DatabaseService) -> None:
    await ended_orders(service)
    asked: list[tuple[str, Any]] = []

    @event.listens_for(service.database.engine.sync_engine, "before_cursor_execute")
    def heard(_: Any, __: Any, statement: str, values: Any, *___: Any) -> None:
        if statement.startswith("SELECT") and "FROM" in statement:
            asked.append((statement, values))

    await upkeep(service, Metrics()).measure()
    event.remove(service.database.engine.sync_engine, "before_cursor_execute", heard)
    assert len(asked) == 2
    async with service.database.read() as connection:
        for statement, values in asked:
            raw = (await connection.get_raw_connection()).driver_connection
            told = await raw.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *values)  # type: ignore[union-attr]
            plans = told if isinstance(told, list) else json.loads(told)
            assert reads(plans[0]["Plan"]) < ORDERS / 10, statement


async def test_the_figures_count_what_has_not_ended(service: DatabaseService) -> None:
    await ready(service)
    metrics = Metrics()
    await upkeep(service, metrics).measure()
    sample = metrics.registry.get_sample_value
    assert sample("imagebot_jobs", {"status": "ready"}) == 1
    assert sample("imagebot_jobs", {"status": "uncertain"}) == 0
    assert sample("imagebot_jobs", {"status": "delivered"}) is None
