"""Moves on SQLite by a guarded UPDATE alone, and many rows in one statement for each source.

The rule: a row that a fast statement returns has passed the guards of move.write; one that it does not return is decided
by `decide`, under the write lock.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from raceproof.kernel.quoting import identifier, literal
from raceproof.kernel.sqlite import SqliteDialect, convert
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Prepared, Program, transaction
from raceproof.moves import slots
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest
from raceproof.moves.sqlite import Plan, SqliteMoves


class _SpelledOtherwise(Exception):
    """The column gives a key back in another spelling, so it is not known whose it is."""


class FastSqliteMoves(SqliteMoves):
    """The same programs with fast statements before them."""

    def __init__(self, dialect: SqliteDialect, prefers: bool = True) -> None:
        super().__init__(dialect)
        self._fast_texts = dialect.texts("moves.fast")
        self._prefers = prefers
        self._plans: dict[Any, Plan] = self.texts.kept("plans", dict)

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        plan = self._plans.get(request.shape) or self._plans.setdefault(request.shape, self.plan(request))
        try:
            if not plan.keeps_history and not request.ended:
                plain = request.shape is request.move
                values = self.dialect.stored(request.parts if plain else slots.flat(request))
                for place, (before, write) in enumerate(plan.writes):
                    rows = yield write(values)
                    if rows:
                        self.prefer(plan, place)
                        return request.moved(before, rows[0][0], None if plain else rows[0][2:] or None)
            return (yield from transaction(plan.begin, self.decide(request)))
        except AcknowledgementLost as error:
            return request.unknown(error)
        except Conflicted as error:
            return request.conflict(error)

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        if requests and _alike(requests):
            try:
                return (yield from self.all_or_none(requests, self._all_at_once(requests)))
            except _SpelledOtherwise:
                pass  # nothing was kept
        return (yield from super().many(requests))

    def prefer(self, plan: Plan, place: int) -> None:
        """Try the source that has just won first from now on: rows tend to come in herds."""
        if place and self._prefers:
            writes = plan.writes  # read once: threads share the plan, and none may lose a source
            plan.writes = [writes[place], *writes[:place], *writes[place + 1 :]]

    def _all_at_once(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Under the write lock: one statement for each source; then those that did not move, one by one."""
        first = requests[0]
        keys = [convert(request.parts[0]) for request in requests]
        fenced = [[key, convert(request.fence)] for key, request in zip(keys, requests, strict=True)]
        values = self.dialect.bound(slots.values(first))
        values["keys"] = json.dumps(keys if first.fence is None else fenced)
        won: dict[str, tuple[str, Any, Sequence[Any]]] = {}
        for source in first.move.sources:
            rows = yield self._write_text(first, source).bind(values)
            found = {str(row[0]): row for row in rows}
            won |= {key: (source, revision, returned) for key, (_, revision, _, *returned) in found.items()}
            if first.move.lifecycle.history and found:
                calls = {str(key): request.call for key, request in zip(keys, requests, strict=True)}
                noted = [[found[key][2], found[key][1], call] for key, call in calls.items() if key in found]
                yield self._note_text(first).bind({**values, "before": source, "rows": json.dumps(noted)})
        answers = []
        for key, request in zip(keys, requests, strict=True):
            mine = won.pop(str(key), None)
            if mine is None:
                answers.append((yield from self.decide(request)))
            else:
                before, revision, returned = mine
                answers.append(request.moved(before, revision, returned or None))
        if won:
            raise _SpelledOtherwise
        return answers

    def _write_text(self, request: MoveRequest, source: str) -> Prepared:
        def slots() -> Mapping[str, str]:
            (column,) = request.move.lifecycle.key_columns
            own = {"key": identifier(column), "source": literal(source)}
            return self.slots(request, "json_extract(w.value, '$[1]')") | own

        name = "move.write_many" if request.fence is None else "move.write_fenced"
        return self._fast_texts.get(name, (request.shape, source), slots)

    def _note_text(self, request: MoveRequest) -> Prepared:
        return self._fast_texts.get("move.note_many", request.shape, lambda: self.slots(request))


def _alike(requests: Sequence[MoveRequest]) -> bool:
    """Whether all rows are found by one key column and set the same values, so that one statement can serve them."""
    first = requests[0]
    if len(first.parts) > 1 or first.ended or (first.fence is not None and first.revision is not None):
        return False
    if any(request.set is not first.set for request in requests):
        return False
    # a text like '01' finds the row 1 of a column of numbers, and comes back as 1; and beside the number 1, '1' is unclear
    texts = [request.parts[0] for request in requests if type(request.parts[0]) is str]
    return not any(map(_like_a_number, texts)) or (
        len(texts) == len(requests) and not any(map(_spelled_otherwise, texts))
    )


def _spelled_otherwise(text: str) -> bool:
    """Whether a column of numbers would give a text back in another spelling."""
    if text.isdecimal() and text.isascii() and text[0] != "0" and len(text) < 19:
        return False
    return _like_a_number(text)


def _like_a_number(text: str) -> bool:
    if text[:1] not in "+-.0123456789 \t\n":
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
