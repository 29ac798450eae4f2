"""What is wrong with attempts, as far as a store shows it, with the evidence and the repair."""

from collections.abc import AsyncIterator
from typing import Any

import click
from redis.exceptions import RedisError
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from appkit import commands as kit
from qrlogin.beside import Known, seconds_of
from qrlogin.beside_redis import BesideRedis
from qrlogin.identity import SessionId
from qrlogin.lifecycle import ENDED, OPEN, Attempt, SavedSession, Status
from qrlogin.places import AttemptPlaces, Places, open_places
from qrlogin.settings import Settings
from qrlogin.tables import held_sessions, saved_sessions
from raceproof.ops.verify import verify

LOST_AFTER = 30.0
"""Seconds without a holder after which an open attempt counts as forgotten."""
INGEST = "start `qrlogin ingest`, or look at why it does not work"


async def health_of_user(places: AttemptPlaces, user_id: str) -> dict[str, Any]:
    """The attempts of a user: which one is active, issues, warnings, and what to do about them."""
    known = await places.beside.known(user_id)
    now = await places.beside.now()
    active = await places.active(user_id)
    issues = list(_issues(known, now, user_id))
    warnings = list(_warnings(known, user_id))
    return {
        "user_id": user_id,
        "healthy": not issues,
        "active_session": active["session_id"] if active else None,
        "status": active["status"] if active else None,
        "issues": issues,
        "warnings": warnings,
        "sessions": [
            {"session_id": name, "status": row.get("status"), "reason": row.get("reason") or None}
            for name, row in known.rows.items()
        ],
    }


def _issues(known: Known, now: float, user_id: str) -> Any:
    cleanup = f"qrlogin diagnose {user_id} --cleanup"
    if known.pointer is not None and not known.rows.get(known.pointer):
        yield _found(f"the pointer names {known.pointer}, of which nothing is left", cleanup)
    for key in known.endless:
        yield _found(f"{key} has no time to live", cleanup)
    for name, row in known.rows.items():
        status = row.get("status")
        if row and status not in set(Status):
            yield _found(f"{name} is at {status!r}, which is no status", cleanup)
        if status not in OPEN:
            continue
        if name != known.pointer:
            yield _found(f"{name} is open ({status}) and not the active one", cleanup)
            continue
        age = now - (seconds_of(row.get("created_at")) or now)
        until = seconds_of(row.get("claimed_until"))
        if age > int(row.get("ttl_seconds") or 0) + LOST_AFTER:
            yield _found(f"{name} is open ({status}) after its time", INGEST)
        elif (until is None and age > LOST_AFTER) or (until is not None and now - until > LOST_AFTER):
            yield _found(f"no ingest process has {name} ({status})", INGEST)


def _warnings(known: Known, user_id: str) -> Any:
    cleanup = f"qrlogin diagnose {user_id} --cleanup"
    gone = [name for name, row in known.rows.items() if not row and name != known.pointer]
    if gone:
        yield _found(f"{len(gone)} attempts are listed, of which nothing is left", cleanup)
    bad = [name for name, row in known.rows.items() if row.get("status") in ENDED[1:]]
    if bad:
        yield _found(f"{len(bad)} attempts have ended without a login", f"they are kept for a while; {cleanup}")


async def cleanup_user(places: AttemptPlaces, user_id: str) -> list[str]:
    """Repair what is wrong and remove what has ended; what was done, in words. An open active attempt is not touched."""
    done = []
    known = await places.beside.known(user_id)
    await places.beside.mend(known)
    done += [f"{key}: has a time to live now" for key in known.endless]
    for name, row in known.rows.items():
        session_id = SessionId.parsed(name)
        if row.get("status") in OPEN and name != known.pointer:
            answer = await places.of(user_id).move(
                Attempt.supersede, session_id.key, set={"superseded_by": known.pointer}, by="diagnose"
            )
            done.append(f"{name}: {answer.outcome}")
        elif row and row.get("status") not in set(Status):
            done.append(f"{name}: is at no status; look at it by hand")
        if await places.beside.forget(session_id):
            done.append(f"{name}: removed")
    return done


