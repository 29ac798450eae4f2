"""The race ledger, and the audit of what people did here."""

from starlette.responses import Response

from raceproof.kernel.statement import Program
from raceproof.ops.web.audit import Line
from raceproof.ops.web.filters import problem
from raceproof.ops.web.forms import position
from raceproof.ops.web.queries.ledger import LAST, Ledger, why_lost
from raceproof.ops.web.queries.ledger import ledger as read_ledger
from raceproof.ops.web.visit import Visit
from raceproof.store import AsyncStore

_SEEN = 50


async def races(visit: Visit) -> Response:
    """Decisions in their order, those who lost beside those who won."""
    histories = visit.catalog.histories
    table = visit.asked("table")
    table = table if table in histories else next(iter(histories), None)
    name = visit.asked("of")
    losers = visit.asked("show") == "losers"
    text = position(visit.asked("before"))
    before = min(int(text.partition("-")[0]), LAST) if text else None
    specs = {spec.name: spec for spec in visit.catalog.lifecycles.values()}

    def read(store: AsyncStore) -> Program[Ledger]:
        if table is None or store.dialect == "redis":
            return Ledger((), None)
        names = [name] if name in histories[table] and name else histories[table]
        return (yield from read_ledger(store, table, names, before, losers))

    reply = await visit.ask(read)
    store = await visit.board.source.store() if not reply.trouble else None
    # the list above has what a history keeps
    kept = (
        set() if store is None or store.dialect == "redis" else {one for names in histories.values() for one in names}
    )
    seen = [
        one
        for one in reversed(list(visit.board.feed.recent))
        if not (losers and one.won) and (one.event.operation != "move" or one.event.lifecycle not in kept)
    ]
    return visit.page(
        "races.html",
        reply=reply,
        table=table,
        tables=list(histories),
        name=name,
        names=histories.get(table or "", []),
        losers=losers,
        before=before,
        specs=specs,
        why_lost=why_lost,
        on_redis=store is not None and store.dialect == "redis",
        seen=[one for one in seen if name in (None, one.event.lifecycle)][:_SEEN],
    )


async def audit(visit: Visit) -> Response:
    book = visit.board.audit
    before = position(visit.asked("before"))
    lines: list[Line] = []
    following, trouble, missing = None, "", ""
    try:
        missing = await book.missing()
        if not missing:
            lines, following = await book.page(before)
    except Exception as error:
        trouble = problem(error)
    return visit.page("audit.html", lines=lines, next=following, trouble=trouble, ddl=missing, table=book.table)
