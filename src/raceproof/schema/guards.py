"""The DDL of the guards, from a declaration."""

import hashlib
from typing import Any

from raceproof.declare.lifecycle import Lifecycle, spec_of
from raceproof.declare.spec import Spec
from raceproof.kernel.dialects import POSTGRES, SQLITE
from raceproof.kernel.quoting import dollar_tag, identifier, literal, qualified, split_qualified
from raceproof.kernel.statement import templates
from raceproof.schema.tables import Dialect

_LONGEST = 24
_SQLITE_TRIGGERS = ("update", "insert", "record_update", "record_insert")


def guard_name(spec: Spec[Any]) -> str:
    """What the guards of a lifecycle are called: in errors as the constraint, in the database as the trigger."""
    safe = "".join(character if character.isalnum() and character.isascii() else "_" for character in spec.name)
    if safe != spec.name or len(safe) > _LONGEST:
        # distinguished by more than what is left of the name; PostgreSQL cuts names at 63 bytes
        safe = f"{safe[:_LONGEST]}_{_short_hash(spec.name)}"
    return f"raceproof_guard_{safe.lower()}"


def function_name(spec: Spec[Any]) -> str:
    """The trigger function, beside the table; each table has its own, so that one can be dropped without the other."""
    *schema, _ = split_qualified(spec.table)
    name = f"{guard_name(spec)}_{_short_hash(spec.table)}"
    return ".".join(identifier(part) for part in (*schema, name))


def override_table(spec: Spec[Any]) -> str:
    """Where SQLite keeps overrides: beside the table, quoted."""
    *schema, _ = split_qualified(spec.table)
    return _in(schema, "raceproof_override")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def guard_statements(of: type[Lifecycle[Any]] | Spec[Any], dialect: Dialect) -> list[str]:
    """Install the guards, or bring them up to date; safe to run again."""
    spec = spec_of(of)
    if dialect == "sqlite":
        return _sqlite_guard(spec)
    pinned = ("pin",) if spec.history and len(split_qualified(spec.history.table)) == 1 else ()
    return _postgres(spec, "guard", *pinned, "guard.replace", "guard.trigger")


def drop_statements(of: type[Lifecycle[Any]] | Spec[Any], dialect: Dialect) -> list[str]:
    """Remove the guards."""
    spec = spec_of(of)
    if dialect == "postgres":
        return _postgres(spec, "guard.replace", "drop.function")
    return [_sqlite_drop(spec, kind) for kind in _SQLITE_TRIGGERS]


def _pairs(spec: Spec[Any]) -> list[tuple[str, str]]:
    return sorted({(str(source), str(one.target)) for one in spec.moves.values() for source in one.sources})


def _postgres(spec: Spec[Any], *names: str) -> list[str]:
    found = templates("raceproof.schema", "guards_postgres.sql")
    slots = _postgres_slots(spec)
    return [found[name].prepare(slots, "dollar").text for name in names]


def _postgres_slots(spec: Spec[Any]) -> dict[str, str]:
    found = templates("raceproof.schema", "guards_postgres.sql")
    slots = {
        "function": function_name(spec),
        "trigger": identifier(guard_name(spec)),
        "table": qualified(spec.table),
        "status": identifier(spec.column),
        "lifecycle": literal(spec.name),
        "constraint": literal(guard_name(spec)),
        "hash": spec.hash,
        "initial": ", ".join(literal(status) for status in spec.initial),
        "pairs": ", ".join(f"({literal(before)}, {literal(after)})" for before, after in _pairs(spec)),
        "new_key": POSTGRES.key_text(spec, row="NEW."),
        "hint": literal(""),
        "record": "",
        "returns": "",
        "function_text": _text(function_name(spec)),
    }
    if spec.history:
        slots["history"] = qualified(spec.history.table)
        slots["hint"] = literal(" In need: SET LOCAL raceproof.override = 'why'; it is recorded.")
        slots["record"] = found["record"].fill(slots)
        slots["returns"] = "RETURN NULL;"
    # whatever of the declaration stands between two tags must not contain one, so all of it is looked at
    slots["tag"] = dollar_tag(*slots.values())
    return slots


def function_body(spec: Spec[Any]) -> str:
    """The text between the dollar quotes, as the database keeps it."""
    (text,) = _postgres(spec, "guard")
    return text.split(_postgres_slots(spec)["tag"])[1]


def _text(quoted: str) -> str:
    """An identifier that is quoted already, as an SQL string."""
    return "'" + quoted.replace("'", "''") + "'"


def _in(schema: list[str], name: str) -> str:
    return ".".join(identifier(part) for part in (*schema, name))


def _sqlite_guard(spec: Spec[Any]) -> list[str]:
    found = templates("raceproof.schema", "guards_sqlite.sql")
    slots = _sqlite_slots(spec)
    statements = [found["override table"].prepare(slots, "dollar").text] if spec.history else []
    for kind in _SQLITE_TRIGGERS if spec.history else _SQLITE_TRIGGERS[:2]:
        statements += [_sqlite_drop(spec, kind), found[f"guard.{kind}"].prepare(slots, "dollar").text]
    return statements


def _sqlite_drop(spec: Spec[Any], kind: str) -> str:
    trigger = _sqlite_slots(spec)[f"{kind}_trigger"]
    return templates("raceproof.schema", "guards_sqlite.sql")["drop"].prepare({"trigger": trigger}, "dollar").text


def _sqlite_slots(spec: Spec[Any]) -> dict[str, str]:
    status = identifier(spec.column)
    targets: dict[str, list[str]] = {}
    for before, after in _pairs(spec):
        targets.setdefault(before, []).append(literal(after))
    declared = [f"OLD.{status} = {literal(b)} AND NEW.{status} IN ({', '.join(a)})" for b, a in targets.items()]
    name = guard_name(spec)
    *schema, table = split_qualified(spec.table)
    excused = templates("raceproof.schema", "guards_sqlite.sql")["excused"].fill({"lifecycle": literal(spec.name)})
    return {
        "update_trigger": _in(schema, f"{name}_update"),
        "insert_trigger": _in(schema, f"{name}_insert"),
        "record_update_trigger": _in(schema, f"{name}_record_update"),
        "record_insert_trigger": _in(schema, f"{name}_record_insert"),
        # inside a trigger SQLite knows only the tables beside it, by their bare names
        "table": identifier(table),
        "override": override_table(spec),
        "status": status,
        "lifecycle": literal(spec.name),
        "hash": spec.hash,
        "initial": ", ".join(literal(one) for one in spec.initial),
        "declared": "\n   OR ".join(declared),
        "excused": excused if spec.history else "0",
        "new_key": SQLITE.key_text(spec, row="NEW."),
        "history": identifier(split_qualified(spec.history.table)[-1]) if spec.history else "",
        "update_message": literal(f"{guard_name(spec)}: {spec.name} may not change its {spec.column} like this"),
        "insert_message": literal(f"{guard_name(spec)}: {spec.name} must start at {', '.join(spec.initial)}"),
    }
