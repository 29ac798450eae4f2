"""The claims of a lifecycle: checked with the rest of its declaration, and read from its dict or TOML form."""

from collections.abc import Mapping
from enum import Enum
from itertools import combinations
from typing import Any, TypeVar

from raceproof.errors import DeclarationError
from raceproof.forms import Columns, Form, form_from_data, form_roles, is_form
from raceproof.predicate import Comparison, from_data, predicates
from raceproof.problems import Problems, listed, mapping, names, one_name, pair, settings
from raceproof.quoting import identifier
from raceproof.spec import Backoff, Claimable, Move, is_count, is_seconds
from raceproof.statuses import declared_statuses

S = TypeVar("S", bound=str | Enum)


def check_claims(
    problems: Problems,
    name: str,
    one: Claimable[Any],
    known: Mapping[str, str],
    own: set[str],
    fence: str | None,
) -> None:
    """What is wrong with one claim; `own` are the columns that have a role already, `fence` the lifecycle's own one."""
    claim = f"claim {name}"
    for status in one.at:
        problems.require(status in known, f"{claim} names {status!r}, which is not one of its statuses")
    problems.require(
        is_seconds(one.lease),
        f"{claim} needs a lease of some seconds, a hundred years at most, not {one.lease!r}",
    )
    problems.require(
        is_seconds(one.backoff.first, zero=True) and is_seconds(one.backoff.most, zero=True),
        f"{claim}: {one.backoff} is not a time to rest; write seconds, a hundred years at most",
    )
    problems.require(bool(one.at), f"{claim} needs a move, or at= with the statuses where rows wait")
    _check_roles(problems, claim, one, own, fence)
    for column in one.order_by:
        identifier(column.removeprefix("-"))
    for predicate in one.where:
        if isinstance(predicate, Comparison):
            identifier(predicate.column)
    if one.serial is not None:
        identifier(one.serial)
        problems.require(
            not any(column.startswith("-") for column in one.order_by),
            f"{claim} is serial: order it upwards, without a leading '-'; a line has one order, so priorities"
            " cannot let a row overtake those before it",
        )
    problems.require(
        one.cap is None or is_count(one.cap),
        f"{claim}: cap={one.cap!r} is not a number of claims; give 1 or more",
    )
    problems.require(
        one.cap is None or one.attempts is not None, f"{claim}: cap= needs attempts=, the column to count in"
    )
    problems.require(
        one.exhausted is None or one.cap is not None,
        f"{claim}: exhausted= needs cap=, the number of attempts",
    )
    _check_ways(problems, claim, one)


def _check_roles(
    problems: Problems, claim: str, one: Claimable[Any], own: set[str], fence: str | None
) -> None:
    """P4: a column that a claim writes has one role; in two, one value would be taken for the other."""
    roles: dict[str, str] = {}
    for column, role in claim_roles(one):
        identifier(column)
        problems.require(column not in own, f"{claim} may not write {column!r}, which has a role of its own")
        problems.require(
            column != fence or column == one.form.fence_column,
            f"{claim} has {column!r} as its {role}, and it is the fence of the lifecycle",
        )
        problems.require(
            column not in roles, f"{claim} has {column!r} as its {roles.get(column)} and as its {role}"
        )
        roles[column] = role
    ways = {"move": one.move, "back": one.back, "exhausted": one.exhausted}
    for way, move in ways.items():
        # the text that a row is given up with may stand where its marker stood, so a caller may set that one
        written = () if move is None else (*move.stamp, *(move.sets if way == "move" else ()))
        for column in written:
            problems.require(
                column not in roles,
                f"{claim} has {column!r} as its {roles.get(column)}, and its {way}= writes it too",
            )


def claim_roles(one: Claimable[Any]) -> list[tuple[str, str]]:
    """The columns that a claim writes, each with what it is for."""
    further = ((one.attempts, "attempts"), (one.after, "after"))
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
        same_mark = not isinstance(one.form, Columns) and one.form.cleared == other.form.cleared
        # P3: the row tells when it was claimed, not until when: the shorter lease would take it from the longer
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
        found[claim] = claimable(given.pop("move", None), what=what, **given)
    return found


def claimable(
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
    exhausted: Move[Any] | None = None,
    **further: Any,
) -> Claimable[Any]:
    """Both ways of declaring a claim meet here."""
    waiting = declared_statuses(f"{what}: at", at)
    for way, one in {"move": move, "back": back, "exhausted": exhausted}.items():
        if one is not None and not isinstance(one, Move):
            raise DeclarationError(f"{what}: {way}={one!r} is not a move of the same lifecycle")
    if move is not None:
        if waiting:
            raise DeclarationError(f"{what} has a move, or at= for rows that stay where they are, not both")
        waiting = move.sources
    form = Columns() if form is None else form
    backoff = Backoff() if backoff is None else backoff
    if not isinstance(backoff, Backoff):
        raise DeclarationError(f"{what}: backoff={backoff!r} is not Backoff(first, most)")
    if not is_form(form):
        raise DeclarationError(f"{what}: form={form!r} is not Columns(…), Timestamp(…) or Marker(…)")
    return Claimable(
        move,
        waiting,
        float(lease) if is_seconds(lease) else lease,  # what is no time is told with all that is wrong
        form=form,
        order_by=names(f"{what}: order_by", order_by),
        where=predicates(where),
        backoff=backoff,
        back=back,
        exhausted=exhausted,
        **further,
    )
