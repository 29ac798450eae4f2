"""The script of a move on Redis and Valkey, made of `redis.lua` for one declaration and one kind of call; its arguments."""

import json
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from raceproof.errors import CallError
from raceproof.forms import Columns, Marker
from raceproof.lua import Expression, in_turn, script
from raceproof.moves.answer import FIRST_PREDICATE
from raceproof.moves.redis_index import COUNTING, LEAVE, places
from raceproof.moves.redis_texts import field_text
from raceproof.moves.request import MoveRequest
from raceproof.predicate import Comparison, EpochGuard, Predicate
from raceproof.quoting import lua_literal
from raceproof.spec import Claimable, Move
from raceproof.statement import source

GUARDS = source("raceproof.moves", "guards.lua")
SCRIPT = source("raceproof.moves", "redis.lua")


def script_of_move(
    move: Move[Any],
    claim: Claimable[Any] | None = None,
    given: Sequence[str] = (),
    returning: Sequence[str] = (),
    leases: int = 0,
    repeats: bool = False,
    cluster: bool = False,
    several: bool = True,
) -> str:
    """`redis.lua` for a declared move, for callers who hold this claim and give these values; see `given_to`."""
    spec = move.lifecycle
    ends = claim is not None and move.target not in claim.held
    ended = list(move.ends) if claim is None else []
    # whose index learns of it: that of the caller's claim, or of one that the row waits for after the move, or of any
    waiting = [one for one in ended if move.target in one.open]
    index_of = claim if ends else next(iter((*waiting, *ended)), None)
    indexed = index_of is not None and not cluster
    waits = index_of is not None and indexed and move.target in index_of.open
    leaves = indexed and not waits
    moment, after = Expression("moment"), Expression("after")
    fields = [spec.column, move.target, *((spec.revision, after) if spec.revision else ())]
    fields += [part for stamp in move.stamp for part in (stamp, moment)]
    fence_column = claim.form.fence_column if claim else spec.fence
    looked_at = [spec.column, *filter(None, (fence_column, spec.revision))]
    numbered = len(looked_at)
    others = EndedClaims.of(ended, looked_at, (*move.stamp, *(claim.form.cleared if claim else ())))
    constants = {
        **dict.fromkeys(("given_by", "given_reason", "given_call"), ""),
        **_places_of(given),
        "lifecycle": spec.name,
        "move_name": move.name,
        "target": move.target,
        "sources": dict.fromkeys(move.sources, True),
        "revision_column": spec.revision,
        "looked_at": in_turn(looked_at),
        "seen_fence": Expression("found[2]") if fence_column else None,
        "seen_revision": Expression(f"found[{numbered}] or '0'") if spec.revision else None,
        "move_fields": in_turn(fields),
        "cleared": in_turn(claim.form.cleared if claim else ()),
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else None,
        "keys_of_a_row": 2 if spec.history else 1,
        "stream_key": Expression("KEYS[rows + i]" if spec.history else "nil"),
        "leases": leases,
        "returned": in_turn(returning),
        "ended_markers": others.markers,
        "fenced_off": Expression(others.held_by),
        "ended_columns": in_turn(others.columns),
        "ended_fences": in_turn(others.fences),
        "first_asked": FIRST_PREDICATE * 2 ** len(move.where),
        **(places(index_of) if index_of else {}),
    }
    over = spec.expires and str(move.target) in spec.ended
    wanted = {
        "several": several,
        "guards": "given_guards" in given,
        "history": spec.history,
        "losers": spec.history and spec.history.losers,
        "timed": spec.history or move.stamp or waits or others.fences,
        "ends_others": ended,
        "ends_columns": others.columns,
        "ends_marker": others.markers,
        "fences": others.fences,
        "counts": others.fences,
        "grows": others.fences,
        "revision": spec.revision,
        "repeats": repeats,
        "clears": ends,
        "expires": over,
        "lives_again": spec.expires and not over and spec.ended.intersection(map(str, move.sources)),
        "waits": waits,
        "leave": leaves,
        "serial": index_of and leaves and index_of.serial,
        "tenants": spec.tenant,
        "returning": returning,
        **{name.removesuffix(_EACH): True for name in given},
    }
    return script(
        (GUARDS, LEAVE, COUNTING, SCRIPT), constants, [name for name, value in wanted.items() if value]
    )


