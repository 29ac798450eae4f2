"""The checks for each dialect."""

from typing import Any

from raceproof.attempts import Attempts
from raceproof.declare.spec import Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.dialects import sql_dialect
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program, Style, reading
from raceproof.leases import Lease
from raceproof.ops.verify.catalog import Catalog
from raceproof.ops.verify.finding import Finding, Trial, no_table
from raceproof.ops.verify.postgres import PostgresVerify
from raceproof.ops.verify.sqlite import SqliteVerify
from raceproof.ops.verify.tables import owner_findings, table_findings

Beside = Delivery | Attempts | Lease | Inbox
"""Declarations other than lifecycles."""


def findings_of(dialect: str, style: Style, declared: Spec[Any] | Beside) -> Program[list[Finding]]:
    """Compare the database with the declaration; reads only."""
    if dialect == "redis":
        yield from ()
        return [Finding("ok", f"{declared}: Redis has no schema, so nothing can drift")]
    if not isinstance(declared, Spec):
        return (yield from _beside(dialect, style, declared))
    checks = PostgresVerify(declared, style) if dialect == "postgres" else SqliteVerify(declared, style)
    return (yield from reading(checks.findings()))


def _beside(dialect: str, style: Style, thing: Beside) -> Program[list[Finding]]:
    """An inbox is checked together with its lifecycle."""
    catalog = Catalog(sql_dialect(dialect).name, style)
    found = yield from reading(table_findings(catalog, thing))
    match thing:
        case Attempts() if not found:
            return [no_table(thing.lifecycle)]
        case Attempts():
            found += yield from reading(owner_findings(catalog, thing))
        case Inbox() if not found[0].what.endswith(" does not exist"):
            inner = yield from findings_of(dialect, style, thing.lifecycle)
            # the columns are checked above, and a table of the library needs no guards
            found += [one for one in inner if not one.what.startswith((f"table {thing.table} ", "no guards"))]
    return found


def trials_of(dialect: str, style: Style, spec: Spec[Any]) -> Program[list[Trial]]:
    """Try every change of status against the installed guards, on temporary rows."""
    if dialect == "redis":
        raise CallError(f"{spec}: Redis has no triggers, so there are no guards to try")
    checks = PostgresVerify(spec, style) if dialect == "postgres" else SqliteVerify(spec, style)
    return (yield from reading(checks.trials()))
