"""The slots of claims that PostgreSQL's and SQLite's texts have in common.

The two dialects differ in a handful of words about time (`Words`); everything that decides is written once.
"""

from typing import Any

from raceproof.claims.answer import FIRST_PREDICATE, HELD, LINE, RESTING, SPENT, STATUS
from raceproof.claims.request import ClaimRequest
from raceproof.forms import Columns, Marker, Timestamp
from raceproof.moves import sql as moves_sql
from raceproof.moves.form_sql import form_sql, free
from raceproof.moves.words import Words
from raceproof.quoting import identifier, literal, parameter
from raceproof.spec import Claimable
from raceproof.statement import lines

_EARLIER = "NOT EXISTS (SELECT 1 FROM {table} AS e WHERE {earlier})"


def slots(request: ClaimRequest, words: Words, now: str) -> dict[str, str]:
    """Everything that a search for claimable rows is filled with."""
    claim = request.claim
    spec = claim.lifecycle
    form = form_sql(claim.form, words, now)
    guards = [
        predicate.text(f"where_{index}", words.spelled) for index, predicate in enumerate(request.where)
    ]
    return {
        **moves_sql.declared(spec),
        "open": statuses(claim.open),
        "free": free(form, now),
        "until": form.until,
        "holder": holder(claim),
        "rested": _rested(claim, now),
        "left": _left(claim),
        "guards": lines(guards, " AND"),
        "first_of_its_line": _first_of_its_line(claim, words),
        "order": order(claim),
        "take": lines((*_moving(claim, now), *form.take, *_counted(claim)), ","),
        "fence": f"t.{identifier(claim.form.fence_column)}",
        "attempts": f"t.{identifier(claim.attempts)}" if claim.attempts else "NULL",
        "move": literal(claim.move.name if claim.move else claim.name),
        "note_outcome": note_outcome(claim),
        "now": now,
    }


def note_outcome(claim: Claimable[Any]) -> str:
    """A claim that moves the row is a move in the history; one that takes it over, or leaves it, is a claim."""
    if claim.move is None:
        return "'claimed'"
    return f"CASE WHEN rp_before = {literal(claim.move.target)} THEN 'claimed' ELSE 'moved' END"


def holder(claim: Claimable[Any]) -> str:
    """Who holds the row, as far as the form tells."""
    match claim.form:
        case Columns(holder=column):
            return f"t.{identifier(column)}"
        case Timestamp() | Marker():
            return "NULL"


def statuses(listed: tuple[Any, ...]) -> str:
    return ", ".join(literal(status) for status in listed)


def order(claim: Claimable[Any], row: str = "t.") -> str:
    columns = claim.order_by or claim.lifecycle.key
    return ", ".join(
        row + identifier(column.removeprefix("-")) + (" DESC" if column.startswith("-") else "")
        for column in columns
    )


def _moving(claim: Claimable[Any], now: str) -> list[str]:
    spec = claim.lifecycle
    written = []
    if claim.move:
        written.append(f"{identifier(spec.column)} = {literal(claim.move.target)}")
        written += [f"{identifier(stamp)} = {now}" for stamp in claim.move.stamp]
    if spec.revision:
        written.append(f"{identifier(spec.revision)} = COALESCE(t.{identifier(spec.revision)}, 0) + 1")
    return written


def _counted(claim: Claimable[Any]) -> list[str]:
    """Attempts are counted when a row is claimed, so that a crash burns one."""
    if claim.attempts is None:
        return []
    return [f"{identifier(claim.attempts)} = COALESCE(t.{identifier(claim.attempts)}, 0) + 1"]


def _left(claim: Claimable[Any]) -> str:
    if claim.cap is None or claim.attempts is None:
        return ""
    return f"COALESCE(t.{identifier(claim.attempts)}, 0) < {claim.cap:d}"


def spent(claim: Claimable[Any]) -> str:
    """The row has had all its attempts."""
    return f"COALESCE(t.{identifier(str(claim.attempts))}, 0) >= {claim.cap or 0:d}"


def _rested(claim: Claimable[Any], now: str) -> str:
    if claim.after is None:
        return ""
    return f"(t.{identifier(claim.after)} IS NULL OR t.{identifier(claim.after)} <= {now})"


def _first_of_its_line(claim: Claimable[Any], words: Words) -> str:
    """No earlier row of the same line is still open, where NULL is sorted as in the claim's order."""
    if claim.serial is None:
        return ""
    spec = claim.lifecycle
    columns = [*claim.order_by, *(column for column in spec.key if column not in claim.order_by)]
    serial = identifier(claim.serial)
    line = [f"e.{serial} = t.{serial}", f"e.{identifier(spec.column)} IN ({statuses(claim.open)})"]
    if spec.tenant:
        line.append(f"e.{identifier(spec.tenant)} = t.{identifier(spec.tenant)}")
    # a comparison of rows is found in the index, and knows nothing of NULL
    found = [_none_of(claim, [*line, _before(columns)])]
    for place, column in enumerate(columns):
        if column not in spec.key:
            found.append(_none_before_null(claim, line, columns[:place], column, columns[place + 1 :], words))
    return lines(found, " AND")


