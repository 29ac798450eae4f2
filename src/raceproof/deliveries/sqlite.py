"""Deliveries on SQLite: a permit is given in two statements, a look and a write, under the write lock."""

from raceproof.deliveries.program import Found, Won
from raceproof.deliveries.request import SendRequest
from raceproof.deliveries.sql import SqlDeliveries
from raceproof.kernel.statement import Program, transaction


class SqliteDeliveries(SqlDeliveries):
    """The programs of deliveries."""

    def _taken(self, request: SendRequest) -> Program[Won | Found | None]:
        lock = self.text("delivery.lock", request.delivery).bind({})
        return (yield from transaction(self.dialect.begin(lock), self._under_lock(request)))

    def _under_lock(self, request: SendRequest) -> Program[Won | Found | None]:
        values = self.dialect.bound(request.values())
        found = yield self.text("delivery.look", request.delivery, request.now).bind(values)
        if not found:
            return None
        state, holder, since, may, doubt = found[0]
        if may:
            text = self.text("delivery.take", request.delivery, request.now, returning=request.returning)
            taken = yield text.bind(values)
            if taken:
                fence, attempts, *row = taken[0]
                return Won(fence, doubt, attempts, row)
        return Found(state, holder, since)
