"""The script of a move on Redis and Valkey, made of `redis.lua` for one declaration and one kind of call; its arguments."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from raceproof.errors import CallError
from raceproof.lua import Expression, in_turn, script
from raceproof.moves.redis_index import LEAVE, places
from raceproof.moves.redis_texts import field_text
from raceproof.moves.request import MoveRequest
from raceproof.predicate import Comparison, EpochGuard, Predicate
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
    indexed = claim is not None and ends and not cluster
    waits = claim is not None and indexed and move.target in claim.open
    leaves = indexed and not waits
    moment, after = Expression("moment"), Expression("after")
    fields = [spec.column, move.target, *((spec.revision, after) if spec.revision else ())]
    fields += [part for stamp in move.stamp for part in (stamp, moment)]
    fence_column = claim.form.fence_column if claim else spec.fence
    looked_at = [spec.column, *filter(None, (fence_column, spec.revision))]
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
        "seen_revision": Expression(f"found[{len(looked_at)}] or '0'") if spec.revision else None,
        "move_fields": in_turn(fields),
        "cleared": in_turn(claim.form.cleared if claim else ()),
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else None,
        "keys_of_a_row": 2 if spec.history else 1,
        "stream_key": Expression("KEYS[rows + i]" if spec.history else "nil"),
        "leases": leases,
        "returned": in_turn(returning),
        **(places(claim) if claim else {}),
    }
    over = spec.expires and str(move.target) in spec.ended
    wanted = {
        "several": several,
        "guards": "given_guards" in given,
        "history": spec.history,
        "losers": spec.history and spec.history.losers,
        "timed": spec.history or move.stamp or waits,
        "revision": spec.revision,
        "repeats": repeats,
        "clears": ends,
        "expires": over,
        "lives_again": spec.expires and not over and spec.ended.intersection(map(str, move.sources)),
        "waits": waits,
        "leave": leaves,
        "serial": claim and leaves and claim.serial,
        "tenants": spec.tenant,
        "returning": returning,
        **{name.removesuffix(_EACH): True for name in given},
    }
    return script((GUARDS, LEAVE, SCRIPT), constants, [name for name, value in wanted.items() if value])


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
            guards.append([predicate.column, predicate.operator, predicate.value])
        else:
            raise CallError(
                f"{asked}: sql({str(predicate)!r}) cannot be decided by Redis; write it with column(…)"
            )
    return guards


def epochs(where: Iterable[Predicate]) -> int:
    """How many guards look at a lease."""
    return sum(isinstance(one, EpochGuard) for one in where)


def _change(request: MoveRequest) -> str:
    values = {name: field_text(name, value) for name, value in request.set.items() if value is not None}
    cleared = [name for name, value in request.set.items() if value is None]
    return json.dumps({"set": values, "clear": cleared})
