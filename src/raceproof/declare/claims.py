"""The claims of a lifecycle: checked with the rest of its declaration, and read from its dict or TOML form."""

from collections.abc import Mapping
from enum import Enum
from itertools import combinations
from typing import Any, TypeVar

from raceproof.declare.claim_forms import ClaimColumns, Form, form_from_data, form_roles, is_form
from raceproof.declare.predicate import Comparison, from_data, predicates
from raceproof.declare.problems import Problems, listed, mapping, names, one_name, pair, settings
from raceproof.declare.spec import Backoff, Claimable, Move, is_count, is_seconds
from raceproof.declare.statuses import declared_statuses
from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.quoting import identifier

S = TypeVar("S", bound=str | Enum)


def check_claims(
    problems: Problems, name: str, one: Claimable[Any], known: Mapping[str, str], own: set[str], fence: str | None
) -> None:
    """What is wrong with one claim; `own` are the columns that have a role already, `fence` the lifecycle's own one."""
    claim = f"claim {name}"
    for status in one.at:
        problems.require(status in known, f"{claim} names {status!r}, which is not one of its statuses")
    problems.require(
        is_seconds(one.lease), f"{claim} needs a lease of some seconds, a hundred years at most, not {one.lease!r}"
    )
    problems.require(
        is_seconds(one.backoff.first, zero=True) and is_seconds(one.backoff.max_delay, zero=True),
        f"{claim}: {one.backoff} is not a backoff; write seconds, a hundred years at most",
    )
    problems.require(bool(one.at), f"{claim} needs a move, or at= with the statuses where rows wait")
    _check_roles(problems, claim, one, own, fence)
    for column in one.order_by:
        identifier(column.removeprefix("-"))
    for predicate in one.where:
        if isinstance(predicate, Comparison):
            identifier(predicate.column)
    if one.ordering_key is not None:
        identifier(one.ordering_key)
        problems.require(
            not any(column.startswith("-") for column in one.order_by),
            f"{claim} has an ordering key: order it upwards, without a leading '-'; a line has one order, so priorities"
            " cannot let a row overtake those before it",
        )
    problems.require(
        one.max_attempts is None or is_count(one.max_attempts),
        f"{claim}: max_attempts={one.max_attempts!r} is not a number of claims; give 1 or more",
    )
    problems.require(
        one.max_attempts is None or one.attempts is not None,
        f"{claim}: max_attempts= needs attempts=, the column to count in",
    )
    problems.require(
        one.dead_letter is None or one.max_attempts is not None,
        f"{claim}: dead_letter= needs max_attempts=, the number of attempts",
    )
    _check_ways(problems, claim, one)


def _check_roles(problems: Problems, claim: str, one: Claimable[Any], own: set[str], fence: str | None) -> None:
    """P4: a column that a claim writes has one role; in two, one value would be taken for the other."""
    roles: dict[str, str] = {}
    for column, role in claim_roles(one):
        identifier(column)
        problems.require(column not in own, f"{claim} may not write {column!r}, which has a role of its own")
        problems.require(
            column != fence or column == one.form.fence_column,
            f"{claim} has {column!r} as its {role}, and it is the fence of the lifecycle",
        )
        problems.require(column not in roles, f"{claim} has {column!r} as its {roles.get(column)} and as its {role}")
        roles[column] = role
    ways = {"move": one.move, "back": one.back, "dead_letter": one.dead_letter}
    for way, move in ways.items():
        # the text that a row is given up with may stand where its marker stood, so a caller may set that one
        written = () if move is None else (*move.stamp, *(move.sets if way == "move" else ()))
        for column in written:
            problems.require(
                column not in roles, f"{claim} has {column!r} as its {roles.get(column)}, and its {way}= writes it too"
            )


def claim_roles(one: Claimable[Any]) -> list[tuple[str, str]]:
    """The columns that a claim writes, each with what it is for."""
    further = ((one.attempts, "attempts"), (one.not_before, "not_before"))
    return [*form_roles(one.form), *((column, role) for column, role in further if column is not None)]


