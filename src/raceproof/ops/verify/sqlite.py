"""Checks on SQLite. The matrix is tried on a copy in memory that has the table's columns and the deployed triggers."""

import re
import sqlite3
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from raceproof.declare.spec import History, Spec
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier, literal, qualified, split_qualified
from raceproof.kernel.statement import Prepared, Program, Style, templates
from raceproof.ops.verify.claims import Index, claim_columns, index_findings
from raceproof.ops.verify.finding import Finding, Trial, all_changes, no_guards, no_table
from raceproof.schema.guards import guard_name, guard_statements
from raceproof.schema.needed import adding
from raceproof.schema.tables import history_columns, history_table

_TEMPLATES = templates("raceproof.ops.verify", "sqlite.sql")
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)
_TRIGGERS = ("update", "insert", "record_update", "record_insert")


class SqliteVerify:
    """The checks of one lifecycle."""

    def __init__(self, spec: Spec[Any], style: Style) -> None:
        self._spec = spec
        self._style: Style = style
        *schema, self._table = split_qualified(spec.table)
        self._schema = schema[-1] if schema else None
        self._slots = {
            "table": qualified(spec.table),
            "status": identifier(spec.column),
            "statuses": ", ".join(literal(status) for status in spec.statuses),
            "catalog": ".".join(identifier(part) for part in (*schema, "sqlite_master")),
        }

    def findings(self) -> Program[list[Finding]]:
        spec = self._spec
        columns = yield self._text("verify.columns").bind({"table": self._table, "schema": self._schema})
        if not columns:
            return [no_table(spec)]
        names = {name for name, _, _ in columns}
        found = [self._columns(names)]
        if spec.column in names:
            strangers = [value for (value,) in (yield self._text("verify.strangers").bind({}))]
            if strangers:
                look = self._text("verify.look").text
                found.append(Finding("error", f"rows have an undeclared {spec.column}", f"{strangers}", look))
            else:
                found.append(Finding("ok", f"every {spec.column} in the table is declared"))
        unique = [
            set(str(names).split("\0"))
            for (names,) in (yield self._text("verify.unique").bind({"table": self._table, "schema": self._schema}))
        ]
        unique.append({name for name, _, place in columns if place})
        found.append(self._key(unique))
        if spec.claims:
            found += yield from self._indexes()
        if spec.history:
            kept = {name for name, *_ in (yield self._text("verify.columns").bind(_named(spec.history.table)))}
            found.append(self._history(kept))
        history_is_fine = found[-1].level == "ok" or spec.history is None
        found.append(self._guard((yield self._text("verify.objects").bind({})), history_is_fine))
        return found

    def _columns(self, names: set[str]) -> Finding:
        spec = self._spec
        written = {column for one in spec.moves.values() for column in (*one.stamp, *one.sets)}
        wanted = {*spec.key_columns, spec.column, *written} | {c for c in (spec.revision, spec.fence) if c}
        wanted |= claim_columns(spec)
        if missing := sorted(wanted - names):
            repair = "\n".join(adding(spec, missing, "sqlite"))
            return Finding("error", f"table {spec.table} lacks {', '.join(missing)}", "", repair)
        return Finding("ok", f"table {spec.table} has all declared columns")

    def _key(self, unique: list[set[str]]) -> Finding:
        if any(columns and columns <= set(self._spec.key_columns) for columns in unique):
            return Finding("ok", "the key is unique")
        names = ", ".join(identifier(column) for column in self._spec.key_columns)
        name = identifier(f"{self._table}_key")
        repair = f"CREATE UNIQUE INDEX {name} ON {qualified(self._spec.table)} ({names});"
        return Finding("error", "the key is not unique: one move could write several rows", "", repair)

    def _indexes(self) -> Program[list[Finding]]:
        rows = yield self._text("verify.indexes").bind({"table": self._table, "schema": self._schema})
        indexes = []
        for _, listed in groupby(rows, key=itemgetter(0)):
            parts = list(listed)
            where = _WHERE.split(parts[0][3] or "", maxsplit=1)[-1] if parts[0][4] else None
            indexes.append(Index(tuple(part[1] for part in parts), tuple(bool(part[2]) for part in parts), where))
        return list(index_findings(self._spec, indexes, "sqlite"))

    def _history(self, columns: set[str]) -> Finding:
        assert self._spec.history is not None
        table = self._spec.history.table
        repair = "raceproof sql --dialect sqlite"
        if not columns:
            return Finding("error", f"the history {table} does not exist: every move fails", "", repair)
        if missing := [column for column in history_columns if column not in columns]:
            return Finding("error", f"the history {table} lacks {', '.join(missing)}", "", repair)
        return Finding("ok", f"the history {table} has all its columns")

    def _guard(self, objects: Any, history_is_fine: bool) -> Finding:
        triggers = self._triggers(objects)
        repair = "raceproof sql --guards --dialect sqlite"
        if not triggers:
            return no_guards("sqlite", sorted(name for type_, name, _ in objects if _of_guards(type_, name)))
        # SQLite rewrites the triggers that write to a history whose columns are renamed; that is a finding of its own
        deciding = [f"{guard_name(self._spec)}_{kind}" for kind in ("update", "insert")]
        expected = self._expected()
        same = triggers == expected if history_is_fine else _only(triggers, deciding) == _only(expected, deciding)
        if not same:
            return Finding("error", "the guards belong to another declaration", f"expected {self._spec.hash}", repair)
        return Finding("ok", f"the guards match this declaration ({self._spec.hash})")

    def _triggers(self, objects: Any) -> dict[str, str]:
        """Our triggers and their texts, without what says in which schema they are."""
        prefix = "" if self._schema is None else identifier(self._schema) + "."
        names = {f"{guard_name(self._spec)}_{kind}" for kind in _TRIGGERS}
        return {
            found: text.replace(f"CREATE TRIGGER {prefix}", "CREATE TRIGGER ")
            for type_, found, text in objects
            if type_ == "trigger" and found in names
        }

    def _expected(self) -> dict[str, str]:
        """The same triggers as SQLite would store them after a fresh installation."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            if self._schema not in (None, "main"):
                copy.execute(_text("copy.attach", {"schema": identifier(str(self._schema))}))
            prefix = "" if self._schema is None else identifier(self._schema) + "."
            slots = {"copy": prefix + identifier(self._table), "columns": self._slots["status"]}
            copy.execute(_text("trial.table", slots))
            copy.executescript("\n".join(guard_statements(self._spec, "sqlite")))
            return self._triggers(copy.execute(_text("verify.objects", self._slots)).fetchall())
        finally:
            copy.close()

    def trials(self) -> Program[list[Trial]]:
        spec = self._spec
        columns = yield self._text("verify.columns").bind({"table": self._table, "schema": self._schema})
        triggers = self._triggers((yield self._text("verify.objects").bind({})))
        if not columns or not triggers:
            raise CallError(f"{spec}: no guards are installed; `raceproof sql --guards` prints them")
        self._slots["copy"] = identifier(self._table)
        self._slots["columns"] = ", ".join(identifier(name) for name, _, _ in columns)
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            copy.execute(self._text("trial.table").text)
            copy.execute(self._text("trial.override").text)
            if spec.history:
                copy.executescript("\n".join(history_table(replace(spec, history=bare_history(spec)), "sqlite")))
            copy.executemany(_text("trial.insert", self._slots), [(str(status),) for status in spec.statuses])
            for text in triggers.values():
                copy.execute(text)
            return [self._try(copy, *change) for change in all_changes(spec)]
        finally:
            copy.close()

    def _try(self, copy: sqlite3.Connection, before: str | None, after: str, declared: bool) -> Trial:
        copy.execute("BEGIN")
        error = ""
        try:
            if before is None:
                copy.execute(_text("trial.insert", self._slots), (after,))
            else:
                copy.execute(_text("trial.update", self._slots), (after, before))
        except sqlite3.Error as refusal:
            error = str(refusal)
        copy.execute("ROLLBACK")
        return Trial(before, after, declared, not error, error)

    def _text(self, name: str) -> Prepared:
        return _TEMPLATES[name].prepare(self._slots, self._style)


def _of_guards(type_: str, name: str) -> bool:
    """A trigger of ours, or the table of overrides, which stays when a migration makes the guarded table again."""
    return name.startswith("raceproof_guard_") if type_ == "trigger" else name == "raceproof_override"


def _only(texts: dict[str, str], names: list[str]) -> list[str | None]:
    return [texts.get(name) for name in names]


def bare_history(spec: Spec[Any]) -> History:
    assert spec.history is not None
    return History(identifier(split_qualified(spec.history.table)[-1]), spec.history.losers)


def _named(table: str) -> dict[str, str | None]:
    *schema, bare = split_qualified(table)
    return {"table": bare, "schema": schema[-1] if schema else None}


def _text(name: str, slots: dict[str, str]) -> str:
    """A text for the copy in memory, which is a plain sqlite3 connection."""
    return _TEMPLATES[name].prepare(slots, "question").text
