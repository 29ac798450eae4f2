"""Settings of PostgreSQL that void A1: one primary, and a commit that it acknowledged survives.

Only what can be asked without rights of an administrator. A setting is looked up as it is for this session, and as roles
and this database have it: an application may log in as another role than whoever runs the doctor.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier, literal, qualified
from raceproof.kernel.statement import Program
from raceproof.ops.doctor.finding import Level, Problem, Repair, Subject, advice, sql
from raceproof.ops.doctor.patient import Patient

STANDBY = "could not check: this server is a standby; run the doctor on the primary"
_ROLES = ("database", "user", "database user", "global")
_RELOAD = "SELECT pg_reload_conf();"


class _Hazard(NamedTuple):
    """A setting that must not have some values, and what can happen if it has one."""

    name: str
    bad: tuple[str, ...]
    good: str
    level: Level
    then: str


_HAZARDS = (
    _Hazard("fsync", ("off",), "on", "error",
            "a crash of the machine loses acknowledged commits, or damages the database"),
    _Hazard("synchronous_commit", ("off",), "on", "error",
            "a crash of the server loses commits that were acknowledged just before"),
    _Hazard("full_page_writes", ("off",), "on", "warning",
            "a crash of the machine can leave half-written pages, unless the file system never does (ZFS)"),
    _Hazard("zero_damaged_pages", ("on",), "off", "error",
            "a damaged page is emptied instead of reported, and its rows are gone"),
)  # fmt: skip
_NOT_WAITING = _Hazard("synchronous_commit", ("local", "remote_write"), "on", "warning",
                       "a failover loses acknowledged commits that the standby has not flushed yet")  # fmt: skip


class Facts(NamedTuple):
    """What a session knows about its server."""

    standby: bool
    database: str
    role: str
    settings: dict[str, tuple[str, str]]
    """Value and source of each, as `pg_settings` has them."""


def facts(patient: Patient) -> Program[Facts]:
    """Ask the server about itself."""
    ((standby, database, role),) = yield patient.text("doctor.server", {}).bind({})
    rows = yield patient.text("doctor.settings", {}).bind({})
    return Facts(standby, database, role, {name: (value, source) for name, value, source in rows})


def primary(patient: Patient) -> Program[list[Problem]]:
    """Whether the server accepts writes."""
    known = yield from facts(patient)
    if known.standby:
        return [_on_standby((yield patient.text("doctor.upstream", {}).bind({})))]
    value, source = known.settings["default_transaction_read_only"]
    if value != "on":
        return []
    what = (
        "default_transaction_read_only is on: every decision fails with SQLSTATE 25006 and work stays stuck (voids P13)"
    )
    # the repair itself would be refused in a read-only transaction
    repair = _repair("default_transaction_read_only", "off", source, known, "SET default_transaction_read_only = off;")
    return [Problem("primary", "error", "store", what, ({"setting": value, "source": source},), repair=repair)]


def _on_standby(upstream: Any) -> Problem:
    host, port = upstream[0] if upstream else (None, None)
    where = f"Connect to the primary at {host}:{port}" if host else "Connect to the primary"
    what = (
        "this server is a standby: every decision fails with SQLSTATE 25006, and reads may be stale "
        "(voids A1: one primary)"
    )
    repair = advice(
        f"{where}, or list every server in the URL: postgresql://host1,host2/database?target_session_attrs=read-write"
    )
    evidence = {"pg_is_in_recovery": True, "primary": f"{host}:{port}" if host else None}
    return Problem("primary", "error", "store", what, (evidence,), repair=repair)


def settings(patient: Patient) -> Program[list[Problem]]:
    """Settings that can lose acknowledged commits."""
    known = yield from facts(patient)
    if known.standby:
        raise CallError(STANDBY)
    hazards = list(_HAZARDS)
    if known.settings["synchronous_standby_names"][0]:
        hazards.append(_NOT_WAITING)
    asked = yield patient.text("doctor.role_settings", {}).bind({"limit": patient.limit * 10})
    found = []
    for hazard in hazards:
        value, source = known.settings[hazard.name]
        if value in hazard.bad and source not in _ROLES:
            found.append(_problem(hazard, "", {"setting": value, "source": source},
                                  _repair(hazard.name, hazard.good, source, known)))  # fmt: skip
        for database, role, text in asked:
            name, _, value = text.partition("=")
            if name == hazard.name and _spelled(value) in hazard.bad:
                whom = _whom(database, role)
                evidence = {"setting": value, "role": role, "database": database}
                repair = sql(_alter(database, role, name, hazard.good), "-- then reconnect: it applies to new sessions")
                found.append(_problem(hazard, f" for {whom}", evidence, repair))
    return found


def _spelled(value: str) -> str:
    """A value as `pg_settings` spells it; roles keep what was typed."""
    plain = value.strip("'\" ").lower()
    return {"false": "off", "no": "off", "0": "off", "true": "on", "yes": "on", "1": "on"}.get(plain, plain)


def _problem(hazard: _Hazard, whose: str, evidence: dict[str, Any], repair: Repair) -> Problem:
    value = _spelled(str(evidence["setting"]))
    what = f"{hazard.name} is {value}{whose}: {hazard.then} (voids A1)"
    return Problem("durability", hazard.level, "store", what, (evidence,), repair=repair)


def _whom(database: str | None, role: str | None) -> str:
    if role is None:
        return f"database {database}" if database else "all roles"
    return f"role {role} in database {database}" if database else f"role {role}"


def _alter(database: str | None, role: str | None, name: str, value: str) -> str:
    """The statement that changes the setting where it was made."""
    if role is None and database is not None:
        return f"ALTER DATABASE {identifier(database)} SET {name} = {value};"
    where = "" if database is None else f" IN DATABASE {identifier(database)}"
    return f"ALTER ROLE {'ALL' if role is None else identifier(role)}{where} SET {name} = {value};"


def _repair(name: str, value: str, source: str, known: Facts, first: str = "") -> Repair:
    """What changes a setting, depending on where it comes from."""
    before = (first,) if first else ()
    match source:
        case "default" | "configuration file":
            return sql(*before, f"ALTER SYSTEM SET {name} = {value};", _RELOAD)
        case "database" | "user" | "database user" | "global":
            database = known.database if "database" in source else None
            role = known.role if "user" in source else None
            return sql(*before, _alter(database, role, name, value), "-- then reconnect: it applies to new sessions")
        case "command line":
            return advice(f"restart the server without -c {name}=… on its command line, or with -c {name}={value}")
        case _:
            return advice(
                f"this connection has set {name} itself: remove it from the options of the URL, from PGOPTIONS, or from "
                f"the code that runs SET {name}"
            )


def standbys(patient: Patient) -> Program[list[Problem]]:
    """Standbys that may lack acknowledged commits when they become the primary."""
    known = yield from facts(patient)
    if known.standby:
        raise CallError(STANDBY)
    waits_for, source = known.settings["synchronous_standby_names"]
    if waits_for:  # no commit is acknowledged without one of these
        return []
    rows = yield patient.text("doctor.standbys", {}).bind({"limit": patient.limit + 1})
    if any(state is None for _, _, state, _ in rows):
        raise CallError(
            f"could not check whether standbys are asynchronous: GRANT pg_read_all_stats TO {identifier(known.role)}"
        )
    if not rows:
        return []
    evidence = tuple(
        {"standby": name, "address": address, "state": state, "sync_state": sync}
        for name, address, state, sync in rows[: patient.limit]
    )
    names = ", ".join(dict.fromkeys(identifier(name) if name else "*" for name, *_ in rows))
    what = "standbys follow asynchronously: a failover loses the commits that the standby has not received (voids A1)"
    repair = _repair("synchronous_standby_names", literal(f"ANY 1 ({names})"), source, known,
                     "-- commits then wait for a standby; with only one, also while it is down")  # fmt: skip
    more = len(rows) > patient.limit
    return [Problem("durability", "warning", "store", what, evidence, more, repair)]


def unlogged(patient: Patient, subject: Subject, tables: Iterable[str]) -> Program[list[Problem]]:
    """Tables that a crash of the server empties."""
    found = []
    for table in tables:
        patient.logged.add(table)
        rows = yield patient.text("doctor.unlogged", {}).bind({"table": qualified(table)})
        if rows:
            names = [str(name) for (name,) in rows]
            what = f"table {', '.join(names)} is UNLOGGED: a crash of the server empties it (voids A1)"
            repair = sql(*(f"ALTER TABLE {name} SET LOGGED;" for name in names))
            evidence = tuple({"table": name} for name in names)
            found.append(Problem("durability", "error", subject.name, what, evidence, repair=repair))
    return found
