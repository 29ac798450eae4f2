"""How long a run measures, and how big its tables are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes of one kind of run; times are in seconds."""

    name: str
    rounds: int
    permits: float
    """How long the callers of one round take turns."""
    block: float
    """How long many callers run before the other side has its block."""
    alone: float
    """How long one side runs alone, to see where its time goes."""
    bulk_rounds: int
    bulk: int
    """Rows of one bulk."""
    pgbench: int
    """How long pgbench runs in one round; it knows whole seconds only."""
    rows: int
    """Rows of the tables that callers share; half of them belong to ours, half to the reference."""
    sizes: tuple[int, ...]
    """Rows of the growing tables, the first being what the others are compared with."""
    redis_sizes: tuple[int, ...]


FULL = Scale(
    name="full",
    rounds=11,
    permits=1.2,
    block=1.2,
    alone=0.5,
    bulk_rounds=11,
    bulk=1_000,
    pgbench=3,
    rows=64_000,
    sizes=(1_000, 100_000, 10_000_000),
    redis_sizes=(1_000, 100_000, 1_000_000),
)
SHORT = Scale(
    name="short",
    rounds=7,
    permits=0.35,
    block=0.5,
    alone=0.3,
    bulk_rounds=5,
    bulk=1_000,
    pgbench=1,
    rows=32_000,
    sizes=(1_000, 100_000),
    redis_sizes=(1_000, 100_000),
)
SMOKE = Scale(
    name="smoke",
    rounds=1,
    permits=0.01,
    block=0.02,
    alone=0.005,
    bulk_rounds=1,
    bulk=50,
    pgbench=1,
    rows=4_000,
    sizes=(1_000, 5_000),
    redis_sizes=(1_000, 5_000),
)
