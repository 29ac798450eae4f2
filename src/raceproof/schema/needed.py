"""The tables that declared things need, column by column, and the DDL for what is missing."""

from collections.abc import Iterable
from typing import Any, Literal

from raceproof.attempts import Attempts
from raceproof.declare.claim_forms import ClaimColumns, TimestampClaim
from raceproof.declare.claims import claim_roles
from raceproof.declare.spec import Claimable, History, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.dialects import sql_dialect
from raceproof.kernel.quoting import identifier, literal, qualified
from raceproof.leases import Lease
from raceproof.schema.tables import Dialect, history_columns, inbox_tables, lease_table

Kind = Literal["text", "time", "number", "bytes", "boolean"]
Needed = dict[str, Kind]
Tabled = Spec[Any] | Attempts | Delivery | Lease | Inbox | History


def table_of(thing: Tabled) -> str:
    return thing.lifecycle.table if isinstance(thing, Attempts) else thing.table


def own_columns_of(thing: Tabled) -> Needed:
    """The same without those of its lifecycle, which are listed with that."""
    inner = _of_lifecycle(thing.lifecycle) if isinstance(thing, Attempts | Inbox) else {}
    return {column: kind for column, kind in columns_of(thing).items() if column not in inner}


def columns_of(thing: Tabled) -> Needed:
    """The columns that a declaration names, and what each keeps."""
    found: Needed
    match thing:
        case Spec():
            return _of_lifecycle(thing)
        case Attempts():
            found = _of_lifecycle(thing.lifecycle) | {thing.owner: "text"}
            return found | ({thing.started: "time"} if thing.started else {})
        case Delivery():
            found = dict.fromkeys(thing.key_columns, "text")
            found |= {thing.delivering: "time", thing.delivered: "time"}
            found |= {column: "text" for column in (thing.state, thing.holder, thing.error) if column}
            return found | ({thing.attempts: "number"} if thing.attempts else {})
        case Lease():
            found = {"name": "text", "holder": "text", "epoch": "number"}
            return found | {"until": "time", "since": "time", "session": "boolean"}
        case Inbox():
            found = _of_lifecycle(thing.lifecycle) | {"id": "number"}
            return found | {"body": "bytes", "headers": "text", "received_at": "time"}
        case History():
            found = dict.fromkeys(history_columns, "text")
            return found | {"id": "number", "revision": "number", "at": "time"}


def _of_lifecycle(spec: Spec[Any]) -> Needed:
    found: Needed = dict.fromkeys((*spec.key_columns, spec.column), "text")
    for one in spec.moves.values():
        found |= dict.fromkeys(one.stamp, "time")
        found |= {column: "text" for column in one.sets if column not in found}
    for claim in spec.claims.values():
        found |= _of_claim(claim, found)
    return found | {column: "number" for column in (spec.revision, spec.fence) if column}


def _of_claim(claim: Claimable[Any], known: Needed) -> Needed:
    found: Needed = {}
    match claim.form:
        case ClaimColumns(holder=holder, until=until, fence=fence):
            found |= {holder: "text", until: "time", fence: "number"}
        case TimestampClaim(column=column):
            found[column] = "time"
        case _:
            found[claim.form.column] = "text"
    if claim.attempts:
        found[claim.attempts] = "number"
    if claim.not_before:
        found[claim.not_before] = "time"
    others = (*([claim.ordering_key] if claim.ordering_key else []), *(one.removeprefix("-") for one in claim.order_by))
    return found | {column: "text" for column in others if column not in {**known, **found}}


def written_columns(thing: Tabled) -> list[str]:
    """The columns that the library itself writes; the others have values and types that only the user knows."""
    match thing:
        case Spec():
            found = [stamp for one in thing.moves.values() for stamp in one.stamp]
            found += [column for column in (thing.revision, thing.fence) if column]
            for claim in thing.claims.values():
                found += [column for column, _ in claim_roles(claim)]
            return list(dict.fromkeys(found))
        case Attempts():
            return [thing.started] if thing.started else []
        case Delivery():
            return [column for column in columns_of(thing) if column not in thing.key_columns]
        case _:
            return list(columns_of(thing))


def adding(thing: Tabled, missing: Iterable[str], dialect: str, unless_there: bool = False) -> list[str]:
    """The statements that add columns; a status begins where the lifecycle begins."""
    needed, types = columns_of(thing), sql_dialect(dialect).ddl_types
    first = {}
    if isinstance(thing, Spec):
        first[thing.column] = f" NOT NULL DEFAULT {literal(str(thing.initial[0]))}"
    add = "ADD COLUMN IF NOT EXISTS" if unless_there else "ADD COLUMN"
    return [
        f"ALTER TABLE {qualified(table_of(thing))} {add} {identifier(column)} "
        f"{types[needed[column]]}{first.get(column, '')};"
        for column in missing
    ]


def creating(thing: Spec[Any] | Delivery | Lease | Inbox, dialect: Dialect) -> list[str]:
    """The table; of a lifecycle or a delivery only what is declared, for everything else in it belongs to the user."""
    if isinstance(thing, Lease):
        return lease_table(thing, dialect)
    if isinstance(thing, Inbox):
        return inbox_tables(thing, dialect)
    types, lines = sql_dialect(dialect).ddl_types, []
    for column, kind in columns_of(thing).items():
        needed = " NOT NULL" if column in (*thing.key_columns, getattr(thing, "column", None)) else ""
        lines.append(f"    {identifier(column)} {types[kind]}{needed}")
    keys = ", ".join(identifier(column) for column in thing.key_columns)
    body = ",\n".join((*lines, f"    PRIMARY KEY ({keys})"))
    return [f"CREATE TABLE {qualified(thing.table)} (\n{body}\n);"]
