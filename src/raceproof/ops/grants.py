"""The minimal rights for a set of declarations: GRANT statements, or an ACL rule of Redis.

Promise: with these rights and no others every call of these declarations works. A role with more can do more than the
library does. Not covered: your own statements on the same tables, and DDL, which the library never runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from raceproof.attempts import Attempts
from raceproof.claims.redis_index import index_key
from raceproof.declare.spec import Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier, qualified, split_qualified
from raceproof.leases import Lease
from raceproof.run.scheduler import Schedules
from raceproof.schema.ddl import Declared, declared_things
from raceproof.schema.needed import written_columns

_READS = (
    *("exists", "get", "hget", "hgetall", "hlen", "hmget", "pttl", "scan", "time"),
    *("xlen", "xrange", "xrevrange", "zcard", "zcount", "zmscore", "zrange", "zrangebyscore", "zrank"),
)
_WRITES = (
    *("hdel", "hincrby", "hset", "hsetnx", "persist", "pexpire", "publish", "set", "xadd"),
    *("zadd", "zrem", "zremrangebyscore"),
)
_CONNECTS = ("eval", "evalsha", "hello", "ping", "select", "subscribe", "unsubscribe", "client|setinfo")
_SWEEPS = ("xtrim",)


def postgres_grants(*declarations: Declared, role: str, read_only: bool = False, sweep: bool = False) -> list[str]:
    """The GRANT statements; `sweep` adds what deletes old histories and events."""
    to = identifier(role)
    things = list(declared_things(declarations))
    found = [f"GRANT USAGE ON SCHEMA {schema} TO {to};" for schema in _schemas(things)]
    for thing in things:
        found += [f"GRANT {rights} TO {to};" for rights in _rights(thing, read_only, sweep)]
    return list(dict.fromkeys(found))


def redis_rule(*declarations: Declared, role: str, read_only: bool = False, sweep: bool = False) -> str:
    """The ACL SETUSER command, without a password; keys and channels are those of the declarations."""
    if not role.isprintable() or not role or any(character.isspace() for character in role):
        raise CallError(f"role must be a name without spaces, got {role!r}")
    keys: list[str] = []
    channels: list[str] = []
    for thing in declared_things(declarations):
        keys += _keys(thing)
        lifecycle = thing if isinstance(thing, Spec) else getattr(thing, "lifecycle", None)
        if isinstance(lifecycle, Spec):
            channels += [f"&{_glob(index_key(claim))}" for claim in lifecycle.claims.values()]
    commands = [*_CONNECTS, *_READS, *(() if read_only else _WRITES), *(_SWEEPS if sweep and not read_only else ())]
    words = [
        *("ACL", "SETUSER", role, "on", "resetkeys", "resetchannels", "-@all"),
        *dict.fromkeys(f"{'%R' if read_only else ''}~{key}" for key in keys),
        *dict.fromkeys(channels),
        *(f"+{command}" for command in sorted(commands)),
    ]
    return " ".join(map(_word, words))


def _rights(thing: Any, read_only: bool, sweep: bool) -> Iterator[str]:
    match thing:
        case Spec():
            yield f"SELECT ON {qualified(thing.table)}"
            if not read_only:
                yield from _of_lifecycle(thing)
            if thing.history:
                rights = "SELECT" if read_only else "SELECT, INSERT, DELETE" if sweep else "SELECT, INSERT"
                yield f"{rights} ON {qualified(thing.history.table)}"
        case Delivery():
            yield f"SELECT ON {qualified(thing.table)}"
            if not read_only:
                yield f"UPDATE ({_columns(written_columns(thing))}) ON {qualified(thing.table)}"
        case Attempts():
            if not read_only:  # a start may give values for any column
                yield f"INSERT ON {qualified(thing.lifecycle.table)}"
        case Lease() | Schedules():
            yield f"{'SELECT' if read_only else 'SELECT, INSERT, UPDATE'} ON {qualified(thing.table)}"
        case Inbox():
            rights = "SELECT, INSERT, UPDATE, DELETE" if sweep else "SELECT, INSERT, UPDATE"
            yield f"{'SELECT' if read_only else rights} ON {qualified(thing.table)}"


def _of_lifecycle(spec: Spec[Any]) -> Iterator[str]:
    """A move writes these columns and no others; a claim may also make a row that waits."""
    written = [spec.column, *written_columns(spec), *(c for one in spec.moves.values() for c in one.sets)]
    yield f"UPDATE ({_columns(written)}) ON {qualified(spec.table)}"
    if spec.claims:
        yield f"INSERT ({_columns([*spec.key_columns, spec.column])}) ON {qualified(spec.table)}"


def _columns(names: Iterable[str]) -> str:
    return ", ".join(identifier(name) for name in dict.fromkeys(names))


def _schemas(things: Sequence[Any]) -> list[str]:
    """The schemas that are named; others are found by the search_path, whose `public` everyone may use by default."""
    tables = [thing.lifecycle.table if isinstance(thing, Attempts) else thing.table for thing in things]
    tables += [thing.history.table for thing in things if isinstance(thing, Spec) and thing.history]
    named = [split_qualified(table) for table in tables]
    return list(dict.fromkeys(identifier(parts[-2]) for parts in named if len(parts) > 1))


def _keys(thing: Any) -> Iterator[str]:
    """Patterns of the keys: a row is at `table:key`, what belongs to it at `table/…`."""
    match thing:
        case Spec() | Inbox() | Schedules():
            yield from (f"{_glob(thing.table)}:*", f"{_glob(thing.table)}/*")
        case Attempts():
            yield from (f"{_glob(key)}:*" for key in (thing.active_key, thing.owned_key) if key)
        case Delivery() | Lease():
            yield f"{_glob(thing.table)}:*"


def _glob(text: str) -> str:
    """A name in a pattern that stands for itself."""
    return "".join(f"\\{character}" if character in "*?[]\\" else character for character in text)


def _word(text: str) -> str:
    """As redis-cli reads it."""
    if not any(character.isspace() or character in "\"'\\" for character in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
