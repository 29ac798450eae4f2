"""Time is that of the run, and passes to where a sleep or a lease is over."""

import asyncio

import pytest

from raceproof.testing.explorer import Connection, World
from tests.library.explorer.worlds import Body, explored, replayed, world_with


@pytest.mark.parametrize(
    ("expression", "began", "later"),
    [
        ("strftime('%Y-%m-%d %H:%M:%f', 'now')", "2026-01-01 00:00:00.000", "2026-01-01 01:30:00.500"),
        ("strftime('%s')", "1767225600", "1767231000"),
        ("datetime('now')", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        ("datetime()", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        pytest.param(
            "datetime('NOW')",
            "2026-01-01 00:00:00",
            "2026-01-01 01:30:00",
        ),
        ("date('now')", "2026-01-01", "2026-01-01"),
        ("time('now')", "00:00:00", "01:30:00"),
        ("unixepoch()", 1767225600, 1767231000),
        ("unixepoch('now', '+1 minute')", 1767225660, 1767231060),
        ("round((julianday('now') - 2461041.5) * 86400, 1)", 0.0, 5400.5),
        ("CURRENT_TIMESTAMP", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
        ("current_date || ' ' || CURRENT_TIME", "2026-01-01 00:00:00", "2026-01-01 01:30:00"),
    ],
)
def test_the_clock_of_the_store_is_that_of_the_run(expression: str, began: object, later: object) -> None:
    """Every function of time that SQLite has."""
    seen: list[object] = []

    async def main(db: Connection) -> None:
        seen.append((await db.execute(f"SELECT {expression}"))[0][0])
        await asyncio.sleep(5400.5)
        seen.append((await db.execute(f"SELECT {expression}"))[0][0])

    world = world_with(main)
    world.horizon = 10_000
    replayed(world, "main")
    assert seen == [began, later]


def test_a_default_of_a_column_is_the_time_of_the_run_too() -> None:
    """Not that of the machine."""
    world = World("defaults")
    world.sql("CREATE TABLE t (id TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP, day TEXT DEFAULT (date('now')))")

    @world.process
    async def main(db: Connection) -> None:
        await asyncio.sleep(60)
        await db.execute("INSERT INTO t (id) VALUES ('x')")

    row = replayed(world, "main").steps[-1].tables["t"][0]
    assert (row["at"], row["day"]) == ("2026-01-01 00:01:00", "2026-01-01")


def test_an_index_on_a_date_can_be_declared() -> None:
    """Functions of time without 'now' are deterministic, and people index by them."""
    world = World("indexed")
    world.sql("CREATE TABLE t (id TEXT, at TEXT); CREATE INDEX by_day ON t (date(at))")

    @world.process
    async def main(db: Connection) -> None:
        await db.execute("INSERT INTO t VALUES ('x', '2026-01-01 10:00:00')")

    assert replayed(world, "main").passed


LEASES = {
    "until <= now": ("datetime('now', '+30 seconds')", "until <= datetime('now')"),
    "until < now": ("datetime('now', '+30 seconds')", "until < datetime('now')"),
    "milliseconds": (
        "strftime('%Y-%m-%d %H:%M:%f', 'now', '+30 seconds')",
        "until < strftime('%Y-%m-%d %H:%M:%f', 'now')",
    ),
    "since a moment": ("datetime('now')", "until <= datetime('now', '-30 seconds')"),
    "long since": ("CURRENT_TIMESTAMP", "until < datetime('now', '-30 seconds')"),
    "julianday": ("julianday('now', '+30 seconds')", "until < julianday('now')"),
    "unixepoch": ("unixepoch('now', '+30 seconds')", "until < unixepoch('now')"),
    "unixepoch + 30": ("unixepoch() + 30", "until < unixepoch()"),
    "unixepoch - then": ("unixepoch()", "unixepoch() - until > 30"),
    "julianday + n": ("julianday('now') + 30 / 86400.0", "until < julianday('now')"),
}


def leased(taken: str, over: str) -> World:
    """Two workers, one row and a lease of 30 seconds, without a fence: a paused worker works on when its lease is over."""
    world = World("leases")
    world.sql("CREATE TABLE jobs (id TEXT PRIMARY KEY, until); INSERT INTO jobs VALUES ('j', NULL)")
    send = world.effect("send")

    async def worker(db: Connection) -> None:
        for _ in range(2):
            if await db.execute(f"UPDATE jobs SET until = {taken} WHERE until IS NULL OR {over} RETURNING id"):
                await send("j")
                return

    world.process(name="worker", times=2)(worker)
    world.never_twice(send)
    return world


NUMBERS = ("unixepoch + 30", "unixepoch - then", "julianday + n")
"""Leases that are reckoned with + and -, which the explorer cannot see."""


@pytest.mark.parametrize("lease", LEASES)
def test_a_lease_runs_out_on_a_worker_that_is_paused(lease: str) -> None:
    """However people write their leases: time passes to where they are over, not just to where they are not yet."""
    world = leased(*LEASES[lease])
    world.spans = [30.0] if lease in NUMBERS else []
    verdict = explored(world)
    assert verdict.kind == "failed"
    assert "wait" in verdict.schedule


def test_without_an_expiry_time_does_not_pass_while_somebody_can_go_on() -> None:
    """The control: a row that is taken forever is sent once."""
    assert explored(leased("'for ever'", "until < ''")).passed


def test_time_passes_only_to_the_next_timer_or_expiry() -> None:
    """Sleeps end in their order, each at its own time, and nothing else moves the clock."""
    woke: list[tuple[str, float]] = []

    def sleeper(name: str, seconds: float) -> Body:
        async def body(db: Connection) -> None:
            await asyncio.sleep(seconds)
            woke.append((name, asyncio.get_running_loop().time()))

        return body

    world = World("sleeps")
    for name, seconds in (("long", 60.0), ("short", 0.25), ("middle", 5.0)):
        world.process(name=name)(sleeper(name, seconds))
    replayed(world, "long")
    assert woke == [("short", 0.25), ("middle", 5.0), ("long", 60.0)]


def test_an_invariant_is_looked_at_when_only_time_has_passed() -> None:
    """It may be about the clock."""

    async def main(db: Connection) -> None:
        await asyncio.sleep(60)

    world = world_with(main)
    world.always("not late", lambda moment: moment.clock < 60)
    assert explored(world).kind == "failed"
