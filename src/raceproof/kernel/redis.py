"""Redis and Valkey: where rows are, and how keys, statuses and values are written there as text and read back."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from raceproof.declare.predicate import Comparison, EpochGuard, Predicate
from raceproof.declare.spec import Move, Spec
from raceproof.kernel.errors import CallError, ScriptFailed, StoreUnavailable
from raceproof.kernel.keys import KeyParts, key_text
from raceproof.kernel.lua import Expression, in_turn
from raceproof.kernel.shown import shown_key
from raceproof.kernel.statement import Style

_LONGEST_FENCE = 40
"""Digits; a counted fence has at most 19."""
_TAKES_NO_WRITES = re.compile(
    r"(?:^|[\s-])(READONLY|OOM|MISCONF|NOREPLICAS|LOADING|MASTERDOWN|CLUSTERDOWN|BUSY)(?:\s|$)"
)
_WHAT_TO_DO = {
    "READONLY": "this server is a replica; connect to the primary",
    "OOM": "it is out of memory; raise maxmemory or free some, and keep maxmemory-policy at noeviction",
    "MISCONF": "it cannot save to its disk; see its log",
    "NOREPLICAS": "fewer replicas are connected than min-replicas-to-write wants",
    "BUSY": "a script of another client blocks it",
}


class OfTenants(Protocol):
    """What has rows: a lifecycle, or a delivery."""

    @property
    def table(self) -> str: ...
    @property
    def tenant(self) -> str | None: ...


class RedisDialect:
    """Where rows are on one server: a row is a hash at `<table>:<key>`, its history a stream at `<table>/history:<key>`.

    On a cluster the key's text, or the tenant where there is one, is the hash tag of both.
    """

    name = "redis"
    style: Style = "dollar"

    def __init__(self, cluster: bool = False) -> None:
        self.cluster = cluster

    def in_transaction(self) -> bool:
        return False

    def row_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.row_of_text(spec, str(parts[0]) if spec.plain_key else key_text(parts))

    def history_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.history_of_text(spec, key_text(parts))

    def row_of_text(self, rows: OfTenants, text: str) -> str:
        return f"{rows.table}:{_tagged(rows, text) if self.cluster else text}"

    def history_of_text(self, spec: Spec[Any], text: str) -> str:
        if self.cluster and _hash_tag(spec, text)[:1] in ("", "}"):
            raise CallError(
                f"{spec}: on a cluster {'the tenant' if spec.tenant else 'the key'} is the hash tag that keeps a row and "
                f"its history in one slot, and it cannot be empty or begin with }}, as in {text!r}"
            )
        return f"{spec.table}/history:{_tagged(spec, text) if self.cluster else text}"

    def lease_keys(self, asked: object, where: Iterable[Predicate]) -> list[str]:
        """The keys of the leases that guards look at."""
        found = [f"{one.table}:{one.name}" for one in where if isinstance(one, EpochGuard)]
        if found and self.cluster:
            raise CallError(f"{asked}: on a cluster a lease and a row are apart, and cannot be looked at together")
        return found


def row_constants(spec: Spec[Any], returning: Sequence[str] = ()) -> dict[str, Any]:
    """The constants of scripts that depend on the lifecycle, and on the columns that a caller wants."""
    return {
        "lifecycle": spec.name,
        "column": spec.column,
        "row_prefix": f"{spec.table}:",
        "tenants": spec.tenant,
        "revision_column": spec.revision,
        "history": bool(spec.history),
        "losers": bool(spec.history and spec.history.losers),
        "stream_prefix": f"{spec.table}/history:",
        "stream_key": Expression("KEYS[rows + i]" if spec.history else "nil"),
        "keys_of_a_row": 2 if spec.history else 1,
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else None,
        "returning": bool(returning),
        "returned": in_turn(returning),
    }


def moved_fields(move: Move[Any] | None) -> list[Any]:
    """The fields that a move writes, and their values in turn."""
    if move is None:
        return []
    stamped = [part for stamp in move.stamp for part in (stamp, Expression("moment"))]
    return [move.lifecycle.column, move.target, *stamped]


class Scripts:
    """The scripts of one primitive: each kind of call has its own, made once for the process."""

    def __init__(self, make: Callable[..., str]) -> None:
        self._make = make
        self._made: dict[Hashable, str] = {}

    def get(self, *kind: Hashable) -> str:
        """The script that `make(*kind)` returns."""
        made = self._made.get(kind)
        if made is None:
            made = self._made[kind] = self._make(*kind)
        return made


def _hash_tag(rows: OfTenants, text: str) -> str:
    return text.partition(":")[0] if rows.tenant else text


def _tagged(rows: OfTenants, text: str) -> str:
    tag = _hash_tag(rows, text)
    return f"{{{tag}}}{text[len(tag) :]}"


def seconds_of(moment: datetime) -> str:
    """A time as scripts take it."""
    return f"{moment.timestamp():.6f}"


def takes_no_writes(error: object) -> str | None:
    """What to do about an error that says nothing about the row: the whole store takes no writes now."""
    found = _TAKES_NO_WRITES.search(str(error))
    return None if found is None else _WHAT_TO_DO.get(found[1], "it is not ready yet")


def row_failed(asked: object, key: Any, why: object) -> ScriptFailed:
    """The error of a row that a script could not decide; an error of the whole store is raised at once."""
    if hint := takes_no_writes(why):
        raise StoreUnavailable(f"Redis takes no writes, so {asked} of {shown_key(key)} was not decided: {hint} ({why})")
    return ScriptFailed(f"Redis could not decide {asked} of {shown_key(key)}: {why}")


def text_of(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def fence_of_text(value: Any) -> Any:
    """A fence as a number where it is one that was counted; any other text is returned as it stands in the row."""
    text = text_of(value)
    # digits of other alphabets are decimal too, and int() refuses more than 4300 of them
    counted = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _LONGEST_FENCE
    return int(text) if counted else text


def field_text(column: str, value: Any) -> str:
    """A value as a hash field: Redis keeps texts."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bytes | bytearray | list | dict | tuple | set):
        raise CallError(f"column {column!r}: a hash field of Redis keeps text and numbers, not {type(value).__name__}")
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        value.encode()  # half a character would be escaped in JSON, and come out as something else
    return value.isoformat() if isinstance(value, datetime) else str(value)


