"""Leases on SQL databases: each decision is one statement of `lease.sql`."""

from raceproof.kernel.dialect import SqlDialect
from raceproof.kernel.quoting import parameter, qualified
from raceproof.kernel.statement import Program, Rows
from raceproof.leases.program import Found, LeasePrograms
from raceproof.leases.request import LeaseRequest


class SqlLeases(LeasePrograms):
    """The programs of leases."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._texts = dialect.texts("leases", "lease.sql", own=False)

    def _sent(self, action: str, request: LeaseRequest) -> Program[Found]:
        if action != "look":
            rows = yield from self._run(f"lease.{action}", request)
            if rows:
                epoch, taken_over = rows[0]
                return Found(True, request.by, int(epoch), None, bool(taken_over))
        # an answer may not be given before the commit it rests on is replicated, so the row is locked
        rows = yield from self._run("lease.look", request, lock=action != "look")
        if not rows:
            return Found(False, None, 0, None)
        holder, epoch, until, is_held = rows[0]
        return Found(False, holder if is_held else None, int(epoch), until)

    def listed(self, request: LeaseRequest) -> Program[Rows]:
        return (yield from self._run("lease.list", request))

    def _run(self, name: str, request: LeaseRequest, lock: bool = False) -> Program[Rows]:
        shape = (request.lease.table, request.now is None, lock)
        text = self._texts.get(name, shape, lambda: self._slots(request, lock))
        return (yield text.bind(self._dialect.bound(request.values())))

    def _slots(self, request: LeaseRequest, lock: bool) -> dict[str, str]:
        dialect, now = self._dialect, self._dialect.now(request.now)
        ends = dialect.plus(now, parameter("lease"))
        far_ahead, clock = dialect.plus(ends, parameter("lease")), dialect.microseconds(now)
        return {
            "table": qualified(request.lease.table),
            "now": now,
            "ends": ends,
            "clock": clock,
            # more than twice its length from now; a longer lease has an epoch that is no later than the clock
            "ahead": f"(t.until > {far_ahead} AND t.epoch > {clock})",
            "grown": dialect.greatest("t.epoch + 1", "EXCLUDED.epoch + 1"),
            "lock": dialect.share_lock if lock else "",
        }
