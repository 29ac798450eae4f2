"""While a transaction is open nobody sees half of it, neither a process nor an invariant."""

import pytest

from raceproof.kernel.errors import CallError
from raceproof.testing.explorer import Connection, World
from tests.library.explorer.worlds import TABLE, explored, replayed, world_with


def test_while_a_transaction_is_open_the_others_stay_away_from_the_store() -> None:
    """Nobody sees half of it, but effects outside go on."""
    world = World("half")
    world.sql(TABLE)
    log = world.effect("log")
    half = world.effect("half")

    @world.process
    async def both(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = 1 WHERE id = 'b'")

    @world.process
    async def other(db: Connection) -> None:
        await log("x")
        [(total,)] = await db.execute("SELECT sum(n) FROM t")
        if total == 1:
            await half()

    world.always("never half", lambda moment: not moment.calls(half))
    assert explored(world, deviations=3, crashes=1, errors=1).passed
    verdict = replayed(world, "both*3 other*2 both")
    assert [step.process for step in verdict.steps][:6] == ["both"] * 3 + ["other"] * 2 + ["both"]
    with pytest.raises(CallError, match="version of the scenario"):
        replayed(world, "both*3 other*3")


def test_an_invariant_sees_only_what_is_committed() -> None:
    """A transfer in a transaction never shows a wrong sum."""

    async def transfer(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = n - 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = n + 1 WHERE id = 'b'")

    world = world_with(transfer)
    world.always("the sum stays", lambda moment: sum(row["n"] for row in moment.rows("t")) == 0)
    verdict = explored(world)
    assert verdict.passed, verdict.why


def test_a_change_is_seen_from_commit_to_commit() -> None:
    """What is written and undone within a transaction was never there."""

    async def there_and_back(db: Connection) -> None:
        async with db.transaction():
            await db.execute("UPDATE t SET n = 1 WHERE id = 'a'")
            await db.execute("UPDATE t SET n = 0 WHERE id = 'a'")

    world = world_with(there_and_back)
    world.change("nothing changes", lambda before, after: before == after)
    verdict = explored(world)
    assert verdict.passed, verdict.why


@pytest.mark.parametrize("text", ["BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "SAVEPOINT mine"])
def test_a_transaction_in_plain_sql_is_refused_with_advice(text: str) -> None:
    """The explorer could not roll it back; there is `db.transaction()`."""

    async def main(db: Connection) -> None:
        await db.execute(text)

    try:
        said = explored(world_with(main)).why
    except CallError as error:
        said = str(error)
    assert "db.transaction()" in said
