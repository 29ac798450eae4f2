"""The script of a move on Redis and Valkey, made of `redis.lua` for one declaration and one kind of call; its arguments."""

import json
from collections.abc import Sequence
from typing import Any

from raceproof.claims.redis_index import SHARED_FILES, EndedClaims, places
from raceproof.declare.spec import Claimable, Move
from raceproof.kernel.lua import Expression, in_turn, script
from raceproof.kernel.redis import field_text, guards_text, moved_fields, row_constants, seconds_of
from raceproof.moves.request import FIRST_PREDICATE, MoveRequest

FILES = (*SHARED_FILES, ("raceproof.moves", "redis.lua"))
_GIVEN = ("given_now", "given_guards", "given_fence", "given_revision", "given_change")


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
    fields = [*moved_fields(move), *((spec.revision, Expression("after")) if spec.revision else ())]
    fence_column = claim.form.fence_column if claim else spec.fence
    looked_at = [spec.column, *filter(None, (fence_column, spec.revision))]
    revision_at = len(looked_at)
    others = EndedClaims.of(ended, looked_at, (*move.stamp, *(claim.form.cleared if claim else ())))
    over = spec.expires if str(move.target) in spec.ended else None
    constants = {
        **dict.fromkeys(_GIVEN),
        **dict.fromkeys(("given_by", "given_reason", "given_call"), ""),
        **_places_of(given),
        **row_constants(spec, returning),
        **(places(index_of) if index_of else {}),
        **others.constants,
        "move_name": move.name,
        "target": move.target,
        "sources": dict.fromkeys(move.sources, True),
        "looked_at": in_turn(looked_at),
        "seen_fence": Expression("found[2]") if fence_column else None,
        "seen_revision": Expression(f"found[{revision_at}] or '0'") if spec.revision else None,
        "is_guarded": not set(_GUARDED).isdisjoint(name.removesuffix(_EACH) for name in given),
        "repeats": repeats,
        "first_asked": FIRST_PREDICATE * 2 ** len(move.where),
        "move_fields": in_turn(fields),
        "clears": ends,
        "cleared": in_turn(claim.form.cleared if claim else ()),
        "fenced_off": Expression(others.held_by),
        "expires": f"{over.ended * 1000:.0f}" if over else None,
        "lives_again": bool(spec.expires and not over and spec.ended.intersection(map(str, move.sources))),
        "waits": waits,
        "leaves": indexed and not waits,
        "leases": leases,
    }
    return script(FILES, "move_many" if several else "move_one", constants)


_EACH = "*"
"""Ends the name of a value that each row has for itself."""
_GUARDED = ("given_guards", "given_fence", "given_revision")


def given_to(first: MoveRequest, of_rows: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[str]]:
    """What is given to a script, by name, and ARGV: those that are the same for all rows once, others for each row."""
    given: dict[str, list[str]] = {}
    if first.shape is not first.move:
        if first.now is not None:
            given["given_now"] = [seconds_of(first.now)]
        if first.where:
            given["given_guards"] = [guards_text(first.move, first.where)]
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
    """Where these values are in ARGV, for row i of `rows`."""
    places, once, each = {}, 0, 0
    for name in given:
        if name.endswith(_EACH):
            places[name.removesuffix(_EACH)] = Expression(f"ARGV[{once} + {each} * rows + i]")
            each += 1
        else:
            once += 1
            places[name] = Expression(f"ARGV[{once} + {each} * rows]" if each else f"ARGV[{once}]")
    return places


def _change(request: MoveRequest) -> str:
    values = {name: field_text(name, value) for name, value in request.set.items() if value is not None}
    cleared = [name for name, value in request.set.items() if value is None]
    return json.dumps({"set": values, "clear": cleared})
