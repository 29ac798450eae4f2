"""Moves on PostgreSQL by a guarded UPDATE alone, and many rows in one statement.

The rule: a row that a fast statement returns as moved has passed the guards of move.one; one that it does not return is
decided by move.one. What the shared statement of many callers would have to wait for is left to a call of its own.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.declare.spec import Spec
from raceproof.kernel.dialect import column_list, lines
from raceproof.kernel.events import log
from raceproof.kernel.keys import user_key
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import identifier, literal, parameter
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Prepared, Program, Row, Statement
from raceproof.moves import slots
from raceproof.moves.answers import Answer
from raceproof.moves.fast.postgres_ends import PostgresEnds
from raceproof.moves.postgres import PostgresMoves
from raceproof.moves.program import Answers
from raceproof.moves.request import MoveRequest, of_claims

Fast = Callable[[Sequence[Any]], Statement]
Found = list[Answer[Any, Any] | None]

_NO_ROW: Row = (None,) * 7
_UNLOCKED = {"skip_locked": " SKIP LOCKED", "patience": "set_config('lock_timeout', '50ms', true)"}
_WAITING = {"skip_locked": "", "patience": ""}
_OF_THE_CALL = {name: parameter(name) for name in ("by", "reason", "call")}
_OF_ITS_ROW = {name: f"cur.rp_{name}" for name in ("by", "reason", "call")}


class FastPostgresMoves(PostgresMoves):
    """The same programs with fast statements before them."""

    def __init__(self, dialect: PostgresDialect) -> None:
        super().__init__(dialect)
        self.fast_texts = dialect.texts("moves.fast")
        self._fast: dict[Hashable, Fast | None] = self.fast_texts.kept("fast", dict)
        self._ends = PostgresEnds(self)

    # One row

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        if request.repeat:
            return (yield from super().one(request))
        try:
            fast = self._fast[request.shape]
        except KeyError:
            fast = self._fast[request.shape] = self._fast_text(request)
        try:
            if fast is not None:
                rows = yield fast(slots.flat(request))
                if rows:
                    before, revision, *returned = rows[0]
                    return request.moved_row(before, revision, returned)
            return (yield from self.decide(request))
        except AcknowledgementLost as error:
            return request.unknown(error)
        except Conflicted as error:
            return request.conflict(error)

    def _fast_text(self, request: MoveRequest) -> Fast | None:
        """The guarded UPDATE alone, if its RETURNING can say what the row was before."""
        spec, move = request.move.lifecycle, request.move
        if not self.dialect.returns_old and (len(move.sources) > 1 or request.ended):
            return None
        several = len(move.sources) > 1
        found = self.slots(request)
        found["before"] = f"old.{identifier(spec.column)}::text" if several else literal(move.sources[0])
        if request.ended:
            found["returning"] = f", {slots.fenced_off(request, 'old')} AS rp_fenced_off{found['returning']}"
        fenced_off = ", changed.rp_fenced_off" if request.ended else ""
        found["returned"] = fenced_off + column_list(request.returning, "changed.")
        name = "move.fast" if spec.history else "move.fast without history"
        return self.fast_texts.render(name, found).picking(slots.layout(request))

    # Many rows

    def many(self, requests: Sequence[MoveRequest]) -> Program[Answers]:
        if not requests or (yield from self._sets_arrays(requests[0])):
            return (yield from super().many(requests))
        if requests[0].clears and not requests[0].ended:
            return (yield from self._ends.of_requests(requests, arrays(requests)))
        return (yield from self.waiting(requests))

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """Most claims that end need no request of their own, and their rows no answer."""
        spec = first.move.lifecycle
        usual = first.ended or first.set or first.revision is not None
        if usual or not first.clears or not spec.plain_key or spec.history:
            return (yield from self.many(of_claims(first, claims)))
        return (yield from self._ends.of_claims(first, claims))

    def waiting(self, requests: Sequence[MoveRequest]) -> Program[Answers]:
        """Many rows in one statement, which waits for those that others hold, in key order."""
        answers = yield from self._told(requests)
        # missing, or named twice in different spellings: after the first has moved, the second is not seen
        unseen = [place for place, answer in enumerate(answers) if answer is None]
        if unseen:
            repeated = yield from self._told([requests[place] for place in unseen])
            for place, answer in zip(unseen, repeated, strict=True):
                answers[place] = answer
        return [
            request.missing() if answer is None else answer for request, answer in zip(requests, answers, strict=True)
        ]

    def _told(self, requests: Sequence[MoveRequest]) -> Program[Found]:
        try:
            return (yield from self.bulk(requests, _WAITING))
        except AcknowledgementLost as error:
            return [request.unknown(error) for request in requests]
        except Conflicted as error:
            return [request.conflict(error) for request in requests]

    def many_unlocked(self, requests: Sequence[MoveRequest]) -> Program[Found]:
        """Many calls in one statement that waits for no row: one that another transaction holds is answered None."""
        if (yield from self._sets_arrays(requests[0])):
            return [None] * len(requests)
        try:
            answers = yield from self.bulk(requests, _UNLOCKED)
        except AcknowledgementLost as error:
            return [request.unknown(error) for request in requests]
        except Conflicted:
            return [None] * len(requests)
        if unseen := [place for place, answer in enumerate(answers) if answer is None]:
            there = yield from self._present([requests[place] for place in unseen])
            for place, present in zip(unseen, there, strict=True):
                answers[place] = None if present else requests[place].missing()
        return answers

    def bulk(self, requests: Sequence[MoveRequest], patience: Mapping[str, str]) -> Program[Found]:
        """One statement for many rows, each named once; None for a row that it did not see."""
        first = requests[0]
        spec = first.move.lifecycle
        named: dict[Any, MoveRequest] = {}
        for request in requests:
            named.setdefault(request.parts, request)
        asked = list(named.values())
        types = yield from self.dialect.column_types(spec)
        rows = yield self._many_text(first, types, patience).bind({**slots.values(first), **arrays(asked)})
        found: list[Row] = [_NO_ROW] * len(asked)
        losers: dict[str, tuple[str, Any]] = {}
        for ordinal, *row in rows:
            found[ordinal - 1] = row
            if not row[5]:
                losers[row[4]] = (row[0], row[1])
        winners = (yield from self._winners(spec, losers)) if spec.history and losers else {}
        decided = {one.parts: _answer(one, row, winners) for one, row in zip(asked, found, strict=True)}
        answers: Found = []
        for request in requests:
            answer = decided[request.parts]
            repeats = named[request.parts] is not request
            answers.append(request.again(answer) if repeats and answer is not None else answer)
        return answers

    def _winners(self, spec: Spec[Any], losers: dict[str, tuple[str, Any]]) -> Program[dict[str, str | None]]:
        """Who moved these rows to where they were found, as `_winner` says it of one."""
        inside = self.dialect.in_transaction()
        text = self.fast_texts.get("move.who_of_many", spec, lambda: self.dialect.row(spec))
        try:
            rows = yield text.bind({"keys": list(losers)})
        except Exception as error:
            if inside:
                raise
            log.warning("%s: the history could not be asked who won: %s", spec, error.__cause__ or error)
            return {}
        return {key: actor for key, after, revision, actor in rows if losers[key] == (after, revision)}

    def _sets_arrays(self, request: MoveRequest) -> Program[bool]:
        """Whether the call sets an array: an array of arrays would come apart in the statement for many."""
        if not request.set:
            return False
        types = yield from self.dialect.column_types(request.move.lifecycle)
        return any(types[column].endswith("[]") for column in request.set)

    def _present(self, requests: Sequence[MoveRequest]) -> Program[list[bool]]:
        """Which of these rows are there, whoever holds them; if that cannot be found out, they are asked for alone.

        The others of the statement are committed by now, so no error may take their answers away.
        """
        first = requests[0]
        types = yield from self.dialect.column_types(first.move.lifecycle)
        prepared = self.fast_texts.get(
            "move.present",
            (first.shape, tuple(types.items())),
            lambda: {**self.dialect.row(first.move.lifecycle), **self.wanted(first, types)},
        )
        try:
            rows = yield prepared.bind(arrays(requests))
        except Exception as error:
            log.warning("%s: could not ask which rows are there: %s", first.move, error.__cause__ or error)
            return [True] * len(requests)
        there = {ordinal for (ordinal,) in rows}
        return [place in there for place in range(1, len(requests) + 1)]

    def matching(self, request: MoveRequest, limit: int | None) -> Program[Answers]:
        try:
            rows = yield self._matching_text(request).bind({**slots.values(request), "limit": limit})
        except AcknowledgementLost as error:
            return [request.unknown(error)]
        except Conflicted as error:
            return [request.conflict(error)]
        spec, answers = request.move.lifecycle, []
        for before, revision, *rest in rows:
            one = replace(request, key=user_key(spec, rest[: len(spec.key_columns)]))
            answers.append(one.moved_row(before, revision, rest[len(spec.key_columns) :]))
        return answers

    def _many_text(self, request: MoveRequest, types: Mapping[str, str], patience: Mapping[str, str]) -> Prepared:
        """The statement for many calls of one shape; two databases may differ in the types of the columns."""

        def slots() -> Mapping[str, str]:
            found = self.slots(request, "cur.rp_set_{}", "w.rp_fence_wanted", "w.rp_revision_wanted")
            noted = self.noted(request, found, _OF_ITS_ROW, "changed ON changed.rp_ord = cur.rp_ord")
            return {**found, **self.wanted(request, types), **patience, "noted": noted}

        shape = (request.shape, patience["skip_locked"], tuple(types.items()))
        return self.fast_texts.get("move.many", shape, slots)

    def _matching_text(self, request: MoveRequest) -> Prepared:
        keys = range(len(request.move.lifecycle.key_columns))
        same_row = " AND ".join(f"changed.rp_key_{i} = cur.rp_key_{i}" for i in keys)
        slots = self.slots(request)
        slots |= {
            "noted": self.noted(request, slots, _OF_THE_CALL, f"changed ON {same_row}", losers=False),
            "changed_keys": ", ".join(f"changed.rp_key_{i}" for i in keys),
            "cur_is_changed": same_row,
        }
        return self.fast_texts.render("move.matching", slots)

    def wanted(self, request: MoveRequest, types: Mapping[str, str]) -> dict[str, str]:
        """The values that each row has of its own, as arrays."""
        spec = request.move.lifecycle
        columns = {f"rp_wanted_{i}": types[column] for i, column in enumerate(spec.key_columns)}
        columns |= {f"rp_set_{i}": types[column] for i, column in enumerate(request.set)}
        if request.fence is not None and request.fence_column:
            columns["rp_fence_wanted"] = types.get(request.fence_column, "bigint")
        columns |= {"rp_revision_wanted": "bigint"} if request.revision is not None else {}
        columns |= {"rp_by": "text", "rp_reason": "text", "rp_call": "text"} if spec.history else {}
        wanted = [f"t.{identifier(c)} = w.rp_wanted_{i}" for i, c in enumerate(spec.key_columns)]
        return {
            "arrays": lines((f"{parameter(name)}::{type_}[]" for name, type_ in columns.items()), ","),
            "wanted": ", ".join(columns),
            "t_is_wanted": " AND ".join(wanted),
        }


def _answer(request: MoveRequest, row: Row, winners: Mapping[str, str | None]) -> Answer[Any, Any] | None:
    before, revision, fence, unmet, key, won, new_revision, *returned = row
    if before is None:
        return None
    if won:
        return request.moved_row(before, new_revision, returned)
    return request.not_moved(before, revision, fence, unmet, winners.get(key))


def arrays(requests: Sequence[MoveRequest]) -> dict[str, list[Any]]:
    """The values that each row has of its own."""
    first = requests[0]
    found: dict[str, list[Any]] = {
        f"rp_wanted_{i}": [request.parts[i] for request in requests] for i in range(len(first.parts))
    }
    for i, column in enumerate(first.set):
        found[f"rp_set_{i}"] = [request.set[column] for request in requests]
    own = {"rp_fence_wanted": "fence"} if first.fence is not None else {}
    own |= {"rp_revision_wanted": "revision"} if first.revision is not None else {}
    if first.move.lifecycle.history:
        own |= {"rp_by": "by", "rp_reason": "reason", "rp_call": "call"}
    return found | {name: [getattr(one, of) for one in requests] for name, of in own.items()}
