"""The finished texts of moves on PostgreSQL: `postgres.sql`, filled from a declaration and the shape of a call."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from raceproof.moves import sql
from raceproof.moves.answer import declared_guards
from raceproof.moves.request import MoveRequest
from raceproof.moves.words import PostgresWords
from raceproof.quoting import identifier, literal, parameter, qualified
from raceproof.spec import Spec
from raceproof.statement import Prepared, Statement, Style, lines, templates

_TEMPLATES = templates("raceproof.moves", "postgres.sql")
_WORDS = PostgresWords()
_RETURNS_OLD = 18
_SKIP_LOCKED = " SKIP LOCKED"
_PATIENCE = "set_config('lock_timeout', '50ms', true)"
_OWN = (parameter("by"), parameter("reason"), parameter("call"))


class Plan(NamedTuple):
    """The statements for one shape of call: the one that always answers, and a quicker one for the usual end."""

    full: Callable[[Sequence[Any]], Statement]
    swift: Callable[[Sequence[Any]], Statement] | None


class PostgresTexts:
    """Renders for one style of placeholder and one kind of server: from version 18 on, RETURNING knows the old row."""

    def __init__(self, style: Style, returns_old: bool) -> None:
        self.style: Style = style
        self._returns_old = returns_old
        self.plans: dict[Hashable, Plan] = {}
        self._rendered: dict[Hashable, Prepared] = {}

    def plan(self, request: MoveRequest) -> Plan:
        """Make the statements for a call; `plans` keeps them for all calls of its shape."""
        layout, swift = sql.layout(request), self.swift(request)
        plan = Plan(self.one(request).picking(layout), swift.picking(layout) if swift else None)
        self.plans[request.shape] = plan
        return plan

    def for_many(self, request: MoveRequest, types: Mapping[str, str], skip_locked: bool) -> Prepared:
        """The statement for many calls of one shape; two databases may differ in the types of the columns."""
        shape = (request.shape, skip_locked, tuple(types.items()))
        prepared = self._rendered.get(shape)
        if prepared is None:
            prepared = self._rendered[shape] = self.many(request, types, skip_locked)
        return prepared

    def swift(self, request: MoveRequest) -> Prepared | None:
        """The guarded UPDATE alone, where its RETURNING can tell what the row was before."""
        spec, move = request.move.lifecycle, request.move
        if len(move.sources) == 1:
            before = literal(move.sources[0])
        elif self._returns_old:
            before = f"old.{identifier(spec.column)}::text"
        else:
            return None
        held, told = "", ""
        if request.ended:
            if not self._returns_old:
                return None
            held, told = f", {sql.fenced_off(request, 'old')} AS rp_fenced_off", ", changed.rp_fenced_off"
        guards = sql.guards(request, _WORDS)
        slots = self._slots(request, guards, parameter("set_{}"))
        slots |= {
            "returning": held + sql.column_list(request.returning, "t."),
            "returned": told + sql.column_list(request.returning, "changed."),
            "before": before,
            "guards": lines((text for _, text in guards), " AND"),
            "move": literal(move.name),
            "target": literal(move.target),
            "now": _now(request),
        }
        return _TEMPLATES["move.swift" if spec.history else "move.swift without history"].prepare(
            slots, self.style
        )

    def one(self, request: MoveRequest) -> Prepared:
        slots = {
            **self._slots(request, sql.guards(request, _WORDS), parameter("set_{}")),
            **self._note(request, _OWN, "TRUE"),
        }
        return _TEMPLATES["move.one"].prepare(slots, self.style)

    def many(self, request: MoveRequest, types: Mapping[str, str], skip_locked: bool) -> Prepared:
        guards = sql.guards(request, _WORDS, "w.rp_fence_wanted", "w.rp_revision_wanted")
        own = ("cur.rp_by", "cur.rp_reason", "cur.rp_call")
        slots = {
            **self._slots(request, guards, "cur.rp_set_{}"),
            **self._note(request, own, "changed.rp_ord = cur.rp_ord"),
            **self._wanted(request, types),
            "skip_locked": _SKIP_LOCKED if skip_locked else "",
            "patience": _PATIENCE if skip_locked else "",
        }
        return _TEMPLATES["move.many"].prepare(slots, self.style)

    def swift_many(self, request: MoveRequest, types: Mapping[str, str]) -> Prepared | None:
        """The guarded UPDATE of many rows alone, where its RETURNING can tell what each was before."""
        key = ("swift many", request.shape, tuple(types.items()))
        prepared = self._rendered.get(key)
        spec, move = request.move.lifecycle, request.move
        if prepared is None and (self._returns_old or len(move.sources) == 1):
            several = len(move.sources) > 1
            before = f"old.{identifier(spec.column)}::text" if several else literal(move.sources[0])
            guards = sql.guards(request, _WORDS, "w.rp_fence_wanted", "w.rp_revision_wanted")
            slots = {
                **self._slots(request, guards, "w.rp_set_{}"),
                **self._wanted(request, types),
                "before": before,
                "guards": lines((text for _, text in guards), " AND"),
                "own": ", w.rp_by, w.rp_reason, w.rp_call" if spec.history else "",
                "move": literal(move.name),
                "target": literal(move.target),
                "now": _now(request),
                "swift_note": "",
            }
            if request.returning:
                slots["answers"] = f"rp_ord, rp_before, rp_revision{slots['returned']}"
            else:
                told = {"rp_ord": True, "rp_before": several, "rp_revision": spec.revision}
                slots["answers"] = ", ".join(
                    f"array_agg({c})" if tell else "NULL" for c, tell in told.items()
                )
            if spec.history:
                slots["swift_note"] = "\n" + _TEMPLATES["move.swift_note"].fill(slots)
            prepared = self._rendered[key] = _TEMPLATES["move.swift_many"].prepare(slots, self.style)
        return prepared

    def swift_alike(self, request: MoveRequest, types: Mapping[str, str]) -> Prepared:
        """The same for rows with one fence, and a key of one column."""
        key = ("swift alike", request.shape, tuple(types.items()))
        prepared = self._rendered.get(key)
        if prepared is None:
            (column,) = request.move.lifecycle.key_columns
            guards = sql.guards(request, _WORDS)
            slots = {
                **self._slots(request, guards, ""),
                "key": identifier(column),
                "key_type": types[column],
                "guards": lines((text for _, text in guards), " AND"),
            }
            prepared = self._rendered[key] = _TEMPLATES["move.swift_alike"].prepare(slots, self.style)
        return prepared

    def present(self, request: MoveRequest, types: Mapping[str, str]) -> Prepared:
        slots = {**sql.declared(request.move.lifecycle), **self._wanted(request, types)}
        return _TEMPLATES["move.present"].prepare(slots, self.style)

    def _wanted(self, request: MoveRequest, types: Mapping[str, str]) -> dict[str, str]:
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

    def matching(self, request: MoveRequest) -> Prepared:
        spec = request.move.lifecycle
        guards = sql.guards(request, _WORDS)
        keys = range(len(spec.key_columns))
        same_row = " AND ".join(f"changed.rp_key_{i} = cur.rp_key_{i}" for i in keys)
        slots = {
            **self._slots(request, guards, parameter("set_{}")),
            **self._note(request, _OWN, same_row, losers=False),
            "guards": lines((text for _, text in guards), " AND"),
            "t_keys_as": ", ".join(
                f"t.{identifier(c)} AS rp_key_{i}" for i, c in enumerate(spec.key_columns)
            ),
            "changed_keys": ", ".join(f"changed.rp_key_{i}" for i in keys),
            "cur_is_changed": same_row,
        }
        return _TEMPLATES["move.matching"].prepare(slots, self.style)

    def read(self, spec: Spec[Any], columns: Sequence[str]) -> Prepared:
        slots = {**sql.declared(spec), "columns": ", ".join(f"t.{identifier(name)}" for name in columns)}
        return _TEMPLATES["move.read"].prepare(slots, self.style)

    def _slots(self, request: MoveRequest, guards: list[tuple[int, str]], value: str) -> dict[str, str]:
        spec = request.move.lifecycle
        columns = [identifier(column) for column in spec.key_columns]
        held = f",\n           {sql.fenced_off(request)} AS rp_fenced_off" if request.ended else ""
        told = ", cur.rp_fenced_off" if request.ended else ""
        return {
            **sql.declared(spec),
            "held": held,
            "keys": ", ".join(f"t.{column} AS rp_key_{i}" for i, column in enumerate(columns)),
            "t_keys": ", ".join(f"t.{column}" for column in columns),
            "t_is_cur": " AND ".join(f"t.{column} = cur.rp_key_{i}" for i, column in enumerate(columns)),
            "revision": f"t.{identifier(spec.revision)}" if spec.revision else "NULL::bigint",
            "fence": f"t.{identifier(request.fence_column)}" if request.fence_column else "NULL::bigint",
            "key_text": sql.key_text(spec, "{}::text") if spec.history else "NULL::text",
            "unmet": sql.unmet(guards),
            "assignments": sql.assignments(request, _WORDS, _now(request), value),
            "sources": sql.sources(request),
            "returning": sql.column_list(request.returning, "t."),
            "returned": told + sql.column_list(request.returning, "changed."),
        }

    def _note(
        self, request: MoveRequest, who: tuple[str, str, str], joined: str, losers: bool = True
    ) -> dict[str, str]:
        """The history's part of a text: winners alone, or every decision where losers are recorded too."""
        spec = request.move.lifecycle
        if spec.history is None:
            return {"noted": ""}
        target = literal(request.move.target)
        if losers and spec.history.losers:
            join, revision = "LEFT JOIN", "COALESCE(changed.rp_revision, cur.rp_revision)"
            outcome = (
                "CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost'"
                f" WHEN cur.rp_before = {target} AND cur.rp_unmet & ~{declared_guards(request.move)} = 0 THEN 'already'"
                " ELSE 'refused' END"
            )
        else:
            join, revision, outcome = "JOIN", "changed.rp_revision", "'moved'"
        slots = {
            **sql.declared(spec),
            "move": literal(request.move.name),
            "outcome": outcome,
            "target": target,
            "noted_revision": revision,
            "actor": who[0],
            "reason": who[1],
            "call": who[2],
            "now": _now(request),
            "noted_join": f"{join} changed ON {joined}",
        }
        return {"noted": _TEMPLATES["move.note"].fill(slots)}

    def plain(self, name: str, spec: Spec[Any]) -> Prepared:
        """A statement that depends on the lifecycle alone."""
        key = (name, spec)
        prepared = self._rendered.get(key)
        if prepared is None:
            slots = {
                **sql.declared(spec),
                "key_text": sql.key_text(spec, "{}::text"),
                "regclass": literal(qualified(spec.table)),
            }
            prepared = self._rendered[key] = _TEMPLATES[name].prepare(slots, self.style)
        return prepared


def _now(request: MoveRequest) -> str:
    return "clock_timestamp()" if request.now is None else parameter("now") + "::timestamptz"


@cache
def postgres_texts(style: Style, version: int) -> PostgresTexts:
    """The texts for a server of this major version; all connections of one kind share them."""
    return PostgresTexts(style, version >= _RETURNS_OLD)
