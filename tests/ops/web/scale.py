"""How long a page takes with a million rows behind it, as a ratio to a thousand: `python -m tests.ops.web.scale [rows]`.

Each page is loaded several times without what was remembered from the last time; the figure is the best of them. The
tables have the indexes that the library asks for and none on the status, which is the worst case of counting.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from raceproof.ops.web import Dashboard
from raceproof.testing import postgres
from tests.ops.web.fix_shop import Shop, item, postgres_shop, sqlite_shop, visitor

TIMES = 9
PAGES = (
    "/", "/races", "/races?show=losers", "/stuck", "/claims", "/delivery", "/attempts", "/leader", "/inbox", "/audit",
    "/lifecycle?of=Order", "/lifecycle?of=Order&status=PACKED", "/lifecycle?of=Order&status=FAILED",
    item("Order", 500), "/doctor",
)  # fmt: skip

# one row in a thousand is packed, held, uncertain or dead; the rest has ended or waits
_ROWS = (
    """
INSERT INTO shop_orders (id, status, rev, receipt_sent_at, receipt_at, receipt_state,
                         claimed_by, claimed_until, fence, tries)
SELECT n, CASE WHEN n % 1000 = 0 THEN 'PACKED' WHEN n % 1000 = 1 THEN 'PACKING' WHEN n % 3 = 0 THEN 'NEW'
               ELSE 'SHIPPED' END, 1,
       CASE WHEN n % 1000 <> 2 THEN now() END, CASE WHEN n % 1000 = 2 THEN now() END,
       CASE WHEN n % 1000 = 2 THEN 'uncertain' ELSE 'delivered' END,
       CASE WHEN n % 1000 = 1 THEN 'packer' END, CASE WHEN n % 1000 = 1 THEN now() END, n, 1
FROM generate_series(1, {rows}) AS n""",
    """
INSERT INTO shop_history (lifecycle, key, move, outcome, before, after, actor, at)
SELECT 'Order', (n / 4 + 1)::text, 'cancel', CASE WHEN n % 4 = 0 THEN 'moved' ELSE 'refused' END,
       'NEW', 'CANCELLED', 'somebody', now()
FROM generate_series(1, {rows}) AS n""",
    """
INSERT INTO shop_inbox (source, event_id, body, headers, status, received_at, ended_at, attempts)
SELECT 'kie', n::text, '', '{{}}',
       CASE WHEN n % 1000 = 0 THEN 'dead' WHEN n % 3 = 0 THEN 'received' ELSE 'done' END, now(),
       CASE WHEN n % 1000 = 0 OR n % 3 <> 0 THEN now() END, 1
FROM generate_series(1, {rows}) AS n""",
    """
INSERT INTO shop_logins (id, status, owner, began_at)
SELECT 'login-' || n, CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'done' END, 'user-' || n, now()
FROM generate_series(1, {rows}) AS n""",
    "ANALYZE",
)
_SERIES = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows}) "
_WORDS = {
    "generate_series(1, {rows}) AS n": "n",
    "now()": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "(n / 4 + 1)::text": "CAST(n / 4 + 1 AS TEXT)",
    "n::text": "CAST(n AS TEXT)",
    "SELECT n,": "SELECT n.n,",
}


def _sqlite(text: str) -> str:
    """The same rows in the other dialect."""
    for theirs, ours in _WORDS.items():
        text = text.replace(theirs, ours)
    insert, select, rest = text.partition("\nSELECT")
    return f"{insert}\n{_SERIES}{select}{rest}" if select else text


async def fill(made: Shop, rows: int) -> None:
    for text in _ROWS:
        if made.store.dialect == "postgres":
            await made.raw.execute(text.format(rows=rows))
        else:
            made.raw.execute(_sqlite(text).format(rows=rows))


async def measure(board: Dashboard) -> dict[str, float]:
    """Seconds for each page, the best of several."""
    found = {}
    async with visitor(board) as client:
        for path in PAGES:
            took = []
            for _ in range(TIMES):
                board.board.source.forget()
                began = time.perf_counter()
                answer = await client.get(path)
                took.append(time.perf_counter() - began)
                assert answer.status_code == 200, path
                assert "Could not be read" not in answer.text, f"{path}: {answer.text}"
            found[path] = min(took)
    return found


async def compare(name: str, opening: Callable[[], AbstractAsyncContextManager[Shop]], rows: int) -> None:
    figures = []
    for number in (1_000, rows):
        async with opening() as made:
            await fill(made, number)
            board = made.board()
            figures.append(await measure(board))
            await board.close()
    sys.stdout.write(f"{name}: milliseconds with 1,000 and with {rows:,} rows in each table, and the ratio\n")
    for path in PAGES:
        few, many = figures[0][path], figures[1][path]
        sys.stdout.write(f"  {path:40} {few * 1000:8.1f} {many * 1000:8.1f} {many / few:6.1f}\n")


async def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        places = iter(range(10))

        @asynccontextmanager
        async def embedded() -> AsyncIterator[Shop]:
            place = Path(folder) / str(next(places))
            place.mkdir()
            async with sqlite_shop(place) as made:
                yield made

        await compare("SQLite", embedded, rows)
    with postgres() as server:
        await compare("PostgreSQL", lambda: postgres_shop(server.database()), rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else 1_000_000))