def _none_before_null(
    claim: Claimable[Any], line: list[str], same: list[str], column: str, others: list[str], words: Words
) -> str:
    """No earlier row of the line that differs from this one at a NULL, or behind a NULL that both have."""
    quoted = identifier(column)
    alike = [*line, *(f"e.{identifier(one)} {words.same} t.{identifier(one)}" for one in same)]
    behind = f" OR {_before(others)}" if others else ""
    if words.nulls_first:
        return _none_of(claim, [*alike, f"e.{quoted} IS NULL", f"(t.{quoted} IS NOT NULL{behind})"])
    # an alternative, which cannot become a join: for a row without NULL, as most are, nothing is looked for
    return f"(t.{quoted} IS NOT NULL OR {_none_of(claim, [*alike, f'(e.{quoted} IS NOT NULL{behind})'])})"


def _before(columns: list[str]) -> str:
    earlier, this = (", ".join(f"{row}.{identifier(column)}" for column in columns) for row in "et")
    return f"({earlier}) < ({this})"


def _none_of(claim: Claimable[Any], conditions: list[str]) -> str:
    table = moves_sql.declared(claim.lifecycle)["table"]
    return _EARLIER.format(table=table, earlier=" AND ".join(conditions))


def unmet(request: ClaimRequest, words: Words, filled: dict[str, str]) -> str:
    """Why a row cannot be claimed, as one number; NULL does not hold."""
    found = [(STATUS, f"t.{filled['status']} IN ({filled['open']})"), (HELD, filled["free"])]
    found += [
        (bit, filled[slot])
        for bit, slot in ((RESTING, "rested"), (SPENT, "left"), (LINE, "first_of_its_line"))
    ]
    bit = FIRST_PREDICATE
    for index, predicate in enumerate(request.where):
        found.append((bit, predicate.text(f"where_{index}", words.spelled)))
        bit *= 2
    return moves_sql.unmet([(bit, text) for bit, text in found if text])


def set_aside(claim: Claimable[Any], now: str) -> str:
    """What setting a row aside writes."""
    assert claim.exhausted is not None
    spec = claim.lifecycle
    written = [f"{identifier(spec.column)} = {literal(claim.exhausted.target)}"]
    written += [f"{identifier(column)} = NULL" for column in claim.form.cleared]
    written += [f"{identifier(stamp)} = {now}" for stamp in claim.exhausted.stamp]
    if spec.revision:
        written.append(f"{identifier(spec.revision)} = COALESCE(t.{identifier(spec.revision)}, 0) + 1")
    return lines(written, ",")


def changes(claim: Claimable[Any], words: Words, now: str, how: str, delay: str) -> str:
    """What renewing, giving back or resting writes into a row."""
    form = form_sql(claim.form, words, now)
    if how == "renew":
        return lines(form.renew, ",")
    written = list(form.give_back)
    spec = claim.lifecycle
    if claim.back:
        written.append(f"{identifier(spec.column)} = {literal(claim.back.target)}")
        written += [f"{identifier(stamp)} = {now}" for stamp in claim.back.stamp]
        if spec.revision:
            written.append(f"{identifier(spec.revision)} = COALESCE(t.{identifier(spec.revision)}, 0) + 1")
    if how == "refund" and claim.attempts:
        # nothing was tried: the attempt is given back as well
        column = f"t.{identifier(claim.attempts)}"
        written.append(f"{identifier(claim.attempts)} = CASE WHEN {column} > 0 THEN {column} - 1 ELSE 0 END")
    if how == "rest" and claim.after:
        written.append(f"{identifier(claim.after)} = {words.plus(now, delay)}")
    return lines(written, ",")


def add_slots(claim: Claimable[Any]) -> dict[str, str]:
    """What a row that waits is made with."""
    spec = claim.lifecycle
    return {
        **moves_sql.declared(spec),
        "key_columns": ", ".join(identifier(column) for column in spec.key_columns),
        "key_values": ", ".join(parameter(f"key_{i}") for i in range(len(spec.key_columns))),
        "waiting": literal(claim.at[0]),
    }


def index_columns(claim: Claimable[Any]) -> str:
    columns = claim.order_by or claim.lifecycle.key
    return ", ".join(
        identifier(column.removeprefix("-")) + (" DESC" if column.startswith("-") else "")
        for column in columns
    )
