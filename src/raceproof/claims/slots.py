"""A declared claim and the shape of a call, as the slots of SQL texts."""

from typing import Any

from raceproof.claims.forms import form_sql, free
from raceproof.claims.request import BACKING_OFF, FIRST_PREDICATE, HELD, LINE, SPENT, STATUS, ClaimRequest
from raceproof.declare.claim_forms import ClaimColumns
from raceproof.declare.spec import Claimable, Move
from raceproof.kernel.dialect import SqlDialect, column_list, lines, listed, unmet
from raceproof.kernel.quoting import identifier, literal, parameter, qualified

_TENANT = 0
"""Never a reason why not: the key of a row begins with its tenant."""
_NONE = "NOT EXISTS (SELECT 1 FROM {table} AS e WHERE {earlier})"


def of_request(request: ClaimRequest, dialect: SqlDialect) -> dict[str, str]:
    """Everything that a search for claimable rows is filled with."""
    claim, now = request.claim, dialect.now(request.now)
    form = form_sql(claim.form, dialect, now)
    taken = (*_moving(claim, claim.move, now), *form.take, *_counted(claim))
    found = {
        **of_claim(claim, dialect, now),
        "free": free(form, now),
        "until": form.until,
        "left": _left(claim),
        "order": order(claim),
        "take": lines(taken, ","),
        "move": literal(claim.move.name if claim.move else claim.name),
        "note_outcome": _note_outcome(claim),
        "after": literal(claim.move.target) if claim.move else "rp_before",
        "returning": column_list(request.returning, "t."),
        "returned": column_list(request.returning, "changed."),
        "written_returning": column_list(request.returning, "", "`"),
    }
    conditions = _conditions(request, dialect, now, found)
    found["claimable"] = "\n      AND ".join(text for bit, text in conditions.items() if bit != SPENT)
    found["unmet"] = unmet((bit, text) for bit, text in conditions.items() if bit != _TENANT)
    return found


def _conditions(request: ClaimRequest, dialect: SqlDialect, now: str, filled: dict[str, str]) -> dict[int, str]:
    """Which rows can be claimed, on every SQL database: the one place that says so.

    A statement that looks for rows asks for all of it; an answer names what does not hold. NULL does not hold.
    """
    claim = request.claim
    found = {
        STATUS: f"t.{filled['status']} IN ({filled['open']})",
        # P3: the row has no holder, or the lease has ended by the store's clock (P13: so the dead need no reaper)
        HELD: filled["free"],
        BACKING_OFF: _backed_off(claim, now),
        # a row that kills its workers is dead-lettered after max_attempts
        SPENT: filled["left"],
        _TENANT: filled["tenant_matches"],
        **{FIRST_PREDICATE << i: one.text(f"where_{i}", dialect.spelled) for i, one in enumerate(request.where)},
        # rows with one ordering key are claimed one after the other
        LINE: _first_of_line(claim, dialect),
    }
    return {bit: text for bit, text in found.items() if text}


def of_claim(claim: Claimable[Any], dialect: SqlDialect, now: str) -> dict[str, str]:
    """The slots that depend on the declaration and the clock alone."""
    fence = claim.form.fence_column
    return {
        **dialect.row(claim.lifecycle),
        "open": listed(claim.open),
        "held": listed(claim.held),
        "fence": f"t.{identifier(fence)}",
        "fence_text": dialect.exact(f"t.{identifier(fence)}"),
        "written_fence": dialect.exact(dialect.written(fence)),
        "status_text": dialect.status_text(claim.lifecycle),
        "lock": dialect.share_lock,
        "holder": f"t.{identifier(claim.form.holder)}" if isinstance(claim.form, ClaimColumns) else "NULL",
        "attempts": f"t.{identifier(claim.attempts)}" if claim.attempts else "NULL",
        "written_attempts": dialect.written(claim.attempts) if claim.attempts else "NULL",
        "spent": spent(claim),
        "dead_letter": _dead_letter(claim, now),
        "now": now,
    }


def order(claim: Claimable[Any], row: str = "t.") -> str:
    return ordered(claim.order_by or claim.lifecycle.key, row)


def ordered(columns: tuple[str, ...], row: str = "") -> str:
    """Columns to order by; a leading `-` is the greatest first."""
    return ", ".join(
        row + identifier(column.removeprefix("-")) + (" DESC" if column.startswith("-") else "") for column in columns
    )


def _note_outcome(claim: Claimable[Any]) -> str:
    """A claim that moves the row is a move in the history; one that takes it over, or leaves it, is a claim."""
    if claim.move is None:
        return "'claimed'"
    return f"CASE WHEN rp_before = {literal(claim.move.target)} THEN 'claimed' ELSE 'moved' END"


def _moving(claim: Claimable[Any], move: Move[Any] | None, now: str) -> list[str]:
    """What a move of the claim writes; a claim without one counts as a revision too."""
    spec = claim.lifecycle
    written = []
    if move:
        written.append(f"{identifier(spec.column)} = {literal(move.target)}")
        written += [f"{identifier(stamp)} = {now}" for stamp in move.stamp]
    if spec.revision:
        written.append(f"{identifier(spec.revision)} = COALESCE(t.{identifier(spec.revision)}, 0) + 1")
    return written


