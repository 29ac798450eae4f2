"""A declared delivery, as the slots of SQL texts."""

from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.kernel.dialect import SqlDialect, column_list, lines
from raceproof.kernel.quoting import identifier, literal, parameter, qualified

_RESERVED = literal(DeliveryState.RESERVED)
_SENDING = literal(DeliveryState.SENDING)
_UNCERTAIN = literal(DeliveryState.UNCERTAIN)


def of_delivery(delivery: Delivery, dialect: SqlDialect, now: str, returning: tuple[str, ...] = ()) -> dict[str, str]:
    """Everything but the marks."""
    delivering = f"t.{identifier(delivery.delivering)}"
    ahead = _ahead(delivery, dialect, now)
    # its sender is gone; P13: also if the clock was set back since it began
    stale = f"({dialect.plus(delivering, parameter('stale'))} <= {now} OR {ahead})"
    state = f"t.{identifier(delivery.state)}" if delivery.state else ""
    keys = [identifier(column) for column in delivery.key_columns]
    doubt = _doubt(delivery, stale)
    free = f"({delivering} IS NULL OR {stale})"
    if state:
        free = f"({delivering} IS NULL OR {stale} OR {state} = {_UNCERTAIN})"
    return {
        "table": qualified(delivery.table),
        "key_matches": lines((f"t.{key} = {parameter(f'key_{i}')}" for i, key in enumerate(keys)), " AND"),
        "tenant_matches": f"t.{identifier(delivery.tenant)} = {parameter('key_0')}" if delivery.tenant else "",
        "keys": ", ".join(f"t.{key} AS rp_key_{i}" for i, key in enumerate(keys)),
        "t_keys": ", ".join(f"t.{key}" for key in keys),
        "t_is_cur": " AND ".join(f"t.{key} = cur.rp_key_{i}" for i, key in enumerate(keys)),
        "open": f"t.{identifier(delivery.delivered)} IS NULL",
        "begun": f"({delivering} IS NOT NULL OR {state} = {_UNCERTAIN})" if state else f"{delivering} IS NOT NULL",
        "free": free,
        # P7: in mode hold it is tried at most once, unless it is known that nothing was sent
        "policy": f"NOT {doubt}" if delivery.policy == "hold" else "TRUE",
        "doubt": doubt,
        "found_state": _found_state(delivery, stale),
        "since": delivering,
        "fence": delivering,
        "holder": f"t.{identifier(delivery.holder)}" if delivery.holder else "NULL",
        "error": f"t.{identifier(delivery.error)}" if delivery.error else "NULL",
        "attempts": f"t.{identifier(delivery.attempts)}" if delivery.attempts else "NULL",
        "take": lines(_take(delivery, dialect, now, doubt, ahead), ","),
        "returning": column_list(returning, "t."),
        "returned": column_list(returning, "changed."),
        "written_returning": column_list(returning, "", "`"),
        "written_fence": dialect.exact(dialect.written(delivery.delivering)),
        "written_attempts": dialect.written(delivery.attempts) if delivery.attempts else "NULL",
        "delivered": identifier(delivery.delivered),
    }


def _doubt(delivery: Delivery, stale: str) -> str:
    """An attempt without an end: it was recorded so, or its sender is gone. Only a reserved one has surely sent nothing."""
    doubt = f"t.{identifier(delivery.delivering)} IS NOT NULL AND {stale}"
    if delivery.state:
        state = f"t.{identifier(delivery.state)}"
        # a row that was begun before it had this column says nothing
        doubt = f"{state} = {_UNCERTAIN} OR ({stale} AND ({state} IS NULL OR {state} <> {_RESERVED}))"
    return f"COALESCE({doubt}, FALSE)"


def _found_state(delivery: Delivery, stale: str) -> str:
    """The state in words, also where the table has only two timestamps."""
    cases = [f"WHEN t.{identifier(delivery.delivered)} IS NOT NULL THEN {literal(DeliveryState.DELIVERED)}"]
    delivering = f"t.{identifier(delivery.delivering)}"
    if delivery.state:
        state = f"t.{identifier(delivery.state)}"
        cases.append(f"WHEN {_doubt(delivery, stale)} THEN {_UNCERTAIN}")
        cases.append(f"WHEN {state} IS NOT NULL THEN {state}")
    cases.append(f"WHEN {stale} THEN {_UNCERTAIN}")
    cases.append(f"WHEN {delivering} IS NOT NULL THEN {_SENDING}")
    return "CASE " + " ".join(cases) + f" ELSE {literal(DeliveryState.READY)} END"


def _ahead(delivery: Delivery, dialect: SqlDialect, now: str) -> str:
    """It began later than now: the clock was set back since."""
    return f"t.{identifier(delivery.delivering)} > {dialect.plus(now, parameter('stale'))}"


def _take(delivery: Delivery, dialect: SqlDialect, now: str, doubt: str, ahead: str) -> list[str]:
    column = identifier(delivery.delivering)
    written = [f"{column} = {dialect.later(column, ahead, now)}"]
    if delivery.state:
        state = identifier(delivery.state)
        # P7: who only reserves has sent nothing, but the one before may have; the column is named for its type
        kept = f"CASE WHEN {doubt} THEN {_SENDING} WHEN FALSE THEN t.{state} ELSE {parameter('state')} END"
        written.append(f"{state} = {kept}")
    if delivery.holder:
        written.append(f"{identifier(delivery.holder)} = {parameter('by')}")
    if delivery.attempts:
        count = identifier(delivery.attempts)
        written.append(f"{count} = COALESCE(t.{count}, 0) + 1")
    return written


def marks(delivery: Delivery, dialect: SqlDialect, now: str, state: DeliveryState) -> str:
    """What the end of an attempt writes; only an unknown outcome keeps the timestamp, because it is not over."""
    written = []
    column = identifier(delivery.delivering)
    if state is DeliveryState.DELIVERED:
        written.append(f"{identifier(delivery.delivered)} = {now}")
    if state in (DeliveryState.DELIVERED, DeliveryState.FAILED):
        written.append(f"{column} = NULL")
    elif state is DeliveryState.SENDING:
        # a renewal, or the step from reserved to sending: the permit starts again
        written.append(f"{column} = {dialect.later(column, _ahead(delivery, dialect, now), now)}")
    else:
        written.append(f"{column} = t.{column}")
    if delivery.state:
        written.append(f"{identifier(delivery.state)} = {literal(state)}")
    if delivery.error and state is not DeliveryState.SENDING:
        written.append(f"{identifier(delivery.error)} = {parameter('error')}")
    return lines(written, ",")
