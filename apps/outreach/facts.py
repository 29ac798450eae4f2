"""What the database says about itself: whose table the discoveries are in, the one stale time, and whether answers are
invented."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from outreach.lifecycle import STALE
from outreach.stages import Layout
from outreach.tables import outreach_facts, upsert


@dataclass(frozen=True, slots=True)
class Facts:
    """As they were when the database was opened."""

    layout: Layout = Layout.OWN
    stale: float | None = None
    """Seconds, for every process that claims, looks or cleans up; None in a database of an older release."""
    simulated: bool = False
    """Made by `serve --simulate`: its descriptions and scores are invented."""
    theirs: frozenset[str] = frozenset()
    """Tables that were there before us; nothing is guarded in them."""
    highest_score: float = 100.0
    """An adopted column may be too narrow for 100."""

    @property
    def stale_seconds(self) -> float:
        return STALE if self.stale is None else self.stale


async def read_facts(connection: AsyncConnection) -> Facts:
    """What `migrate` has written down."""
    rows = await connection.execute(select(outreach_facts.c.name, outreach_facts.c.value))
    found: dict[str, str] = {name: value for name, value in rows}  # noqa: C416
    return Facts(
        Layout(found.get("layout", Layout.OWN)),
        float(found["stale"]) if "stale" in found else None,
        found.get("simulated") == "yes",
        frozenset(found.get("theirs", "").split()),
        float(found.get("highest_score", 100.0)),
    )


async def write_fact(connection: AsyncConnection, name: str, value: str) -> None:
    insert = upsert(connection, outreach_facts).values(name=name, value=value)
    await connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_={"value": value}))
