"""What claims need of a table: their columns, and an index that finds claimable rows.

Whether an index serves is decided by its columns and its WHERE, not by a plan, which depends on the size of the table.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from raceproof.declare.claim_forms import ClaimColumns, TextMarker, TimestampClaim, form_columns
from raceproof.declare.spec import Claimable, Spec
from raceproof.ops.verify.finding import Finding
from raceproof.schema import Dialect
from raceproof.schema.indexes import claim_indexes

_LITERAL = re.compile(r"'((?:[^']|'')*)'")


class Index(NamedTuple):
    """An index as the database knows it; an expression has no column's name."""

    columns: tuple[str | None, ...]
    descending: tuple[bool, ...]
    where: str | None


def claim_columns(spec: Spec[Any]) -> set[str]:
    """The columns that the claims of a lifecycle write, or order their rows by."""
    found: set[str] = set()
    for claim in spec.claims.values():
        named = (claim.attempts, claim.not_before, claim.ordering_key)
        found |= {*form_columns(claim.form), *(column for column in named if column)}
        found |= {column.removeprefix("-") for column in claim.order_by}
    return found


def counting_columns(spec: Spec[Any]) -> set[str]:
    """Those that must be integers."""
    found = {claim.attempts for claim in spec.claims.values() if claim.attempts}
    return found | {claim.form.fence for claim in spec.claims.values() if isinstance(claim.form, ClaimColumns)}


def timed_columns(spec: Spec[Any]) -> set[str]:
    """Those that keep a moment."""
    found: set[str] = {claim.not_before for claim in spec.claims.values() if claim.not_before}
    for claim in spec.claims.values():
        if isinstance(claim.form, ClaimColumns):
            found.add(claim.form.until)
        elif not isinstance(claim.form, TextMarker):
            found.add(claim.form.column)
    return found


def timed_fences(spec: Spec[Any]) -> set[str]:
    """Those whose moment is the fence of a holder."""
    return {claim.form.column for claim in spec.claims.values() if isinstance(claim.form, TimestampClaim)}


def index_findings(spec: Spec[Any], indexes: Sequence[Index], dialect: Dialect) -> Iterator[Finding]:
    """Which claims no index serves, each with the DDL that repairs it."""
    for claim in spec.claims.values():
        missing = claim_indexes(claim, dialect)
        if any(_finds(index, claim, dialect) for index in indexes):
            missing.pop("search")
        if any(_compares(index, claim, dialect) for index in indexes):
            missing.pop("line", None)
        if not missing:
            yield Finding("ok", f"an index serves the claim {claim}")
        for use, ddl in missing.items():
            what = "search for rows" if use == "search" else "check for earlier rows"
            yield Finding("warning", f"no index serves the claim {claim}: its {what} also reads ended rows", "", ddl)


def _finds(index: Index, claim: Claimable[Any], dialect: Dialect) -> bool:
    """It leads to the open rows: by the status, or in order and without the rows that have ended."""
    columns, descending = _own(index, claim)
    if not _covers(index.where, claim, dialect):
        return False
    if columns[:1] == (claim.lifecycle.column,):
        return True
    order = claim.order_by or claim.lifecycle.key
    wanted = [(column.removeprefix("-"), column.startswith("-")) for column in order]
    found = list(zip(columns, descending, strict=True))[: len(wanted)]
    backwards = [(column, not down) for column, down in wanted]
    return index.where is not None and found in (wanted, backwards)


def _compares(index: Index, claim: Claimable[Any], dialect: Dialect) -> bool:
    columns, _ = _own(index, claim)
    # rows without an ordering key may be left out of it
    where = None if index.where is None else _has_ordering_key(str(claim.ordering_key)).sub("", index.where)
    return columns[:1] == (claim.ordering_key,) and _covers(where, claim, dialect)


def _has_ordering_key(column: str) -> re.Pattern[str]:
    return re.compile(rf'\s+AND\s+\(*"?{re.escape(column)}"?\s+IS\s+NOT\s+NULL\)*', re.IGNORECASE)


def _own(index: Index, claim: Claimable[Any]) -> tuple[tuple[str | None, ...], tuple[bool, ...]]:
    """The columns after the tenant, which every search names."""
    leads = bool(index.columns) and index.columns[0] == claim.lifecycle.tenant
    return (index.columns[1:], index.descending[1:]) if leads else (index.columns, index.descending)


def _covers(where: str | None, claim: Claimable[Any], dialect: Dialect) -> bool:
    """Whether every open row is in the index, and the database can tell so."""
    if where is None:
        return True
    if claim.lifecycle.column not in where or " AND " in where.upper():
        return False
    named = [text.replace("''", "'") for text in _LITERAL.findall(where)]
    wanted = [str(status) for status in claim.open]
    if dialect == "sqlite":
        return named == wanted and "NOT" not in where.upper()  # SQLite compares the texts, as they are written
    if "<>" in where:
        return not set(wanted) & set(named)
    return set(wanted) <= set(named)
