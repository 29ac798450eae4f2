"""The scripts of a claim on Redis and Valkey, made of `redis.lua` for one declaration and one kind of call."""

from collections.abc import Sequence
from typing import Any

from raceproof.claims.redis_index import SHARED_FILES, places
from raceproof.declare.claim_forms import ClaimColumns, TextMarker
from raceproof.declare.spec import Claimable
from raceproof.kernel.lua import Expression, arguments, in_turn, script
from raceproof.kernel.redis import moved_fields, row_constants

FILES = (*SHARED_FILES, ("raceproof.claims", "redis.lua"), ("raceproof.claims", "reading.lua"))
ROWS_IN_ONE_SCRIPT = 500
"""A script holds up the whole server while it runs: what is asked for many rows is cut into pieces of these."""
_GIVEN = ("given_now", "given_guards", "begin", "by", "limit", "offset", "token")


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
    fence, revision = Expression("fence"), Expression("revision")
    looked_at = [spec.column, form.cleared[-1], form.fence_column]
    seen: dict[str, Any] = {}
    searches = action in ("acquire", "dead_letter")
    holder = form.holder if isinstance(form, ClaimColumns) and not searches else None
    counted = spec.revision if action not in ("renew", "listed", "offer") else None
    for name, column in (
        ("not_before", claim.not_before), ("attempts", claim.attempts), ("revision", counted), ("holder", holder),
    ):  # fmt: skip
        if column:
            looked_at.append(column)
            seen[f"seen_{name}"] = Expression(f"seen[{len(looked_at)}]")
    if isinstance(form, ClaimColumns):
        own: list[Any] = [form.until, Expression("ends_then")]
        claimed = [form.holder, words.get("by"), form.fence, fence, *own]
        back = [form.fence, fence]
    else:
        own, back = [form.column, fence], []
        claimed = own
    back += moved_fields(claim.back)
    written = [spec.revision, revision] if spec.revision else []
    claimed = [*claimed, *moved_fields(claim.move), *written]
    if claim.attempts:
        claimed += [claim.attempts, Expression("attempts")]
    constants = {
        **dict.fromkeys(_GIVEN),
        "page": ROWS_IN_ONE_SCRIPT,
        **words,
        **row_constants(spec, returning),
        **places(claim),
        **dict.fromkeys(("seen_holder", "seen_attempts", "seen_revision", "seen_not_before")),
        **seen,
        "looked_at": in_turn(looked_at),
        "open": dict.fromkeys(claim.open, True),
        "held": dict.fromkeys(claim.held, True),
        "has_columns": isinstance(form, ClaimColumns),
        "lease_end": Expression(f"{form.kind_of_form}_end"),
        "next_fence": Expression(f"{form.kind_of_form}_fence"),
        "marker_prefix": form.prefix if isinstance(form, TextMarker) else None,
        "claim_fields": in_turn(claimed),
        "renew_fields": in_turn(own),
        "writes_back": bool(back),
        "back_fields": in_turn([*back, *written] if claim.back else back),
        "dead_letter_fields": in_turn([*moved_fields(claim.dead_letter), *written]),
        "cleared": in_turn(form.cleared),
        "revision_column": counted,
        "attempts_column": claim.attempts,
        "not_before_column": claim.not_before,
        "max_attempts": claim.max_attempts,
        "never_again": bool(claim.max_attempts and not claim.dead_letter and not claim.ordering_key),
        "indexed": not cluster,
        "other_keys": leases + (not cluster),
        "first_value": len(given) - 2,
    }
    for role, move in (("start", claim.move), ("back", claim.back), ("dead_letter", claim.dead_letter)):
        constants[f"{role}_name"] = move.name if move else claim.name
        constants[f"{role}_target"] = move.target if move else None
    return script(FILES, action, constants)
