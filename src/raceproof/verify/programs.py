"""Which programs check which dialect."""

from typing import Any

from raceproof.errors import CallError
from raceproof.spec import Spec
from raceproof.statement import Program, Style, reading
from raceproof.verify.finding import Finding, Trial
from raceproof.verify.postgres import PostgresVerify
from raceproof.verify.sqlite import SqliteVerify


def verify(dialect: str, style: Style, spec: Spec[Any]) -> Program[list[Finding]]:
    """Compare the database with the declaration; reads only."""
    if dialect == "redis":
        return (yield from _nothing(spec))
    checks = PostgresVerify(spec, style) if dialect == "postgres" else SqliteVerify(spec, style)
    return (yield from reading(checks.findings()))


def try_matrix(dialect: str, style: Style, spec: Spec[Any]) -> Program[list[Trial]]:
    """Try every change of status against the installed guards, on rows that are made for it and never kept."""
    if dialect == "redis":
        raise CallError(f"{spec}: Redis has no triggers, so there are no guards to try")
    checks = PostgresVerify(spec, style) if dialect == "postgres" else SqliteVerify(spec, style)
    return (yield from reading(checks.trials()))


def _nothing(spec: Spec[Any]) -> Program[list[Finding]]:
    yield from ()
    return [Finding("ok", f"{spec}: a hash has no schema, there is nothing that could have drifted")]
