"""Whether the database matches deliveries, attempts, leases and inboxes."""

import re
from collections.abc import Iterator, Mapping

from raceproof.attempts import Attempts
from raceproof.declare.spec import Spec
from raceproof.deliveries import Delivery
from raceproof.kernel.statement import Program
from raceproof.ops.verify.catalog import Catalog
from raceproof.ops.verify.claims import timed_columns
from raceproof.ops.verify.column_types import number_findings, time_findings
from raceproof.ops.verify.finding import Finding
from raceproof.schema import Dialect
from raceproof.schema.indexes import attempt_index
from raceproof.schema.needed import Tabled, adding, columns_of, creating, own_columns_of, table_of

_LITERAL = re.compile(r"'((?:[^']|'')*)'")
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)


def table_findings(catalog: Catalog, thing: Tabled) -> Program[list[Finding]]:
    """The table exists, with its columns; on PostgreSQL also with suitable types."""
    return [finding for finding, _ in (yield from table_repairs(catalog, thing))]


def table_repairs(catalog: Catalog, thing: Tabled) -> Program[list[tuple[Finding, list[str]]]]:
    """The same, each with the statements that repair it."""
    name = table_of(thing)
    there = yield from catalog.columns(name)
    if not there:
        if isinstance(thing, Attempts):  # a finding of its lifecycle
            return []
        made = creating(thing, catalog.dialect)  # type: ignore[arg-type]
        return [(Finding("error", f"table {name} does not exist", "", "\n".join(made)), made)]
    found = [_missing(thing, there, catalog.dialect)]
    if catalog.dialect == "postgres" and not isinstance(thing, Spec):
        found += [(one, [one.repair] if one.repair else []) for one in _kinds(thing, there)]
    return found


def _missing(thing: Tabled, there: Mapping[str, str], dialect: Dialect) -> tuple[Finding, list[str]]:
    name = table_of(thing)
    needed = own_columns_of(thing) if isinstance(thing, Attempts) else columns_of(thing)
    if missing := [column for column in needed if column not in there]:
        repair = adding(thing, missing, dialect)
        return Finding("error", f"table {name} lacks {', '.join(missing)}", "", "\n".join(repair)), repair
    return Finding("ok", f"table {name} has all declared columns"), []


def _kinds(thing: Tabled, there: Mapping[str, str]) -> Iterator[Finding]:
    own = own_columns_of(thing)
    times = {column for column, kind in own.items() if kind == "time"}
    if isinstance(thing, Attempts) and thing.started:
        spec = thing.lifecycle
        known = timed_columns(spec) | {stamp for move in spec.moves.values() for stamp in move.stamp}
        times |= {thing.started} - known
    fences = {thing.delivering} if isinstance(thing, Delivery) else set()
    yield from number_findings((column for column, kind in own.items() if kind == "number"), there)
    yield from time_findings(table_of(thing), times, fences, there)


def owner_findings(catalog: Catalog, attempts: Attempts) -> Program[list[Finding]]:
    """A unique index refuses an owner a second open attempt."""
    if (yield from has_index(catalog, attempts)):
        return [Finding("ok", f"a unique index limits {attempts} to one open per owner")]
    return [no_index(catalog, attempts)]


def no_index(catalog: Catalog, attempts: Attempts) -> Finding:
    owner = ", ".join(attempts.owner_columns)
    what = f"no unique index on {owner}: raw SQL can give an owner a second open attempt"
    return Finding("warning", what, "", attempt_index(attempts, catalog.dialect))


def has_index(catalog: Catalog, attempts: Attempts) -> Program[bool]:
    """Whether a unique index on the owner covers every open attempt."""
    found: list[tuple[list[str | None], str | None]] = []
    for names, where in (yield from catalog.rows("verify.unique_where", attempts.lifecycle.table)):
        if catalog.dialect == "postgres":
            found.append((list(names), where))
        else:
            found.append(([*str(names).split("\0")], _WHERE.split(where, maxsplit=1)[-1] if where else None))
    wanted = sorted(attempts.owner_columns)
    return any(sorted(map(str, names)) == wanted and _covers(where, attempts) for names, where in found)


def _covers(where: str | None, attempts: Attempts) -> bool:
    if where is None:
        return True
    named = {text.replace("''", "'") for text in _LITERAL.findall(where)}
    return {str(status) for status in attempts.open} <= named and "<>" not in where
