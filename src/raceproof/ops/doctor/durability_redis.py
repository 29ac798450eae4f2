"""Settings of Redis and Valkey that void A6: one primary, as durable as configured, and no eviction.

`appendfsync everysec` is not reported: what a crash of the machine loses then is bounded by a second, by choice.
"""

from collections.abc import Mapping

from raceproof.kernel.errors import CallError
from raceproof.kernel.redis import text_of
from raceproof.kernel.statement import Program, Statement
from raceproof.ops.doctor.finding import Level, Problem, advice, redis
from raceproof.ops.doctor.patient import Patient

_REPLICA = "could not check: this server is a replica; run the doctor on the primary"
_REWRITE = ("CONFIG", "REWRITE")


def primary(patient: Patient) -> Program[list[Problem]]:
    """Whether the server accepts writes."""
    info = yield from _info()
    if info.get("role") != "slave":
        return []
    where = f"{info.get('master_host')}:{info.get('master_port')}"
    what = (
        f"this server is a replica of {where}: every decision fails with READONLY, and reads may be stale "
        "(voids A6: one primary)"
    )
    evidence = {"role": "replica", "primary": where, "link": info.get("master_link_status")}
    repair = advice(f"Connect to the primary at {where}, or ask Sentinel for it.")
    return [Problem("primary", "error", "store", what, (evidence,), repair=repair)]


def settings(patient: Patient) -> Program[list[Problem]]:
    """Whether decisions reach the disk soon."""
    info = yield from _info()
    if info.get("role") == "slave":
        raise CallError(_REPLICA)
    if info.get("aof_enabled") == "0":
        then = "a restart of the server loses every decision since its last snapshot"
        return [_problem("error", "appendonly", "no", "yes", then)]
    if (yield from _configured("appendfsync")) == "no":
        then = "a crash of the machine loses decisions of the last half minute or more"
        return [_problem("warning", "appendfsync", "no", "everysec", then)]
    return []


def _problem(level: Level, name: str, value: str, good: str, then: str) -> Problem:
    what = f"{name} is {value}: {then} (voids A6)"
    repair = redis(("CONFIG", "SET", name, good), _REWRITE)
    return Problem("durability", level, "store", what, ({name: value},), repair=repair)


def eviction(patient: Patient) -> Program[list[Problem]]:
    """Whether the server may evict rows."""
    info = yield from _info()
    policy = info.get("maxmemory_policy") or (yield from _configured("maxmemory-policy"))
    if policy == "noeviction":
        return []
    which = "rows that have a time to live" if policy.startswith("volatile-") else "any row"
    limited = info.get("maxmemory") != "0"
    when = "memory is short" if limited else "memory is short, once maxmemory is set"
    what = f"maxmemory-policy is {policy}: {which} may be evicted when {when} (voids A6: no eviction)"
    evidence = {"maxmemory-policy": policy, "maxmemory": info.get("maxmemory")}
    repair = redis(("CONFIG", "SET", "maxmemory-policy", "noeviction"), _REWRITE)
    return [Problem("eviction", "error" if limited else "warning", "store", what, (evidence,), repair=repair)]


def _info() -> Program[Mapping[str, str]]:
    """INFO as a mapping."""
    try:
        (reply,) = yield Statement("doctor.info", "INFO")
    except Exception as error:
        _raise_if_refused(error, "INFO", "+info")
        raise
    pairs = (line.partition(":") for line in str(text_of(reply)).removeprefix("txt:").splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def _configured(name: str) -> Program[str]:
    """One setting that INFO does not contain."""
    try:
        (reply,) = yield Statement("doctor.config", "CONFIG", ("GET", name))
    except Exception as error:
        _raise_if_refused(error, f"CONFIG GET {name}", "+config|get")
        raise
    values = list(reply.values()) if isinstance(reply, dict) else list(reply)[1::2]
    if not values:
        raise CallError(f"could not check {name}: the server has no such setting")
    return str(text_of(values[0]))


def _raise_if_refused(error: Exception, command: str, right: str) -> None:
    """A server may refuse the command, to this user or, if hosted, to all users."""
    if any(cls.__name__ == "ResponseError" for cls in type(error).__mro__):
        raise CallError(
            f"could not check: the server refused {command} ({error}); allow it to this user with {right}, or check the "
            "settings of the server yourself"
        ) from error
