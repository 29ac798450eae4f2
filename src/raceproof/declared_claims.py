"""The claims of a lifecycle: checked with the rest of its declaration, and read from its dict or TOML form."""

from collections.abc import Mapping
from typing import Any, TypeVar

from raceproof.errors import DeclarationError
from raceproof.forms import form_columns, form_from_data
from raceproof.predicate import Comparison, from_data, predicates
from raceproof.problems import Problems
from raceproof.quoting import identifier
from raceproof.spec import LONGEST, Backoff, Claimable, Move

S = TypeVar("S", bound=str)


def check_claims(
    problems: Problems, name: str, one: Claimable[Any], known: Mapping[str, str], own: set[str]
) -> None:
    """What is wrong with one claim; `own` are the columns that have a role already."""
    claim = f"claim {name}"
    for status in one.at:
        problems.require(status in known, f"{claim} names {status!r}, which is not one of its statuses")
    problems.require(
        0 < one.lease <= LONGEST, f"{claim} needs a lease of some seconds, a hundred years at most"
    )
    problems.require(
        0 <= one.backoff.first <= LONGEST and 0 <= one.backoff.most <= LONGEST,
        f"{claim}: {one.backoff} is not a time to rest; write seconds, a hundred years at most",
    )
    problems.require(bool(one.at), f"{claim} needs a move, or at= with the statuses where rows wait")
    for column in (*form_columns(one.form), one.attempts, one.after):
        if column is not None:
            identifier(column)
            problems.require(
                column not in own, f"{claim} may not write {column!r}, which has a role of its own"
            )
    for column in one.order_by:
        identifier(column.removeprefix("-"))
    for predicate in one.where:
        if isinstance(predicate, Comparison):
            identifier(predicate.column)
    if one.serial is not None:
        identifier(one.serial)
        problems.require(
            not any(column.startswith("-") for column in one.order_by), f"{claim} is serial: order it upwards"
        )
    problems.require(one.cap is None or one.cap > 0, f"{claim}: cap={one.cap} would claim nothing")
    problems.require(
        one.cap is None or one.attempts is not None, f"{claim}: cap= needs attempts=, the column to count in"
    )
    problems.require(
        one.exhausted is None or one.cap is not None,
        f"{claim}: exhausted= needs cap=, the number of attempts",
    )
    _check_ways(problems, claim, one)


def _check_ways(problems: Problems, claim: str, one: Claimable[Any]) -> None:
    """The moves that a claim makes must be allowed from where its rows are."""
    if one.back is not None:
        problems.require(one.move is not None, f"{claim}: back= leads back from a move, and it has none")
        for status in one.held:
            problems.require(status in one.back.sources, f"{claim}: back= does not lead from {status!r}")
        problems.require(
            one.back.target in one.at, f"{claim}: back= leads to {one.back.target!r}, where no row waits"
        )
    if one.exhausted is not None:
        for status in one.open:
            problems.require(
                status in one.exhausted.sources, f"{claim}: exhausted= does not lead from {status!r}"
            )
        problems.require(one.exhausted.target not in one.open, f"{claim}: exhausted= leads back to its rows")


_WAYS = frozenset(("move", "back", "exhausted"))
_CLAIM_KEYS = _WAYS | frozenset(
    ("at", "lease", "form", "order_by", "serial", "where", "attempts", "cap", "after", "backoff", "raw")
)


def claims_from_dict(
    lifecycle: str, data: Mapping[str, Any], moves: Mapping[str, Move[Any]]
) -> dict[str, Claimable[Any]]:
    """The claims of a declaration as plain data; they name their moves."""
    found = {}
    for name, one in data.items():
        what = f"lifecycle {lifecycle}: claim {name}"
        if unknown := sorted(set(one) - _CLAIM_KEYS):
            raise DeclarationError(
                f"{what}: unknown setting {', '.join(unknown)}; known are {sorted(_CLAIM_KEYS)}"
            )
        settings = dict(one)
        for role in _WAYS:
            if role in settings:
                if settings[role] not in moves:
                    raise DeclarationError(f"{what}: {role} = {settings[role]!r} is not one of its moves")
                settings[role] = moves[settings[role]]
        if "lease" not in settings:
            raise DeclarationError(f"{what}: lease is missing")
        settings["where"] = [from_data(predicate) for predicate in settings.get("where", ())]
        if "backoff" in settings:
            settings["backoff"] = Backoff(*settings["backoff"])
        settings["raw"] = tuple(settings.get("raw", ()))
        if "form" in settings:
            settings["form"] = form_from_data(settings["form"])
        found[name] = claimable(settings.pop("move", None), **settings)
    return found


def claimable(
    move: Move[Any] | None,
    *,
    at: Any = (),
    lease: float,
    order_by: Any = (),
    where: Any = (),
    **settings: Any,
) -> Claimable[Any]:
    """Both ways of declaring a claim meet here."""
    waiting = (at,) if isinstance(at, str) else tuple(at)
    if move is not None:
        if not isinstance(move, Move):
            raise DeclarationError(
                f"claim({move!r}): give it a move of the same lifecycle, or at= with statuses"
            )
        if waiting:
            raise DeclarationError("a claim has a move, or at= for rows that stay where they are, not both")
        waiting = move.sources
    columns = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    return Claimable(move, waiting, float(lease), order_by=columns, where=predicates(where), **settings)