async def report(settings: Settings, user_id: str | None, cleanup: bool, output: str) -> int:
    """Print what was found; exit code 6 if there are problems, 5 if there is nothing to look at."""
    if not settings.database and not settings.embedded.exists():
        click.echo(
            f"there is no database in {settings.folder}: is QRLOGIN_FOLDER, or QRLOGIN_DATABASE, that of the service?",
            err=True,
        )
        return kit.UNREACHABLE
    try:
        async with open_places(settings) as places:
            if user_id is not None:
                return await _of_user(places, user_id, cleanup, output)
            findings = [one async for one in _of_system(places)]
    except (OSError, RedisError, DBAPIError) as error:
        click.echo(f"the store cannot be reached ({type(error).__name__})", err=True)
        return kit.UNREACHABLE
    kit.show(findings, output, ["check", "result", "evidence", "repair"])
    return kit.PROBLEMS if any(one["result"] == "problem" for one in findings) else kit.OK


async def _of_user(places: Places, user_id: str, cleanup: bool, output: str) -> int:
    if cleanup:
        for line in await cleanup_user(places, user_id):
            click.echo(line, err=True)
    health = await health_of_user(places, user_id)
    show_health(health, output)
    return kit.OK if health["healthy"] else kit.PROBLEMS


def show_health(health: dict[str, Any], output: str) -> None:
    """What is wrong with the attempts of a user, for people or for programs."""
    if output != "table":
        kit.show([health], output)
    else:
        click.echo(f"user     {health['user_id']}: {'healthy' if health['healthy'] else 'NOT HEALTHY'}")
        click.echo(f"active   {health['active_session'] or 'none'} {health['status'] or ''}".rstrip())
        for word in ("issues", "warnings"):
            for one in health[word]:
                click.echo(f"{word[:-1]:8} {one['problem']}\n         repair: {one['repair']}")
        for one in health["sessions"]:
            reason = f"  {one['reason']}" if one["reason"] else ""
            click.echo(f"attempt  {one['session_id']}  {one['status'] or 'gone'}{reason}")


async def _of_system(places: Places) -> AsyncIterator[dict[str, str]]:
    beside = places.beside
    number = await beside.count_open()
    kind = "a cluster" if isinstance(beside, BesideRedis) and beside.cluster else places.store.dialect
    yield _line("store", True, f"{kind}, {number} attempts open")
    late = await _late(places)
    yield _line("ingest", not late, f"{late} attempts wait for it" if late else "nothing waits", INGEST)
    if isinstance(beside, BesideRedis):
        endless, looked = await beside.endless()
        yield _line(
            "times to live",
            not endless,
            f"{len(endless)} of {looked} keys without one, as {endless[0]}"
            if endless
            else f"each of {looked} keys has one",
            "qrlogin diagnose USER_ID --cleanup",
        )
        policy = await beside.evicts()
        yield _line(
            "eviction",
            not policy,
            f"maxmemory-policy is {policy}: a full server drops open logins" if policy else "keys are kept",
            "set maxmemory-policy to noeviction",
        )
    for lifecycle in (Attempt, SavedSession):
        drift = [one for one in await verify(places.database.store, lifecycle) if one.level != "ok"]
        yield _line(
            f"declaration of {lifecycle.spec.name}",
            not drift,
            "; ".join(f"{one.what} {one.evidence}" for one in drift) or "as declared",
            "start an instance: it installs what is missing",
        )
    async with places.database.read() as connection:
        held = (await connection.execute(select(func.count()).select_from(held_sessions))).scalar_one()
        unknown = select(func.count()).where(saved_sessions.c.key_id.not_in(places.vault.key_ids))
        sealed = (await connection.execute(unknown)).scalar_one()
    yield _line("held sessions", True, f"{held}; settled by ingest")
    yield _line("keys", not sealed, f"{sealed} sessions sealed with a key that is not set", "add it to QRLOGIN_KEYS")


async def _late(places: Places) -> int:
    """Attempts that have waited for longer than it takes an ingest process to come round."""
    now = await places.beside.now()
    number = 0
    for session_id in await places.beside.waiting(100):
        row = await places.row(session_id)
        if row and row["status"] in OPEN and now - (seconds_of(row["created_at"]) or now) > LOST_AFTER:
            number += 1
    return number


def _found(problem: str, repair: str) -> dict[str, str]:
    return {"problem": problem, "repair": repair}


def _line(check: str, fine: bool, evidence: str, repair: str = "") -> dict[str, str]:
    result = "ok" if fine else "problem"
    return {"check": check, "result": result, "evidence": evidence, "repair": "" if fine else repair}
