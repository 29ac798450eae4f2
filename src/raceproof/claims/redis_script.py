"""The scripts of a claim on Redis and Valkey, made of `redis.lua` for one declaration and one kind of call."""

from collections.abc import Sequence
from typing import Any

from raceproof.forms import Columns, Marker
from raceproof.lua import Expression, arguments, in_turn, script
from raceproof.moves.redis_index import COUNTING, LEAVE, places
from raceproof.moves.redis_script import GUARDS
from raceproof.spec import Claimable, Move
from raceproof.statement import source

SCRIPT = source("raceproof.claims", "redis.lua")
ROWS_IN_ONE_SCRIPT = 500
"""A script holds up the whole server while it runs: what is asked for many rows is cut into pieces of these."""


def script_of_claim(
    claim: Claimable[Any],
    action: str,
    given: Sequence[str],
    returning: Sequence[str] = (),
    leases: int = 0,
    cluster: bool = False,
) -> str:
    """`redis.lua` for one thing to do with a declared claim, for callers who give these values."""
    spec, form = claim.lifecycle, claim.form
    words = {"lease": claim.lease, "reason": "", **arguments(given)}
    fence, moment, revision = Expression("fence"), Expression("moment"), Expression("revision")
    looked_at = [spec.column, form.cleared[-1], form.fence_column]
    seen: dict[str, Any] = {}
    searches, lined = action in ("acquire", "set_aside"), claim.serial and action in ("one", "offer")
    holder = form.holder if isinstance(form, Columns) and not searches else None
    counted = spec.revision if action not in ("renew", "listed", "offer") else None
    for name, column in (
        ("after", claim.after), ("attempts", claim.attempts), ("revision", counted), ("holder", holder),
    ):  # fmt: skip
        if column:
            looked_at.append(column)
            seen[f"seen_{name}"] = Expression(f"seen[{len(looked_at)}]")
    if isinstance(form, Columns):
        own: list[Any] = [form.until, Expression("ends_then")]
        claimed = [form.holder, words.get("by"), form.fence, fence, *own]
        back = [form.fence, fence]
    else:
        own, back = [form.column, fence], []
        claimed = own
    back += _moved(claim.back, moment)
    written = [spec.revision, revision] if spec.revision else []
    claimed = [*claimed, *_moved(claim.move, moment), *written]
    if claim.attempts:
        claimed += [claim.attempts, Expression("attempts")]
    constants = {
        "page": ROWS_IN_ONE_SCRIPT,
        **words,
        **places(claim),
        "seen_holder": None,
        "seen_attempts": None,
        **seen,
        "looked_at": in_turn(looked_at),
        "lifecycle": spec.name,
        "column": spec.column,
        "open": dict.fromkeys(claim.open, True),
        "held": dict.fromkeys(claim.held, True),
        "stream_prefix": f"{spec.table}/history:",
        "stream_key": Expression("KEYS[rows + i]" if spec.history else "nil"),
        "marker_prefix": form.prefix if isinstance(form, Marker) else None,
        "claim_fields": in_turn(claimed),
        "renew_fields": in_turn(own),
        "back_fields": in_turn([*back, *written] if claim.back else back),
        "exhausted_fields": in_turn([*_moved(claim.exhausted, moment), *written]),
        "cleared": in_turn(form.cleared),
        "revision_column": spec.revision,
        "attempts_column": claim.attempts,
        "after_column": claim.after,
        "cap": claim.cap,
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else None,
        "returned": in_turn(returning),
        "other_keys": leases + (not cluster),
        "keys_of_a_row": 2 if spec.history else 1,
        "first_value": len(given) - 2,
    }
    for role, move in (("start", claim.move), ("back", claim.back), ("exhausted", claim.exhausted)):
        constants[f"{role}_name"] = move.name if move else claim.name
        constants[f"{role}_target"] = move.target if move else None
    wanted = {
        action: True,
        form.kind_of_form: True,
        "clock": "given_now" not in given,
        "holds": action in ("acquire", "set_aside", "one", "renew"),
        "counts": action not in ("listed", "offer"),
        "grows": isinstance(form, Columns) and action in ("acquire", "one", "give_back"),
        # a row in which nothing is counted, and of which nothing is noted, can always be claimed
        "doubtful": searches and (claim.attempts or spec.revision or spec.history),
        "guards": "given_guards" in given,
        "history": spec.history,
        "revision": spec.revision,
        "attempts": claim.attempts,
        "after": claim.after,
        "cap": claim.cap,
        "gone": not claim.exhausted and not claim.serial,
        "back": claim.back,
        "back_fields": back,
        "expires": spec.expires,
        "indexed": not cluster,
        "serial": claim.serial,
        "tenant": "begin" in given,
        "returning": returning,
        "tenants": spec.tenant,
        "lined": lined,
        "leave": searches or lined,
    }
    files = (GUARDS, COUNTING, LEAVE, SCRIPT)
    return script(files, constants, [name for name, value in wanted.items() if value])


def _moved(move: Move[Any] | None, moment: Expression) -> list[Any]:
    """The fields that a move writes, and their values."""
    if move is None:
        return []
    return [move.lifecycle.column, move.target, *(part for stamp in move.stamp for part in (stamp, moment))]
