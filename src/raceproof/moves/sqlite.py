"""Moves on SQLite, over the statements of `sqlite.sql`: the guards stand in the WHERE of the write.

The write lock is taken before the first statement of a call, so none of them can meet a stale snapshot, and all are one
transaction, or one savepoint in the caller's.
"""

from collections.abc import Callable, Sequence
from typing import Any

from raceproof.kernel.quoting import literal, parameter
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Prepared, Program, Statement, transaction
from raceproof.moves import slots
from raceproof.moves.answers import Answer
from raceproof.moves.program import SqlMoves
from raceproof.moves.request import MoveRequest

Make = Callable[[Sequence[Any]], Statement]


class SqliteMoves(SqlMoves):
    """The programs of moves."""

    dialect: SqliteDialect

    def begin(self, request: MoveRequest) -> Statement:
        return self.plan(request).begin

    def _alone(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        return (yield from transaction(self.begin(request), self.decide(request)))

    def decide(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Under the write lock: what a call with this id did before, else move the row, else say why not."""
        plan, values = self.plan(request), self.dialect.stored(slots.flat(request))
        if request.repeat:
            found = yield plan.look(values)
            if found:
                asked = {"key": found[0][4], "call": request.call, "move": request.move.name}
                seen = yield plan.replay.bind(asked)
                if seen:
                    return request.moved(seen[0][0], seen[0][1], None, replayed=True)
        fenced_off = None
        if request.ended:
            # RETURNING cannot say what a column was before
            held = yield plan.held(values)
            fenced_off = held[0][0] if held else None
        for place, (source, write) in enumerate(plan.writes):
            rows = yield write(values)
            if rows:
                revision, key, *returned = rows[0]
                self.prefer(plan, place)
                if plan.keeps_history:
                    yield plan.note((*values, key, "moved", source, revision))
                return request.moved(source, revision, returned or None, fenced_off=fenced_off)
        found = yield plan.look(values)
        if not found:
            spec = request.move.lifecycle
            yield from self.dialect.not_found(request.move, spec.table, spec.key_columns, request.parts)
            return request.missing()
        before, revision, fence, unmet, key = found[0]
        if not plan.keeps_history:
            return request.not_moved(before, revision, fence, unmet)
        last = yield plan.who.bind({"key": key})
        by = last[0][2] if last and tuple(last[0][:2]) == (before, revision) else None
        answer = request.not_moved(before, revision, fence, unmet, by)
        if plan.keeps_losers:
            yield plan.note((*values, key, answer.outcome, before, revision))
        return answer

    def prefer(self, plan: "Plan", place: int) -> None:
        """Which source has won, for who is in a hurry."""

    def plan(self, request: MoveRequest) -> "Plan":
        """The statements of calls of this shape."""
        return self.texts.kept(request.shape, lambda: Plan(self, request))

    def slots(self, request: MoveRequest, fence: str = parameter("fence")) -> dict[str, str]:
        return slots.of_request(request, self.dialect, self.dialect.now(request.now), fence=fence)


class Plan:
    """The statements for one shape of call."""

    def __init__(self, moves: SqliteMoves, request: MoveRequest) -> None:
        spec, texts = request.move.lifecycle, moves.texts
        found, layout = moves.slots(request), slots.layout(request)
        self.begin = moves.dialect.begin(texts.render("move.lock", found).bind({}))
        self.look = texts.render("move.look", found).picking(layout)
        self.held = texts.render("move.held", found).picking(layout)
        self.writes: list[tuple[str, Make]] = [
            (source, texts.render("move.write", {**found, "source": literal(source)}).picking(layout))
            for source in request.move.sources
        ]
        self.keeps_history = spec.history is not None
        self.keeps_losers = spec.history is not None and spec.history.losers
        if spec.history:
            noted = (*layout, "key", "outcome", "before", "found_revision")
            self.note: Make = texts.render("move.note", found).picking(noted)
            self.replay: Prepared = texts.render("move.replay", found)
            self.who: Prepared = texts.render("move.who", found)
