"""A run told three ways: a table on the terminal, `bench/latest.json`, and `docs/bench.md`."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.result import Cost, Result

ROOT = Path(__file__).parents[1]
LATEST = ROOT / "bench" / "latest.json"
PAGE = ROOT / "docs" / "bench.md"

_COLUMNS = ("comparison", "ours", "reference", "ratio", "quartiles", "goal", "met")
_COST_COLUMNS = (
    "comparison",
    "ours: a call",
    "Python",
    "server",
    "reference: a call",
    "Python",
    "server",
)

_HOW = """\
## How it is measured

Ours and its reference run in the same process, on the same server, on rows of the same kind of table, and take turns. One
caller alternates call by call: a round gives the median time of each side, and their ratio. Many callers alternate in
short blocks, each caller asking again as soon as it is answered. Of all rounds the table has the median ratio and its
quartiles. A ratio is ours ÷ reference, so 1 is as fast as the reference and more is faster, unless the name says otherwise.
Speeds are moves a second.

- The moves have two sources each, and every call moves its row; the answer is checked outside of the measured time.
- The reference of *one caller* is the raw driver with `UPDATE … SET status = …, rev = rev + 1 WHERE key = … AND status IN
  (…) RETURNING rev`, a fixed text, prepared or cached as the driver does by default, in autocommit; on Redis a script with
  the same decision, by EVALSHA. With history it writes the same row of history by hand in the same transaction: a CTE on
  PostgreSQL, BEGIN IMMEDIATE … COMMIT on SQLite, XADD in the script on Redis. `bind` shares the reference's connection.
- The reference of *8 and 64 callers* is as many callers without coalescing: asyncpg on 8 warm connections handed out in
  order (no pool, no reset), sqlite3 with one commit for each call, redis.asyncio with its own pool. All callers make the
  same kind of move at a time; where two kinds are *mixed*, each call is one of them at random.
- pgbench runs with 16 clients on 2 threads, prepared statements and the same UPDATE on random rows, on the same machine.
- *What people use today* is called as its manual says; ours on the framework's own connection and by `connect(url)`.
"""

_WHERE = """\
## Where the time goes

Microseconds of one call (of one bulk, where the comparison is of bulks): as the clock saw it, CPU time of this process, and
CPU time of the server. Many callers share the clock, so there a call is the time of a block divided by its calls. What
the clock has beyond both CPU times is waiting: for the disk in a commit, for the network, for a core. One caller and
bulks were measured once more alone for this, so the figures need not add up to the ratios above.
"""


def show(console: Console, results: Sequence[Result]) -> None:
    """The results on the terminal."""
    table = Table(*_COLUMNS[:1], title="ours beside its references")
    for column in _COLUMNS[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        style = {True: "green", False: "red", None: ""}[result.met]
        table.add_row(*_cells(result), style=style)
    console.print(table)


def show_costs(console: Console, results: Sequence[Result]) -> None:
    """Where the time goes, for what is not reached."""
    missed = [result for result in results if result.met is False and result.ours_cost]
    if missed:
        costs = Table(*_COST_COLUMNS[:1], title="not reached: where the time goes, µs of a call")
        for column in _COST_COLUMNS[1:]:
            costs.add_column(column, justify="right", no_wrap=True)
        for result in missed:
            costs.add_row(*_cost_cells(result))
        console.print(costs)


def write(results: Sequence[Result], command: str, facts: Sequence[str], when: datetime) -> None:
    """The files that a whole run leaves."""
    LATEST.write_text(
        json.dumps([result.to_dict() for result in results], indent=2, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(results, command, facts, when), encoding="utf-8")


def page(results: Sequence[Result], command: str, facts: Sequence[str], when: datetime) -> str:
    """The page for the documentation."""
    reached = [result for result in results if result.met]
    goals = [result for result in results if result.goal is not None]
    parts = [
        "# Benchmarks",
        f"Written by `{command}` on {when:%Y-%m-%d}; do not edit. {len(reached)} of {len(goals)} goals reached.",
        "\n".join(f"- {fact}" for fact in facts),
        _markdown(_COLUMNS, [_cells(result) for result in results]),
        _HOW.strip(),
        _WHERE.strip(),
        _markdown(_COST_COLUMNS, [_cost_cells(result) for result in results if result.ours_cost]),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cells(result: Result) -> tuple[str, ...]:
    met = {True: "yes", False: "no", None: ""}[result.met]
    low_and_high = "" if result.spread is None else "–".join(_figure(bound) for bound in result.spread)
    goal = "" if result.goal is None else f"≥ {result.goal:g}"
    figures = (_figure(value) for value in (result.ours, result.reference, result.ratio))
    return result.name, *figures, low_and_high, goal, met


def _cost_cells(result: Result) -> tuple[str, ...]:
    return result.name, *_cost(result.ours_cost), *_cost(result.reference_cost)


def _cost(cost: Cost | None) -> tuple[str, str, str]:
    if cost is None:
        return "", "", ""
    return _figure(cost.wall), _figure(cost.python), _figure(cost.server)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