class EndedClaims(NamedTuple):
    """What a move writes to end claims that the caller does not hold."""

    held_by: str
    """Lua for who held the row, or false."""
    columns: list[str]
    """Columns to clear."""
    markers: dict[str, str]
    """Columns to clear if they hold a marker, and how it begins; any other text is an old error, and stays."""
    fences: list[Any]
    """Fences that grow, and their new values, in turn."""

    @classmethod
    def of(
        cls, ended: Sequence[Claimable[Any]], looked_at: list[str], written: Sequence[str]
    ) -> "EndedClaims":
        """Adds to `looked_at` what has to be seen before; what the move writes itself is left alone."""
        made = cls("", [], {}, [])
        held = []
        for claim in ended:
            form = claim.form
            shown = form.holder if isinstance(form, Columns) else form.fence_column
            looked_at.append(shown)
            found = f"found[{len(looked_at)}]"
            if isinstance(form, Marker):
                begins = lua_literal(form.prefix)
                held.append(
                    f"({found} and string.sub({found}, 1, {len(form.prefix)}) == {begins} and {found})"
                )
                made.markers.update({form.column: form.prefix} if form.column not in written else {})
            else:
                held.append(found)
                made.columns.extend(column for column in form.cleared if column not in written)
            if isinstance(form, Columns) and form.fence not in (*written, *made.fences):
                looked_at.append(form.fence)
                made.fences.extend((form.fence, Expression(f"grown(found[{len(looked_at)}], now)")))
        return made._replace(held_by=" or ".join((*held, "false")))


_EACH = "*"
"""Ends the name of a value that each row has for itself."""


def given_to(first: MoveRequest, of_rows: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[str]]:
    """What is given to a script, by name, and ARGV: those that are the same for all rows once, others for each row."""
    given: dict[str, list[str]] = {}
    if first.shape is not first.move:
        if first.now is not None:
            given["given_now"] = [f"{first.now.timestamp():.6f}"]
        if first.where:
            given["given_guards"] = [json.dumps(comparisons(first.move, first.where))]
        if first.fence is not None:
            given["given_fence"] = [str(one.fence) for one in of_rows]
        if first.revision is not None:
            given["given_revision"] = [str(one.revision) for one in of_rows]
        if first.set:
            given["given_change"] = [_change(one) for one in of_rows]
    if first.move.lifecycle.history:
        given["given_by"] = [one.by or "" for one in of_rows]
        given["given_reason"] = [one.reason or "" for one in of_rows]
        given["given_call"] = [one.call or "" for one in of_rows]
    if not given:
        return (), ()
    names, values = [], []
    for name, of_rows in given.items():
        if len(of_rows) == 1 or of_rows.count(of_rows[0]) == len(of_rows):
            names.append(name)
            values.append(of_rows[0])
        else:
            names.append(name + _EACH)
            values += of_rows
    return tuple(names), values


def _places_of(given: Sequence[str]) -> dict[str, Expression]:
    """Where these values are in ARGV, for row i of so many rows."""
    places, once, each = {}, 0, 0
    for name in given:
        if name.endswith(_EACH):
            places[name.removesuffix(_EACH)] = Expression(f"ARGV[{once} + {each} * rows + i]")
            each += 1
        else:
            once += 1
            places[name] = Expression(f"ARGV[{once} + {each} * rows]" if each else f"ARGV[{once}]")
    return places


def comparisons(asked: Move[Any] | Claimable[Any], where: Sequence[Predicate]) -> list[list[Any]]:
    """Guards as Redis can decide them; that of an epoch says how many of KEYS come after its lease."""
    guards: list[list[Any]] = []
    leases = epochs(where)
    for predicate in where:
        if isinstance(predicate, EpochGuard):
            leases -= 1
            guards.append([leases, "epoch", str(predicate.epoch)])
        elif isinstance(predicate, Comparison):
            guards.append([predicate.column, predicate.operator, _comparable(asked, predicate)])
        else:
            raise CallError(
                f"{asked}: sql({str(predicate)!r}) cannot be decided by Redis; write it with column(…)"
            )
    return guards


def _comparable(asked: Move[Any] | Claimable[Any], guard: Comparison) -> Any:
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


def epochs(where: Iterable[Predicate]) -> int:
    """How many guards look at a lease."""
    return sum(isinstance(one, EpochGuard) for one in where)


def _change(request: MoveRequest) -> str:
    values = {name: field_text(name, value) for name, value in request.set.items() if value is not None}
    cleared = [name for name, value in request.set.items() if value is None]
    return json.dumps({"set": values, "clear": cleared})
