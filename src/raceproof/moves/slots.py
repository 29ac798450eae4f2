"""A declared move and the shape of a call, as the slots and parameters of SQL texts."""

from typing import Any

from raceproof.claims.forms import ended, held_by
from raceproof.kernel.dialect import SqlDialect, column_list, lines, listed, unmet
from raceproof.kernel.quoting import identifier, literal, parameter
from raceproof.moves.request import FENCE, FIRST_PREDICATE, REVISION, MoveRequest


def of_request(
    request: MoveRequest,
    dialect: SqlDialect,
    now: str,
    value: str = parameter("set_{}"),
    fence: str = parameter("fence"),
    revision: str = parameter("revision"),
) -> dict[str, str]:
    """The slots of both dialects. `value`, `fence` and `revision` say where those of a row come from."""
    move, spec = request.move, request.move.lifecycle
    found = guards(request, dialect, fence, revision)
    return {
        **dialect.row(spec),
        "move": literal(move.name),
        "target": literal(move.target),
        "sources": listed(move.sources),
        "now": now,
        "fence": f"t.{identifier(request.fence_column)}" if request.fence_column else dialect.no_number,
        "guards": lines((text for _, text in found), " AND"),
        "unmet": unmet(found),
        "assignments": _assignments(request, dialect, now, value),
        "fenced_off": fenced_off(request),
        "returning": column_list(request.returning, "t."),
        "written_returning": column_list(request.returning, "", "`"),
    }


def guards(
    request: MoveRequest, dialect: SqlDialect, fence: str = parameter("fence"), revision: str = parameter("revision")
) -> list[tuple[int, str]]:
    """The guards of this call beside the status, each with its bit."""
    spec = request.move.lifecycle
    found = []
    if request.fence is not None and request.fence_column:
        found.append((FENCE, f"t.{identifier(request.fence_column)} = {fence}"))
    if request.revision is not None and spec.revision:
        found.append((REVISION, f"t.{identifier(spec.revision)} = {revision}"))
    for i, predicate in enumerate(request.where):
        found.append((FIRST_PREDICATE << i, predicate.text(f"where_{i}", dialect.spelled)))
    return found


def _assignments(request: MoveRequest, dialect: SqlDialect, now: str, value: str) -> str:
    """What the move writes into the row."""
    spec = request.move.lifecycle
    own = {*request.move.stamp, *request.clears, *request.set}
    written = [f"{identifier(spec.column)} = {literal(request.move.target)}"]
    if spec.revision:
        column = identifier(spec.revision)
        written.append(f"{column} = COALESCE(t.{column}, 0) + 1")
    written += [f"{identifier(stamp)} = {now}" for stamp in request.move.stamp]
    # the end of a claim; P4: never its fence number, which can only grow
    written += [f"{identifier(column)} = NULL" for column in request.clears]
    # the end of a claim that another process holds
    for claim in request.ended:
        ends = ended(claim.form, dialect, now)
        written += [f"{identifier(column)} = {end}" for column, end in ends.items() if column not in own]
        own |= ends.keys()
    written += [f"{identifier(column)} = {value.format(i)}" for i, column in enumerate(request.set)]
    return lines(written, ",")


def fenced_off(request: MoveRequest, row: str = "t") -> str:
    """Who holds the row before a move that ends the claim."""
    held = [held_by(claim.form, row) for claim in request.ended]
    return f"COALESCE({', '.join(held)})" if len(held) > 1 else "".join(held) or "NULL"


def layout(request: MoveRequest) -> tuple[str, ...]:
    """The names of the parameters of a call, in the order in which `flat` lists their values."""
    where = [name for i, predicate in enumerate(request.where) for name in predicate.values(f"where_{i}")]
    return (
        *(f"key_{i}" for i in range(len(request.parts))),
        *(f"set_{i}" for i in range(len(request.set))),
        *where,
        *("fence", "revision", "by", "reason", "call", "now"),
    )


def flat(request: MoveRequest) -> tuple[Any, ...]:
    """The values of one call; calls of the same shape list them in the same order."""
    extra: tuple[Any, ...] = ()
    if request.set:
        extra = tuple(request.set.values())
    for predicate in request.where:
        extra += tuple(predicate.values("").values())
    own = (request.fence, request.revision, request.by, request.reason, request.call, request.now)
    return (*request.parts, *extra, *own)


def values(request: MoveRequest) -> dict[str, Any]:
    """The same by name."""
    return dict(zip(layout(request), flat(request), strict=True))


def limit(rows: int | None) -> int:
    """A limit that every database accepts; None means no limit."""
    return 2**62 if rows is None else rows
