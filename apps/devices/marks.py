"""The note's nine functions: each is one guarded write, and its answer tells what it found.

They work on every store. `use(store)` says on which; a caller may name another by `db=`. A claim may stand in the place of
`cmd_id`: then its fence is in the write, too.
"""

from contextvars import ContextVar
from typing import Any

from devices.lifecycle import Command, Status
from raceproof import AsyncStore, Claim
from raceproof.declare import Move
from raceproof.moves import Answer

_store: ContextVar[AsyncStore] = ContextVar("devices_store")

CommandKey = str | Claim[Any, Any]
Marked = Answer[Status, None]


def use(db: AsyncStore) -> None:
    """The store on which the functions below write, in this task and those that it starts."""
    _store.set(db)


async def mark_command_sent(cmd_id: CommandKey, allow_resend: bool = True, *, db: AsyncStore | None = None) -> Marked:
    """The broker has it. From QUEUED, and from SEND_FAILED unless that is forbidden."""
    return await _mark(Command.sent if allow_resend else Command.sent_first, cmd_id, {}, db)


async def mark_command_ack(cmd_id: CommandKey, *, db: AsyncStore | None = None) -> Marked:
    """The node has taken it. From QUEUED and SENT."""
    return await _mark(Command.ack, cmd_id, {}, db)


async def mark_command_done(
    cmd_id: CommandKey,
    duration_ms: int | None = None,
    result_code: int | None = None,
    *,
    db: AsyncStore | None = None,
) -> Marked:
    """The node has executed it. From QUEUED, SENT and ACK."""
    return await _mark(Command.done, cmd_id, {"duration_ms": duration_ms, "result_code": result_code}, db)


async def mark_command_no_effect(
    cmd_id: CommandKey, duration_ms: int | None = None, *, db: AsyncStore | None = None
) -> Marked:
    """The node had nothing to do. From QUEUED, SENT and ACK."""
    return await _mark(Command.no_effect, cmd_id, {"duration_ms": duration_ms}, db)


async def mark_command_failed(
    cmd_id: CommandKey,
    error_code: str | None = None,
    error_message: str | None = None,
    result_code: int | None = None,
    *,
    db: AsyncStore | None = None,
) -> Marked:
    """The node tried and failed: ERROR. From QUEUED, SENT and ACK."""
    return await _mark(Command.failed, cmd_id, _error(error_code, error_message, result_code), db)


async def mark_command_invalid(
    cmd_id: CommandKey,
    error_code: str | None = None,
    error_message: str | None = None,
    result_code: int | None = None,
    *,
    db: AsyncStore | None = None,
) -> Marked:
    """The node refuses it as it is. From QUEUED, SENT and ACK."""
    return await _mark(Command.invalid, cmd_id, _error(error_code, error_message, result_code), db)


async def mark_command_busy(
    cmd_id: CommandKey,
    error_code: str | None = None,
    error_message: str | None = None,
    result_code: int | None = None,
    *,
    db: AsyncStore | None = None,
) -> Marked:
    """The node is busy with another. From QUEUED, SENT and ACK."""
    return await _mark(Command.busy, cmd_id, _error(error_code, error_message, result_code), db)


async def mark_command_timeout(cmd_id: CommandKey, *, db: AsyncStore | None = None) -> Marked:
    """Nobody has heard of it for too long. From QUEUED, SENT and ACK."""
    return await _mark(Command.timeout, cmd_id, {}, db)


async def mark_command_send_failed(
    cmd_id: CommandKey, error_message: str | None = None, *, db: AsyncStore | None = None
) -> Marked:
    """It was proved not to have left. From QUEUED only."""
    return await _mark(Command.send_failed, cmd_id, {"error_message": error_message}, db)


def _error(code: str | None, message: str | None, result: int | None) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "result_code": result}


async def _mark(move: Move[Status], cmd_id: CommandKey, told: dict[str, Any], db: AsyncStore | None) -> Marked:
    given = {name: value for name, value in told.items() if value is not None}
    return await (db or _store.get()).move(move, cmd_id, set=given)
