"""The indexes that claims and attempts want, as DDL for the user to run.

On PostgreSQL an index for a claim is made CONCURRENTLY, which holds up no writer but cannot be done inside a transaction.
Migrations usually run in one: there, `raceproof.ddl` leaves that word out.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from raceproof.attempts import Attempts
from raceproof.claims import sql
from raceproof.moves.sql import declared
from raceproof.quoting import identifier, qualified, split_qualified
from raceproof.schema.history import Dialect
from raceproof.spec import Claimable
from raceproof.statement import need_sql, templates

_LONGEST = 63  # bytes: PostgreSQL cuts a longer name, and two of them could become one


def claim_index_ddl(claim: Claimable[Any], dialect: Dialect) -> str:
    """The index that finds rows to claim, and, for a serial claim, the one that finds the rows before them."""
    return "\n".join(claim_indexes(claim, dialect).values())


def attempt_index_ddl(attempts: Attempts, dialect: Dialect) -> str:
    """The unique index by which an owner has one open attempt at most, also for those who do not ask us."""
    need_sql(dialect)
    spec = attempts.lifecycle
    slots = {
        **declared(spec),
        **_names(spec.table, ("one_open",), dialect),
        "owner_columns": ", ".join(map(identifier, attempts.owner_columns)),
        "open": sql.statuses(attempts.open),
    }
    return templates("raceproof.attempts", f"{dialect}.sql")["attempt.index"].prepare(slots, "dollar").text


def claim_indexes(claim: Claimable[Any], dialect: Dialect, concurrently: bool = True) -> dict[str, str]:
    """The same one by one: `search`, and `line` for a serial claim."""
    need_sql(dialect)
    found = {"search": _claim_index(claim, dialect, (claim.name,), search_columns(claim), concurrently)}
    if claim.serial is not None:
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
    return [*([spec.tenant] if spec.tenant else []), *([claim.serial] if claim.serial else []), *ordered]


def _claim_index(
    claim: Claimable[Any], dialect: Dialect, names: Sequence[str], columns: Sequence[str], concurrently: bool
) -> str:
    spec = claim.lifecycle
    listed = [
        identifier(column.removeprefix("-")) + (" DESC" if column.startswith("-") else "")
        for column in dict.fromkeys(columns)
    ]
    slots = {
        **declared(spec),
        **_names(spec.table, names, dialect),
        "index_columns": ", ".join(listed),
        "concurrently": " CONCURRENTLY" if concurrently else "",
        "open": sql.statuses(claim.open),
    }
    return templates("raceproof.claims", f"{dialect}.sql")["claim.index"].prepare(slots, "dollar").text


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
