"""What comes in with a request is bound as a parameter: it is never a part of an SQL text or of a Redis script."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from raceproof.kernel.statement import Program, Statement
from raceproof.ops.web.routes import ROUTES, Rule
from raceproof.ops.web.source import Source
from raceproof.store import AsyncStore
from tests.ops.web.fix_shop import Shop, visitor

CANARY = "\\' OR 1=1 -- canary"
WORDS = ("of", "status", "before", "key", "q", "owner", "span", "table", "show", "move", "done")


def queries() -> list[dict[str, Any]]:
    """A page asked for with the canary in each word in turn, the lifecycle being a real one where it is not the canary."""
    found = []
    for word in WORDS:
        found.append({"of": "Order", word: CANARY})
        several: dict[str, Any] = {"of": "Line", "status": "open", word: [CANARY, CANARY, CANARY]}
        found.append(several)
    return found


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """Every statement that the pages send, as it goes."""
    seen: list[Statement] = []
    real = Source.run

    def watched(program: Program[Any]) -> Program[Any]:
        try:
            statement = next(program)
            while True:
                seen.append(statement)
                try:
                    rows = yield statement
                except Exception as error:
                    statement = program.throw(error)
                else:
                    statement = program.send(rows)
        except StopIteration as stop:
            return stop.value

    async def run(self: Source, program: Callable[[AsyncStore], Program[Any]]) -> Any:
        return await real(self, lambda store: watched(program(store)))

    monkeypatch.setattr(Source, "run", run)
    return seen


async def test_nothing_of_a_request_becomes_a_part_of_a_statement(any_shop: Shop, texts: list[Statement]) -> None:
    pages = [entry.path for entry in ROUTES if entry.rule is Rule.LOOK and "{" not in entry.path]
    pages.remove("/live")
    async with visitor(any_shop.board()) as client:
        for path in pages:
            for query in queries():
                answer = await client.get(f"{path}?{urlencode(query, doseq=True)}")
                assert answer.status_code < 500, (path, query)
    assert any("canary" in str(statement.params) for statement in texts)
    for statement in texts:
        assert "canary" not in statement.text, statement.name


@pytest.mark.parametrize("index", [False, True])
async def test_rows_are_listed_by_a_status_that_is_bound(any_shop: Shop, texts: list[Statement], index: bool) -> None:
    """With an index on the status and without; a status with a quote is one that no row has."""
    if index and any_shop.store.dialect != "redis":
        made = any_shop.raw.execute("CREATE INDEX by_status ON shop_orders (status)")
        if any_shop.store.dialect == "postgres":
            await made
    async with visitor(any_shop.board()) as client:
        shown = (await client.get("/lifecycle?of=Order&status=CANCELLED")).text
        assert "key=12" in shown
        query = urlencode({"of": "Order", "status": CANARY})
        nothing = (await client.get(f"/lifecycle?{query}")).text
        assert "/item?of=Order" not in nothing
        assert 'class="trouble"' not in nothing
    if any_shop.store.dialect != "redis":
        named = {statement.name for statement in texts if CANARY in statement.params}
        assert named >= ({"web.few", "web.at_status"} if index else {"web.rows_at"})
