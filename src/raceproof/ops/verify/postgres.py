"""Checks on PostgreSQL. The matrix is tried on a temporary table that carries the deployed trigger function."""

from collections.abc import Iterator
from typing import Any

from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier, literal, qualified
from raceproof.kernel.statement import BEGIN, ROLLBACK, Prepared, Program, Statement, Style, templates
from raceproof.ops.verify.claims import (
    Index,
    claim_columns,
    counting_columns,
    index_findings,
    timed_columns,
    timed_fences,
)
from raceproof.ops.verify.column_types import number_findings, time_findings
from raceproof.ops.verify.finding import Finding, Trial, all_changes, no_guards, no_table
from raceproof.schema.guards import function_body, function_name, guard_name
from raceproof.schema.needed import adding
from raceproof.schema.tables import history_columns

_TEMPLATES = templates("raceproof.ops.verify", "postgres.sql")
_AFTER_EACH_INSERT_OR_UPDATE = 1 + 4 + 16  # of pg_trigger.tgtype: for each row, on insert, on update; not before


class PostgresVerify:
    """The checks of one lifecycle."""

    def __init__(self, spec: Spec[Any], style: Style) -> None:
        self._spec = spec
        self._style: Style = style
        self._slots = {
            "table": qualified(spec.table),
            "status": identifier(spec.column),
            "statuses": ", ".join(literal(status) for status in spec.statuses),
        }

    def findings(self) -> Program[list[Finding]]:
        spec = self._spec
        relation = yield from self._relation(spec.table)
        if relation is None:
            return [no_table(spec)]
        columns = {name: type_ for name, type_, _ in (yield self._text("verify.columns").bind({"relation": relation}))}
        found = list(_columns(spec, columns))
        if spec.column in columns:
            found += yield from self._statuses(relation)
        found += yield from self._key(relation)
        if spec.claims:
            found += yield from self._indexes(relation)
        found += yield from self._history()
        found += yield from self._guard(relation)
        return found

    def _statuses(self, relation: int) -> Program[list[Finding]]:
        spec = self._spec
        values = {"relation": relation, "column": spec.column}
        labels = [label for (label,) in (yield self._text("verify.labels").bind(values))]
        if labels and (missing := [status for status in spec.statuses if status not in labels]):
            adding = "; ".join(f"ALTER TYPE … ADD VALUE {literal(status)}" for status in missing)
            return [
                Finding("error", f"the enum of {spec.column} lacks {', '.join(missing)}", f"it has {labels}", adding)
            ]
        strangers = [value for (value,) in (yield self._text("verify.strangers").bind({}))]
        if strangers:
            look = self._text("verify.look").text
            return [Finding("error", f"rows have an undeclared {spec.column}", f"{strangers}", look)]
        return [Finding("ok", f"every {spec.column} in the table is declared")]

    def _key(self, relation: int) -> Program[list[Finding]]:
        rows = yield self._text("verify.unique").bind({"relation": relation})
        key = set(self._spec.key_columns)
        if any(set(columns) <= key for (columns,) in rows):
            return [Finding("ok", "the key is unique")]
        names = ", ".join(identifier(column) for column in self._spec.key_columns)
        repair = f"CREATE UNIQUE INDEX ON {qualified(self._spec.table)} ({names});"
        return [Finding("error", "the key is not unique: one move could write several rows", "", repair)]

    def _indexes(self, relation: int) -> Program[list[Finding]]:
        rows = yield self._text("verify.indexes").bind({"relation": relation})
        indexes = [Index(tuple(columns), tuple(down), where) for columns, down, where in rows]
        return list(index_findings(self._spec, indexes, "postgres"))

    def _history(self) -> Program[list[Finding]]:
        history = self._spec.history
        if history is None:
            return []
        repair = "raceproof sql --dialect postgres"
        relation = yield from self._relation(history.table)
        if relation is None:
            return [Finding("error", f"the history {history.table} does not exist: every move fails", "", repair)]
        columns = {name for name, _, _ in (yield self._text("verify.columns").bind({"relation": relation}))}
        if missing := [column for column in history_columns if column not in columns]:
            return [Finding("error", f"the history {history.table} lacks {', '.join(missing)}", "", repair)]
        return [Finding("ok", f"the history {history.table} has all its columns")]

    def _guard(self, relation: int) -> Program[list[Finding]]:
        spec = self._spec
        values = {"relation": relation, "trigger": guard_name(spec)}
        rows = yield self._text("verify.guard").bind(values)
        repair = "raceproof sql --guards --dialect postgres"
        if not rows:
            in_use = yield self._text("verify.guarded").bind({"relation": relation})
            return [no_guards("postgres", [name for (name,) in in_use])]
        enabled, kind, whole, text = rows[0]
        if enabled not in ("O", "A"):
            enable = f"ALTER TABLE {qualified(spec.table)} ENABLE TRIGGER {identifier(guard_name(spec))};"
            return [Finding("error", "the guards are disabled", f"tgenabled = {enabled}", enable)]
        if kind != _AFTER_EACH_INSERT_OR_UPDATE or not whole or text.strip() != function_body(spec).strip():
            return [Finding("error", "the guards belong to another declaration", f"expected {spec.hash}", repair)]
        return [Finding("ok", f"the guards match this declaration ({spec.hash})")]

    def trials(self) -> Program[list[Trial]]:
        spec = self._spec
        relation = yield from self._relation(spec.table)
        columns = (
            {}
            if relation is None
            else {name: type_ for name, type_, _ in (yield self._text("verify.columns").bind({"relation": relation}))}
        )
        if spec.column not in columns:
            raise CallError(
                f"{spec}: table {spec.table} has no column {spec.column}, or does not exist; see `raceproof verify`"
            )
        values = {"relation": relation, "trigger": guard_name(spec)}
        if not (yield self._text("verify.guard").bind(values)):
            raise CallError(f"{spec}: no guards are installed; `raceproof sql --guards` prints them")
        yield BEGIN
        try:
            found = yield from self._try_all(columns[spec.column])
        except GeneratorExit:
            raise
        except BaseException:
            yield ROLLBACK
            raise
        yield ROLLBACK
        return found

    def _try_all(self, status_type: str) -> Program[list[Trial]]:
        yield from self._prepare_table(status_type)
        found = []
        for before, after, declared in all_changes(self._spec):
            found.append((yield from self._try(before, after, declared)))
        return found

    def _prepare_table(self, status_type: str) -> Program[None]:
        spec = self._spec
        self._slots |= {
            "columns": ", ".join(identifier(column) for column in (*spec.key_columns, spec.column)),
            "type": status_type,
            "trigger": identifier(guard_name(spec)),
            "function": function_name(spec),
        }
        for name in ("trial.table", "trial.rows", "trial.trigger"):
            yield self._text(name).bind({})

    def _try(self, before: str | None, after: str, declared: bool) -> Program[Trial]:
        yield Statement("trial.savepoint", "SAVEPOINT raceproof_trial")
        error = ""
        try:
            self._slots |= {"after": literal(after), "before": "" if before is None else literal(before)}
            yield self._text("trial.insert" if before is None else "trial.update").bind({})
        except Exception as refusal:
            error = str(refusal).splitlines()[0]
        yield Statement("trial.undo", "ROLLBACK TO SAVEPOINT raceproof_trial")
        return Trial(before, after, declared, not error, error)

    def _relation(self, table: str) -> Program[int | None]:
        rows = yield self._text("verify.table").bind({"table": qualified(table)})
        relation: int | None = rows[0][0]
        return relation

    def _text(self, name: str) -> Prepared:
        return _TEMPLATES[name].prepare(self._slots, self._style)


def _columns(spec: Spec[Any], columns: dict[str, str]) -> Iterator[Finding]:
    stamps = {stamp for one in spec.moves.values() for stamp in one.stamp}
    wanted = {*spec.key_columns, spec.column, *stamps, *(column for one in spec.moves.values() for column in one.sets)}
    wanted |= {column for column in (spec.revision, spec.fence) if column} | claim_columns(spec)
    missing = sorted(wanted - set(columns))
    if missing:
        repair = "\n".join(adding(spec, missing, "postgres"))
        yield Finding("error", f"table {spec.table} lacks {', '.join(missing)}", "", repair)
    else:
        yield Finding("ok", f"table {spec.table} has all declared columns")
    numbers = {column for column in (spec.revision, spec.fence) if column} | counting_columns(spec)
    yield from number_findings(numbers, columns)
    yield from time_findings(spec.table, stamps | timed_columns(spec), timed_fences(spec), columns)