def check_shared_columns(problems: Problems, claims: Mapping[str, Claimable[Any]]) -> None:
    """Claims of one lifecycle may share columns, if each means the same to all of them."""
    for (first, one), (second, other) in combinations(claims.items(), 2):
        mine = dict(claim_roles(one))
        for column, role in claim_roles(other):
            problems.require(
                mine.get(column, role) == role,
                f"{column!r} is the {mine.get(column)} of claim {first} and the {role} of claim {second}",
            )
        same_rows = {*one.held} & {*other.open} or {*other.held} & {*one.open}
        same_mark = not isinstance(one.form, ClaimColumns) and one.form.cleared == other.form.cleared
        # P3: the row says when it was claimed, not until when: the shorter lease would take it from the longer
        problems.require(
            one.lease == other.lease or not (same_rows and same_mark),
            f"claims {first} and {second} mark the same rows in {one.form.fence_column!r} and count with leases of "
            f"{one.lease} and {other.lease} s; give them one lease, or a column each",
        )


def _check_ways(problems: Problems, claim: str, one: Claimable[Any]) -> None:
    """The moves that a claim makes must be allowed from where its rows are."""
    if one.back is not None:
        problems.require(one.move is not None, f"{claim}: back= leads back from a move, and it has none")
        for status in one.held:
            problems.require(status in one.back.sources, f"{claim}: back= does not lead from {status!r}")
        problems.require(one.back.target in one.at, f"{claim}: back= leads to {one.back.target!r}, where no row waits")
    if one.dead_letter is not None:
        for status in one.open:
            problems.require(status in one.dead_letter.sources, f"{claim}: dead_letter= does not lead from {status!r}")
        problems.require(one.dead_letter.target not in one.open, f"{claim}: dead_letter= leads back to its rows")


_WAYS = frozenset(("move", "back", "dead_letter"))
_CLAIM_KEYS = _WAYS | frozenset(
    (
        "at",
        "lease",
        "form",
        "order_by",
        "ordering_key",
        "where",
        "attempts",
        "max_attempts",
        "not_before",
        "backoff",
        "raw",
    )
)


def claims_from_dict(
    lifecycle: str, data: Mapping[str, Any], moves: Mapping[str, Move[Any]]
) -> dict[str, Claimable[Any]]:
    """The claims of a declaration as plain data; they name their moves."""
    found = {}
    for claim, one in mapping(f"lifecycle {lifecycle}: claims", data).items():
        what = f"lifecycle {lifecycle}: claim {claim}"
        given = dict(settings(what, one, _CLAIM_KEYS, required=("lease",)))
        for role in _WAYS & set(given):
            named = one_name(f"{what}: {role}", given[role])
            if named not in moves:
                raise DeclarationError(f"{what}: {role} = {named!r} is not one of its moves")
            given[role] = moves[named]
        where = listed(f"{what}: where", given.get("where", ()))
        given["where"] = [from_data(predicate) for predicate in where]
        if "backoff" in given:
            given["backoff"] = Backoff(*pair(f"{what}: backoff", given["backoff"]))
        given["raw"] = names(f"{what}: raw", given.get("raw", ()))
        if "form" in given:
            given["form"] = form_from_data(given["form"])
        found[claim] = checked_claim(given.pop("move", None), what=what, **given)
    return found


def checked_claim(
    move: Move[Any] | None,
    *,
    lease: float,
    what: str = "claim",
    at: Any = (),
    form: Form | None = None,
    order_by: Any = (),
    where: Any = (),
    backoff: Backoff | None = None,
    back: Move[Any] | None = None,
    dead_letter: Move[Any] | None = None,
    **further: Any,
) -> Claimable[Any]:
    """Both ways of declaring a claim meet here."""
    waiting = declared_statuses(f"{what}: at", at)
    for way, one in {"move": move, "back": back, "dead_letter": dead_letter}.items():
        if one is not None and not isinstance(one, Move):
            raise DeclarationError(f"{what}: {way}={one!r} is not a move of the same lifecycle")
    if move is not None:
        if waiting:
            raise DeclarationError(f"{what} has a move, or at= for rows that stay where they are, not both")
        waiting = move.sources
    form = ClaimColumns() if form is None else form
    backoff = Backoff() if backoff is None else backoff
    if not isinstance(backoff, Backoff):
        raise DeclarationError(f"{what}: backoff={backoff!r} is not Backoff(first, max_delay)")
    if not is_form(form):
        raise DeclarationError(
            f"{what}: form= must be ClaimColumns(…), TimestampClaim(…) or TextMarker(…), got {form!r}"
        )
    return Claimable(
        move,
        waiting,
        float(lease) if is_seconds(lease) else lease,  # anything else is reported with the other problems
        form=form,
        order_by=names(f"{what}: order_by", order_by),
        where=predicates(where),
        backoff=backoff,
        back=back,
        dead_letter=dead_letter,
        **further,
    )
