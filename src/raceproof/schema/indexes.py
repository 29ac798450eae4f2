"""The indexes that claims and attempts need.

On PostgreSQL an index for a claim is made CONCURRENTLY, which holds up no writer but cannot be done inside a transaction.
Migrations usually run in one: there, `raceproof.ddl` leaves that word out.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from raceproof.attempts import Attempts
from raceproof.claims.slots import ordered
from raceproof.declare.spec import Claimable
from raceproof.kernel.dialect import listed
from raceproof.kernel.dialects import sql_dialect
from raceproof.kernel.quoting import identifier, qualified, split_qualified
from raceproof.kernel.statement import templates
from raceproof.schema.tables import Dialect

_LONGEST = 63  # bytes: PostgreSQL cuts a longer name, and two of them could become one


def attempt_index(attempts: Attempts, dialect: Dialect) -> str:
    """The unique index with which an owner has at most one open attempt, even for writers that do not use the library."""
    spec = attempts.lifecycle
    slots = {
        **sql_dialect(dialect).row(spec),
        **_names(spec.table, ("one_open",), dialect),
        "owner_columns": ", ".join(map(identifier, attempts.owner_columns)),
        "open": listed(attempts.open),
    }
    return templates("raceproof.schema", f"{dialect}.sql")["attempt.index"].prepare(slots, "dollar").text


def claim_indexes(claim: Claimable[Any], dialect: Dialect, concurrently: bool = True) -> dict[str, str]:
    """The index that finds rows to claim (`search`); with an ordering key, also the one that finds earlier rows (`line`)."""
    found = {"search": _claim_index(claim, dialect, (claim.name,), search_columns(claim), concurrently)}
    if claim.ordering_key is not None:
        line = line_columns(claim)
        found["line"] = _claim_index(claim, dialect, (claim.name, "line"), line, concurrently)
    return found


def search_columns(claim: Claimable[Any]) -> list[str]:
    """In what order rows are looked for; a leading `-` is the greatest first."""
    spec = claim.lifecycle
    return [*([spec.tenant] if spec.tenant else []), *(claim.order_by or spec.key)]


def line_columns(claim: Claimable[Any]) -> list[str]:
    """By what the rows of one line are compared."""
    spec = claim.lifecycle
    ordered = [*claim.order_by, *(column for column in spec.key if column not in claim.order_by)]
    return [*([spec.tenant] if spec.tenant else []), *([claim.ordering_key] if claim.ordering_key else []), *ordered]


def _claim_index(
    claim: Claimable[Any], dialect: Dialect, names: Sequence[str], columns: Sequence[str], concurrently: bool
) -> str:
    spec = claim.lifecycle
    slots = {
        **sql_dialect(dialect).row(spec),
        **_names(spec.table, names, dialect),
        "index_columns": ordered(tuple(dict.fromkeys(columns))),
        "concurrently": " CONCURRENTLY" if concurrently else "",
        "open": listed(claim.open),
    }
    return templates("raceproof.schema", f"{dialect}.sql")["claim.index"].prepare(slots, "dollar").text


def _names(table: str, parts: Sequence[str], dialect: Dialect) -> dict[str, str]:
    *schema, bare = split_qualified(table)
    name = "_".join((bare, *parts))
    if len(name.encode()) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = name.encode()[: _LONGEST - 9].decode(errors="ignore") + "_" + digest
    # an index is where its table is: PostgreSQL says so by the table, SQLite by the index
    placed = (*schema, name) if dialect == "sqlite" else (name,)
    return {
        "index_name": ".".join(identifier(part) for part in placed),
        "table": qualified(table),
        "bare_table": identifier(bare),
    }