def _counted(claim: Claimable[Any]) -> list[str]:
    """Attempts are counted when a row is claimed, so that a crash uses one."""
    if claim.attempts is None:
        return []
    return [f"{identifier(claim.attempts)} = COALESCE(t.{identifier(claim.attempts)}, 0) + 1"]


def _left(claim: Claimable[Any]) -> str:
    if claim.max_attempts is None or claim.attempts is None:
        return ""
    return f"COALESCE(t.{identifier(claim.attempts)}, 0) < {claim.max_attempts:d}"


def spent(claim: Claimable[Any]) -> str:
    """The row has had all its attempts."""
    if claim.max_attempts is None or claim.attempts is None:
        return "FALSE"
    return f"COALESCE(t.{identifier(claim.attempts)}, 0) >= {claim.max_attempts:d}"


def _backed_off(claim: Claimable[Any], now: str) -> str:
    if claim.not_before is None:
        return ""
    return f"(t.{identifier(claim.not_before)} IS NULL OR t.{identifier(claim.not_before)} <= {now})"


def _first_of_line(claim: Claimable[Any], dialect: SqlDialect) -> str:
    """No earlier row with the same ordering key is still open, where NULL is sorted as in the claim's order."""
    if claim.ordering_key is None:
        return ""
    spec = claim.lifecycle
    columns = [*claim.order_by, *(column for column in spec.key if column not in claim.order_by)]
    key = identifier(claim.ordering_key)
    line = [f"e.{key} = t.{key}", f"e.{identifier(spec.column)} IN ({listed(claim.open)})"]
    if spec.tenant:
        line.append(f"e.{identifier(spec.tenant)} = t.{identifier(spec.tenant)}")
    # a comparison of rows is found in the index, and knows nothing of NULL
    found = [_none_of(claim, [*line, _before(columns)])]
    for place, column in enumerate(columns):
        if column not in spec.key:
            found.append(_none_before_null(claim, line, columns[:place], column, columns[place + 1 :], dialect))
    return lines(found, " AND")


def _none_before_null(
    claim: Claimable[Any], line: list[str], same: list[str], column: str, others: list[str], dialect: SqlDialect
) -> str:
    """No earlier row of the line that differs from this one at a NULL, or behind a NULL that both have."""
    quoted = identifier(column)
    alike = [*line, *(f"e.{identifier(one)} {dialect.same} t.{identifier(one)}" for one in same)]
    behind = f" OR {_before(others)}" if others else ""
    if dialect.nulls_first:
        return _none_of(claim, [*alike, f"e.{quoted} IS NULL", f"(t.{quoted} IS NOT NULL{behind})"])
    # an alternative, which cannot become a join: for a row without NULL, as most are, nothing is looked for
    return f"(t.{quoted} IS NOT NULL OR {_none_of(claim, [*alike, f'(e.{quoted} IS NOT NULL{behind})'])})"


def _before(columns: list[str]) -> str:
    earlier, this = (", ".join(f"{row}.{identifier(column)}" for column in columns) for row in "et")
    return f"({earlier}) < ({this})"


def _none_of(claim: Claimable[Any], conditions: list[str]) -> str:
    return _NONE.format(table=qualified(claim.lifecycle.table), earlier=" AND ".join(conditions))


def _dead_letter(claim: Claimable[Any], now: str) -> str:
    """What moving a row out of the way writes."""
    if claim.dead_letter is None:
        return ""
    status, *others = _moving(claim, claim.dead_letter, now)
    return lines((status, *(f"{identifier(column)} = NULL" for column in claim.form.cleared), *others), ",")


def changes(claim: Claimable[Any], dialect: SqlDialect, now: str, how: str, delay: str) -> str:
    """What renewing, giving back or backing off writes into a row."""
    form = form_sql(claim.form, dialect, now)
    if how == "renew":
        return lines(form.renew, ",")
    written = list(form.give_back)
    if claim.back:
        written += _moving(claim, claim.back, now)
    if how == "refund" and claim.attempts:
        # nothing was tried: the attempt does not count
        column = f"t.{identifier(claim.attempts)}"
        written.append(f"{identifier(claim.attempts)} = CASE WHEN {column} > 0 THEN {column} - 1 ELSE 0 END")
    if how == "back off" and claim.not_before:
        written.append(f"{identifier(claim.not_before)} = {dialect.plus(now, delay)}")
    return lines(written, ",")


def added(claim: Claimable[Any], dialect: SqlDialect) -> dict[str, str]:
    """What a row that waits is inserted with."""
    columns = claim.lifecycle.key_columns
    return {
        **dialect.row(claim.lifecycle),
        "key_columns": ", ".join(map(identifier, columns)),
        "key_values": ", ".join(parameter(f"key_{i}") for i in range(len(columns))),
        "waiting": literal(claim.at[0]),
    }
