"""Findings, with their evidence and repair."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from raceproof.declare.spec import Spec

NO_GUARDS = "no guards: raw SQL can set any status"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of the database against the declaration."""

    level: Literal["ok", "warning", "error"]
    what: str
    evidence: str = ""
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One change of status tried against the guards; `before` is None for a new row."""

    before: str | None
    after: str
    declared: bool
    accepted: bool
    error: str = ""

    @property
    def wrong(self) -> bool:
        return self.declared != self.accepted


def all_changes(spec: Spec[Any]) -> list[tuple[str | None, str, bool]]:
    """Every change of status and every first status, and whether the lifecycle declares it."""
    pairs = {(str(source), str(one.target)) for one in spec.moves.values() for source in one.sources}
    statuses = [str(status) for status in spec.statuses]
    initial = {str(status) for status in spec.initial}
    firsts: list[tuple[str | None, str, bool]] = [(None, status, status in initial) for status in statuses]
    return firsts + [(b, a, (b, a) in pairs) for b in statuses for a in statuses if a != b]


def no_guards(dialect: str, in_use: Sequence[str]) -> Finding:
    """A lifecycle without guards: an error if other lifecycles have some, or this one had."""
    repair = f"raceproof sql --guards --dialect {dialect}"
    if not in_use:
        return Finding("warning", NO_GUARDS, "", repair)
    evidence = f"this database uses guards: {', '.join(in_use)} exists"
    if dialect == "sqlite":
        evidence += "; a migration that recreates a table drops its triggers"
    return Finding("error", NO_GUARDS, evidence, repair)


def no_table(spec: Spec[Any]) -> Finding:
    return Finding("error", f"table {spec.table} does not exist", "", "create it, or correct table= in the declaration")
