"""From a declaration, by class or by dict, to a frozen `Spec`; what cannot work is refused here, all of it at once."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from functools import wraps
from typing import Any, TypeVar, cast

from raceproof.declare.claims import check_claims, check_shared_columns, claims_from_dict
from raceproof.declare.predicate import Comparison, from_data, predicates
from raceproof.declare.problems import Problems, listed, mapping, names, one_name, pair, settings
from raceproof.declare.spec import Claimable, Expiry, History, Move, Spec, is_seconds
from raceproof.declare.statuses import declared_statuses
from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.quoting import identifier, literal, qualified
from raceproof.kernel.shown import did_you_mean

S = TypeVar("S", bound=str | Enum)
F = TypeVar("F", bound=Callable[..., None])


def build_spec(
    *,
    name: str,
    table: str,
    key: tuple[str, ...],
    column: str,
    statuses: tuple[S, ...],
    initial: tuple[str, ...],
    terminal: tuple[str, ...] | None,
    moves: Mapping[str, Move[S]],
    claims: Mapping[str, Claimable[S]] | None = None,
    revision: str | None = None,
    fence: str | None = None,
    tenant: str | None = None,
    history: History | None = None,
    expires: Expiry | None = None,
) -> Spec[S]:
    """Check a declaration and freeze it."""
    problems = Problems(name)
    texts: tuple[Any, ...] = declared_statuses(f"lifecycle {name}: statuses", statuses)
    known: dict[str, Any] = {str(text): text for text in texts}
    for status in (*initial, *(terminal or ())):
        problems.require(status in known, f"{status!r} is not one of its statuses {sorted(known)}")
    for move_name, one in moves.items():
        _check_move(problems, move_name, one, known)
    _check_columns(problems, moves, [*key, column, revision, fence, tenant])
    _check_duplicates(problems, moves)
    own = {column for column in (*key, column, revision, tenant) if column is not None}
    for claim_name, claimable in (claims or {}).items():
        check_claims(problems, claim_name, claimable, known, own, fence)
        problems.require(claim_name not in moves, f"{claim_name} is a move and a claim")
        for way in (claimable.move, claimable.back, claimable.dead_letter):
            problems.require(
                way is None or any(way is one for one in moves.values()),
                f"claim {claim_name} has a move that is not one of its lifecycle: {way}",
            )
    check_shared_columns(problems, claims or {})
    dead_ends = tuple(s for s in texts if not any(s in one.sources for one in moves.values()))
    for status in terminal or ():
        leaving = [one for one, m in moves.items() if status in m.sources]
        problems.require(not leaving, f"terminal status {status!r} has a way out: {', '.join(leaving)}")
    if terminal is not None:
        for status in dead_ends:
            problems.require(
                status in terminal, f"{status!r} has no way out; list it in terminal=, or declare a move from it"
            )
    reached = _reachable(initial, moves)
    for status in texts:
        problems.require(status in reached, f"{status!r} cannot be reached from {', '.join(initial)}")
    problems.require(
        expires is None or (is_seconds(expires.open) and is_seconds(expires.ended)),
        f"{expires} is not how long a row is kept; write seconds, more than 0 and a hundred years at most",
    )
    qualified(table)
    if history:
        qualified(history.table)
    problems.raise_if_any()

    bound: dict[str, Move[S]] = {}
    bound_claims: dict[str, Claimable[S]] = {}
    spec = Spec(
        name=name,
        table=table,
        key=key,
        column=column,
        statuses=texts,
        initial=tuple(known[status] for status in initial),
        terminal=dead_ends,
        moves=bound,
        claims=bound_claims,
        revision=revision,
        fence=fence,
        tenant=tenant,
        history=history,
        expires=expires,
        members=statuses,
    )
    for move_name, one in moves.items():
        bound[move_name] = Move(
            tuple(known[str(source)] for source in one.sources),
            known[str(one.target)],
            one.stamp,
            one.sets,
            one.where,
            move_name,
            spec,
        )

    def same(one: Move[S] | None) -> Move[S] | None:
        return next((bound[name] for name, declared in moves.items() if declared is one), None)

    for claim_name, claimable in (claims or {}).items():
        bound_claims[claim_name] = replace(
            claimable,
            move=same(claimable.move),
            at=tuple(known[str(status)] for status in claimable.at),
            back=same(claimable.back),
            dead_letter=same(claimable.dead_letter),
            name=claim_name,
            _spec=spec,
        )
    return spec


def _check_move(problems: Problems, name: str, one: Move[Any], known: Mapping[str, str]) -> None:
    problems.require(bool(one.sources), f"move {name} has no source")
    for status in (*one.sources, one.target):
        hint = "; there is no wildcard, name the statuses, as in move(*OPEN, to=…)" if status == "*" else ""
        problems.require(status in known, f"move {name} names {status!r}, which is not one of its statuses{hint}")
    problems.require(one.target not in one.sources, f"move {name} leads from {one.target!r} to itself")
    problems.require(len(set(one.sources)) == len(one.sources), f"move {name} names a source twice")


def _check_columns(problems: Problems, moves: Mapping[str, Move[Any]], own: list[str | None]) -> None:
    columns = [column for column in own if column is not None]
    problems.require(len(columns) > 1 and bool(columns[0]), "it needs a key")
    for column in columns:
        identifier(column)
        problems.require(columns.count(column) == 1, f"column {column!r} has two roles")
    for name, one in moves.items():
        written = [*one.stamp, *one.sets]
        for column in written:
            identifier(column)
            problems.require(
                column not in columns, f"move {name} may not write {column!r}, which has a role of its own"
            )
            problems.require(written.count(column) == 1, f"move {name} writes {column!r} twice")
        for predicate in one.where:
            if isinstance(predicate, Comparison):
                identifier(predicate.column)


def _check_duplicates(problems: Problems, moves: Mapping[str, Move[Any]]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for name, one in moves.items():
        path = (frozenset(one.sources), one.target, frozenset(map(str, one.where)))
        problems.require(path not in seen, f"moves {seen.get(path)} and {name} are the same")
        seen.setdefault(path, name)
    problems.require(bool(moves), "it has no moves")


def _reachable(initial: Iterable[str], moves: Mapping[str, Move[Any]]) -> set[str]:
    reached: set[str] = set(initial)
    while True:
        more = {str(m.target) for m in moves.values() if reached.intersection(m.sources)} - reached
        if not more:
            return reached
        reached |= more


def known_settings(declare: F) -> F:
    """Refuse settings of a class that do not exist, and name the one that was probably meant."""
    known = [name for name, one in inspect.signature(declare).parameters.items() if one.kind is one.KEYWORD_ONLY]

    @wraps(declare)
    def checked(cls: type[Any], **given: Any) -> None:
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known, "{}=")
                raise DeclarationError(f"lifecycle {cls.__name__}: there is no setting {name}={hint}")
        if "table" not in given:
            raise DeclarationError(f'lifecycle {cls.__name__}: table= is missing, as in table="orders"')
        declare(cls, **given)

    return cast(F, checked)


_KEYS = frozenset(
    (
        "name",
        "table",
        "key",
        "column",
        "statuses",
        "initial",
        "terminal",
        "moves",
        "claims",
        "revision",
        "fence",
        "tenant",
        "history",
        "expires",
    )
)
_MOVE_KEYS = frozenset(("from", "to", "stamp", "sets", "where"))


def spec_from_dict(data: Mapping[str, Any]) -> Spec[str]:
    name = mapping("a lifecycle", data).get("name")
    if not isinstance(name, str) or not name:
        raise DeclarationError('a lifecycle needs a name, as in name = "Command"')
    what = f"lifecycle {name}"
    settings(what, data, _KEYS, required=("table", "statuses", "moves"))
    statuses = tuple(listed(f"{what}: statuses", data["statuses"]))
    for status in statuses:
        literal(status)
    if not statuses or len(set(statuses)) != len(statuses):
        raise DeclarationError(f"lifecycle {name}: statuses must be given, each once")
    moves = {}
    for move_name, one in mapping(f"{what}: moves", data["moves"]).items():
        moves[move_name] = _move_from_dict(f"{what}: move {move_name}", one)
    return build_spec(
        name=name,
        table=data["table"],
        key=names(f"{what}: key", data.get("key", "id")),
        column=data.get("column", "status"),
        statuses=statuses,
        initial=names(f"{what}: initial", data["initial"]) if "initial" in data else statuses[:1],
        terminal=names(f"{what}: terminal", data["terminal"]) if "terminal" in data else None,
        moves=moves,
        claims=claims_from_dict(name, data.get("claims", {}), moves),
        revision=data.get("revision"),
        fence=data.get("fence"),
        tenant=data.get("tenant"),
        history=_history_from_dict(f"{what}: history", data.get("history")),
        expires=Expiry(*pair(f"{what}: expires", data["expires"])) if "expires" in data else None,
    )


def _move_from_dict(what: str, data: Any) -> Move[str]:
    one = settings(what, data, _MOVE_KEYS, required=("from", "to"))
    where = [from_data(predicate) for predicate in listed(f"{what}: where", one.get("where", ()))]
    return Move(
        names(f"{what}: from", one["from"]),
        one_name(f"{what}: to", one["to"]),
        stamp=names(f"{what}: stamp", one.get("stamp", ())),
        sets=names(f"{what}: sets", one.get("sets", ())),
        where=predicates(where),
    )


def _history_from_dict(what: str, data: Any) -> History | None:
    if isinstance(data, Mapping) and data:
        return History(**settings(what, data, frozenset(("table", "losers"))))
    return declared_history(what, data or None)


def declared_history(what: str, value: Any) -> History | None:
    """A history by its table's name, as a History, or with True as the usual one."""
    match value:
        case None | False:
            return None
        case True:
            return History()
        case str():
            return History(value)
        case History():
            return value
        case _:
            raise DeclarationError(f"{what} must be True, the name of a table or History(…), got {value!r}")
