"""Rows on Redis and Valkey, which has no index over hashes: a bounded walk through the keys, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError
from raceproof.kernel.redis import parts_of_text, text_of
from raceproof.kernel.statement import Program, Statement, source
from raceproof.kernel.tenants import is_of_tenant
from raceproof.ops.inspect import scan_keys, searchable
from raceproof.store import AsyncStore

SCRIPT = source("raceproof.ops.web", "redis.lua")
_STEPS = 8
_KEYS_IN_ONE_STEP = 500


@dataclass(frozen=True, slots=True)
class Looked:
    """What a walk found: the text of each key with its fields; whether it saw all, and what to say if not."""

    rows: Sequence[tuple[str, Sequence[Any]]]
    complete: bool
    note: str = ""


def look(store: AsyncStore, table: str, fields: Sequence[str]) -> Program[Looked]:
    """The fields of the hashes of a table, as far as a few steps of SCAN get."""
    try:
        searchable(store, table)
    except CallError:
        return Looked((), False, "a cluster cannot be searched for rows; look one up by its key")
    found: dict[str, Sequence[Any]] = {}
    cursor = "0"
    for _ in range(_STEPS):
        cursor, members = yield from scan_keys(f"{table}:", cursor, _KEYS_IN_ONE_STEP)
        if members:
            rows = yield from fields_of(store, table, members, fields)
            found |= dict(zip(members, rows, strict=True))
        if cursor == "0":
            return Looked(list(found.items()), True)
    looked = _STEPS * _KEYS_IN_ONE_STEP
    return Looked(
        list(found.items()), False, f"Redis has no index over hashes: a walk through {looked:,} of its keys met these"
    )


def fields_of(
    store: AsyncStore, table: str, members: Sequence[str], fields: Sequence[str]
) -> Program[list[Sequence[Any]]]:
    """The fields of these hashes."""
    if not members:
        return []
    rows = yield Statement("web.fields", SCRIPT, tuple(fields), [f"{table}:{member}" for member in members])
    return [[text_of(one) for one in row] for row in rows]


def parts_of(store: AsyncStore, spec: Spec[Any], text: str) -> tuple[Any, ...] | None:
    """The columns of a key; None if it is not one, or another tenant's."""
    parts = parts_of_text(spec, text)
    if len(parts) != len(spec.key_columns):
        return None
    return parts if is_of_tenant(spec.tenant, parts, store.tenant) else None