def status_of_reply(spec: Spec[Any], reply: Any) -> Any:
    """A status as the declaration knows it, or, if it does not, its text."""
    if isinstance(reply, bytes) and (known := spec.status_of_bytes.get(reply)) is not None:
        return known
    text = text_of(reply)
    return spec.status_of.get(text, text)


def key_of_member(spec: Spec[Any], text: str, tenant: Any) -> Any:
    """The key that a text stands for, as the caller writes it; None if it is not one, or of another tenant."""
    if spec.plain_key:
        return text
    found = parts_of_text(spec, text)
    if len(found) != len(spec.key_columns) or (spec.tenant and found[0] != str(tenant)):
        return None
    own = found[1:] if spec.tenant else found
    return own if len(own) > 1 else own[0]


def parts_of_text(spec: Spec[Any], text: str) -> KeyParts:
    return tuple(_unescape(part) for part in text.split(":")) if len(spec.key_columns) > 1 else (text,)


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def guards_text(asked: object, where: Iterable[Predicate]) -> str:
    """Guards as scripts decide them; that of an epoch says how many of KEYS come after its lease."""
    where = list(where)
    guards: list[list[Any]] = []
    leases = sum(isinstance(one, EpochGuard) for one in where)
    for predicate in where:
        if isinstance(predicate, EpochGuard):
            leases -= 1
            guards.append([leases, "epoch", str(predicate.epoch)])
        elif isinstance(predicate, Comparison):
            guards.append([predicate.column, predicate.operator, _comparable(asked, predicate)])
        else:
            raise CallError(f"{asked}: sql({str(predicate)!r}) cannot be decided by Redis; write it with column(…)")
    return json.dumps(guards)


def _comparable(asked: object, guard: Comparison) -> Any:
    """The value of a guard as Redis compares it with a field: a text or a number."""
    value = guard.value.value if isinstance(guard.value, Enum) else guard.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal) and Decimal(repr(float(value))) == value:
        return float(value)
    if isinstance(value, Decimal | date):
        raise CallError(
            f"{asked}: Redis compares texts and numbers, and cannot decide `{guard}`; keep the value in a field as a "
            "number or a text that sorts, and compare with that"
        )
    return value
