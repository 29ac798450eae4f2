"""The slots that PostgreSQL's and SQLite's texts have in common: a declaration and the shape of a call, as SQL."""

from collections.abc import Mapping
from typing import Any

from raceproof.moves import form_sql
from raceproof.moves.answer import FENCE, FIRST_PREDICATE, REVISION
from raceproof.moves.request import MoveRequest
from raceproof.moves.words import Words
from raceproof.quoting import identifier, literal, parameter, qualified
from raceproof.spec import Spec
from raceproof.statement import lines


def declared(spec: Spec[Any]) -> dict[str, str]:
    """Slots that depend on the lifecycle alone."""
    return {
        "table": qualified(spec.table),
        "status": identifier(spec.column),
        "lifecycle": literal(spec.name),
        "history": qualified(spec.history.table) if spec.history else "",
        "key_matches": lines(
            (f"t.{identifier(c)} = {parameter(f'key_{i}')}" for i, c in enumerate(spec.key_columns)), " AND"
        ),
        "tenant_matches": f"t.{identifier(spec.tenant)} = {parameter('key_0')}" if spec.tenant else "",
    }


def key_text(spec: Spec[Any], cast: str, row: str = "t.") -> str:
    """`raceproof.moves.request.key_text` in SQL; `cast` is how the dialect makes text of a column."""
    columns = [cast.format(row + identifier(column)) for column in spec.key_columns]
    if len(columns) == 1:
        return columns[0]
    return " || ':' || ".join(f"replace(replace({column}, '%', '%25'), ':', '%3A')" for column in columns)


def assignments(request: MoveRequest, words: Words, now: str, value: str) -> str:
    """What the move writes into the row; `value` is where the value of a set column comes from."""
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
        ends = form_sql.ended(claim.form, words, now)
        written += [f"{identifier(column)} = {end}" for column, end in ends.items() if column not in own]
        own |= ends.keys()
    written += [f"{identifier(column)} = {value.format(i)}" for i, column in enumerate(request.set)]
    return lines(written, ",")


def fenced_off(request: MoveRequest, row: str = "t") -> str:
    """Who holds the row before a move that ends the claim."""
    held = [form_sql.held_by(claim.form, row) for claim in request.ended]
    return held[0] if len(held) == 1 else f"COALESCE({', '.join(held)})"


def guards(
    request: MoveRequest,
    words: Words,
    fence: str = parameter("fence"),
    revision: str = parameter("revision"),
) -> list[tuple[int, str]]:
    """The guards of this call beside the status, each with its bit."""
    spec = request.move.lifecycle
    found = []
    if request.fence is not None and request.fence_column:
        found.append((FENCE, f"t.{identifier(request.fence_column)} = {fence}"))
    if request.revision is not None and spec.revision:
        found.append((REVISION, f"t.{identifier(spec.revision)} = {revision}"))
    bit = FIRST_PREDICATE
    for index, predicate in enumerate(request.where):
        found.append((bit, predicate.text(f"where_{index}", words.spelled)))
        bit *= 2
    return found


def unmet(found: list[tuple[int, str]]) -> str:
    """The guards that do not hold, as one number; NULL does not hold."""
    return "\n         + ".join(f"CASE WHEN {text} THEN 0 ELSE {bit} END" for bit, text in found) or "0"


def sources(request: MoveRequest) -> str:
    return ", ".join(literal(source) for source in request.move.sources)


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
    return (
        *request.parts,
        *extra,
        request.fence,
        request.revision,
        request.by,
        request.reason,
        request.call,
        request.now,
    )


def values(request: MoveRequest) -> dict[str, Any]:
    """The same by name."""
    return dict(zip(layout(request), flat(request), strict=True))


def column_list(names: Mapping[str, str] | tuple[str, ...], prefix: str) -> str:
    return "".join(f", {prefix}{identifier(name)}" for name in names)
