"""Rows on Redis and Valkey, which has no index over hashes: a bounded walk through the keys, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raceproof.moves import RedisMoves
from raceproof.moves.redis_texts import parts_of_text, text_of
from raceproof.moves.tenants import is_of_tenant
from raceproof.spec import Spec
from raceproof.statement import Program, Statement, source
from raceproof.store import AsyncStore

SCRIPT = source("raceproof.web", "redis.lua")
_STEPS = 8
_KEYS_IN_ONE_STEP = 500
_SPECIAL = "*?[]\\^"


@dataclass(frozen=True, slots=True)
class Looked:
    """What a walk found: the text of each key with its fields; whether it saw all, and what to say if not."""

    rows: Sequence[tuple[str, Sequence[Any]]]
    complete: bool
    note: str = ""


def look(store: AsyncStore, table: str, fields: Sequence[str]) -> Program[Looked]:
    """The fields of the hashes of a table, as far as a few steps of SCAN get."""
    moves = store._driver.moves
    if not isinstance(moves, RedisMoves) or moves.cluster:
        return Looked((), False, "a cluster cannot be searched for rows; look one up by its key")
    start = f"{table}:"
    pattern = "".join(f"\\{one}" if one in _SPECIAL else one for one in start) + "*"
    found: dict[str, Sequence[Any]] = {}
    cursor = "0"
    for _ in range(_STEPS):
        given = (cursor, "MATCH", pattern, "COUNT", _KEYS_IN_ONE_STEP, "TYPE", "hash")
        ((following, named),) = yield Statement("web.scan", "SCAN", given)
        keys = [text_of(name) for name in named]
        if keys:
            values = yield Statement("web.fields", SCRIPT, tuple(fields), keys)
            found |= {
                key[len(start) :]: [text_of(one) for one in row]
                for key, row in zip(keys, values, strict=True)
            }
        cursor = text_of(following)
        if cursor == "0":
            return Looked(list(found.items()), True)
    looked = _STEPS * _KEYS_IN_ONE_STEP
    return Looked(
        list(found.items()),
        False,
        f"Redis has no index over hashes: a walk through {looked:,} of its keys met these",
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
    return parts if is_of_tenant(spec.tenant, parts, store._tenant) else None


def clock() -> Program[float]:
    ((seconds, micros),) = yield Statement("time", "TIME")
    return float(seconds) + float(micros) / 1e6
