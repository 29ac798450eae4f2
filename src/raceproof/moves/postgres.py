"""Moves on PostgreSQL: one statement of `postgres.sql` is one decision, history included.

Only a repeated call (`call=`) takes two statements in one transaction, because it must see what was committed while it
waited for the row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raceproof.declare.spec import Spec
from raceproof.kernel.dialect import column_list
from raceproof.kernel.events import log
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import literal, parameter
from raceproof.kernel.statement import BEGIN, Prepared, Program, Statement, transaction
from raceproof.moves import slots
from raceproof.moves.answers import Answer
from raceproof.moves.program import SqlMoves
from raceproof.moves.request import MoveRequest, declared_guards

Make = Callable[[Sequence[Any]], Statement]
_OWN = {name: parameter(name) for name in ("by", "reason", "call")}


class PostgresMoves(SqlMoves):
    """The programs of moves on one database."""

    dialect: PostgresDialect

    def begin(self, request: MoveRequest) -> Statement:
        return BEGIN

    def _alone(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        if request.repeat:
            return (yield from transaction(BEGIN, self._repeated(request)))
        return (yield from self.decide(request))

    def decide(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        rows = yield self._one_text(request)(slots.flat(request))
        if not rows:
            return request.missing()
        before, revision, fence, unmet, key, won, new_revision, *returned = rows[0]
        if won:
            return request.moved_row(before, new_revision, returned)
        by = None
        if request.move.lifecycle.history:
            by = yield from self._winner(request.move.lifecycle, key, (before, revision))
        return request.not_moved(before, revision, fence, unmet, by)

    def _repeated(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """A call that may have been made before: look for it under the row's lock, then decide."""
        spec = request.move.lifecycle
        rows = yield self.plain("move.lock", spec).bind(slots.values(request))
        if rows:
            asked = {"key": rows[0][0], "call": request.call, "move": request.move.name}
            seen = yield self.plain("move.replay", spec).bind(asked)
            if seen:
                return request.moved(seen[0][0], seen[0][1], None, replayed=True)
        return (yield from self.decide(request))

    def _winner(self, spec: Spec[Any], key: str, found: tuple[str, Any]) -> Program[str | None]:
        """Who moved the row to where it was found; None if it has moved on since.

        The decision is made and may be committed already: that this cannot be asked must not become an error of the move.
        """
        inside = self.dialect.in_transaction()
        try:
            rows = yield self.plain("move.who", spec).bind({"key": key})
        except Exception as error:
            if inside:
                raise  # it has ended the caller's transaction, so nothing was kept
            log.warning("%s: the history could not be asked who won: %s", spec, error.__cause__ or error)
            return None
        after, revision, actor = rows[0] if rows else (None, None, None)
        return actor if (after, revision) == found else None

    # Texts

    def plain(self, name: str, spec: Spec[Any]) -> Prepared:
        """A statement that depends on the lifecycle alone."""
        return self.texts.get(name, spec, lambda: self.dialect.row(spec))

    def _one_text(self, request: MoveRequest) -> Make:
        def made() -> Make:
            found = self.slots(request)
            noted = self.noted(request, found, _OWN, "changed ON TRUE")
            return self.texts.render("move.one", {**found, "noted": noted}).picking(slots.layout(request))

        return self.texts.kept(("one", request.shape), made)

    def slots(
        self,
        request: MoveRequest,
        value: str = parameter("set_{}"),
        fence: str = parameter("fence"),
        revision: str = parameter("revision"),
    ) -> dict[str, str]:
        # not the time of the statement: it may have waited for the row since
        now = "clock_timestamp()" if request.now is None else self.dialect.now(request.now)
        held = ", cur.rp_fenced_off" if request.ended else ""
        return {
            **slots.of_request(request, self.dialect, now, value, fence, revision),
            "held": f",\n           {slots.fenced_off(request)} AS rp_fenced_off" if request.ended else "",
            "returned": held + column_list(request.returning, "changed."),
        }

    def noted(
        self, request: MoveRequest, filled: Mapping[str, str], who: Mapping[str, str], joined: str, losers: bool = True
    ) -> str:
        """The history's part of a text: winners alone, or every decision if losers are recorded too."""
        history = request.move.lifecycle.history
        if history is None:
            return ""
        outcome, revision, join = "'moved'", "changed.rp_revision", "JOIN"
        if losers and history.losers:
            declared, target = declared_guards(request.move), literal(request.move.target)
            outcome = (
                "CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost'"
                f" WHEN cur.rp_before = {target} AND cur.rp_unmet & ~{declared} = 0 THEN 'already' ELSE 'refused' END"
            )
            revision, join = "COALESCE(changed.rp_revision, cur.rp_revision)", "LEFT JOIN"
        own = {"outcome": outcome, "noted_revision": revision, "noted_join": f"{join} {joined}"}
        return self.texts.fill("move.note", {**filled, **own, "actor": who["by"], **who})
