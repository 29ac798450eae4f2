"""How tools read a store: statements of theirs in its dialect, bounded walks over Redis, the store's clock.

Tools use this and the public methods of a store, and nothing of its drivers.
"""

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from raceproof.attempts import Attempts
from raceproof.attempts.request import start_request
from raceproof.declare.spec import Spec
from raceproof.deliveries import Delivery
from raceproof.deliveries.request import send_request
from raceproof.kernel.dialect import SqlDialect, Texts
from raceproof.kernel.errors import CallError
from raceproof.kernel.redis import RedisDialect, key_of_member, text_of
from raceproof.kernel.statement import Program, Statement, reading
from raceproof.programs import Programs
from raceproof.store import AsyncStore, Store

_KEYS_IN_ONE_SCAN = 500
_SPECIAL = "*?[]\\^"

AnyStore = Store | AsyncStore
T = TypeVar("T")
Steps = Generator[Program[Any], Any, T]
"""Programs run one by one, each in a transaction of its own."""


def programs_of(store: AnyStore) -> Programs:
    """The programs of each primitive on this store."""
    return store.driver.programs


def sql_of(store: AnyStore) -> SqlDialect:
    """The dialect of a store on an SQL database."""
    dialect: SqlDialect = store.driver.dialect
    return dialect


def texts_of(store: AnyStore, package: str, *shared: str) -> Texts:
    """The statements of a tool: those that all dialects share, and those of the store's dialect."""
    return sql_of(store).texts(package, *shared)


def statement(
    store: AnyStore, texts: Texts, name: str, slots: Mapping[str, str], values: Mapping[str, Any] | None = None
) -> Statement:
    """A statement of a tool with its values."""
    return texts.render(name, slots).bind(sql_of(store).bound(values or {}))


def is_settled(store: AnyStore) -> bool:
    """Whether the store is in no transaction of the caller's."""
    return store.driver.settled


def run_steps(store: AnyStore, steps: Steps[T]) -> Any:
    """Run programs one after the other; each result or error goes back into `steps`. On an AsyncStore, await it."""
    return _arun_steps(store, steps) if isinstance(store, AsyncStore) else _run_steps(store, steps)


def _run_steps(store: Store, steps: Steps[T]) -> T:
    try:
        program = next(steps)
        while True:
            try:
                found = store.run(reading(program))
            except Exception as error:
                program = steps.throw(error)
            else:
                program = steps.send(found)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _arun_steps(store: AsyncStore, steps: Steps[T]) -> T:
    try:
        program = next(steps)
        while True:
            try:
                found = await store.run(reading(program))
            except Exception as error:
                program = steps.throw(error)
            else:
                program = steps.send(found)
    except StopIteration as stop:
        result: T = stop.value
        return result


def backend_pid(store: AnyStore) -> int | None:
    """The PostgreSQL process that the server named on connecting: 0 behind a pooler, None where that is unknown."""
    return store.driver.backend_pid


# Redis


def is_cluster(store: AnyStore) -> bool:
    """Whether the store is a Redis cluster, whose keys are spread over its nodes."""
    return bool(store.driver.dialect.cluster)


def searchable(store: AnyStore, asked: object) -> RedisDialect:
    """The dialect of a Redis server whose keys can be walked; on a cluster they are spread."""
    dialect: RedisDialect = store.driver.dialect
    if is_cluster(store):
        raise CallError(f"{asked}: a cluster cannot be searched for rows")
    return dialect


def pattern(start: str) -> str:
    """What SCAN is given for all names that begin so."""
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in start) + "*"


def scan(
    spec: Spec[Any], tenant: Any, cursor: str, beside: str = "", kind: str = "hash"
) -> Program[tuple[str, list[str]]]:
    """One bounded step through the keys of a table: the next cursor, and the rows found, as texts."""
    following, members = yield from scan_keys(f"{spec.table}{beside}:", cursor, _KEYS_IN_ONE_SCAN, kind)
    return following, [member for member in members if key_of_member(spec, member, tenant) is not None]


def scan_keys(start: str, cursor: str, count: int, kind: str = "hash") -> Program[tuple[str, list[str]]]:
    """One bounded step through the keys that begin so: the next cursor, and how the keys found go on."""
    given = (cursor, "MATCH", pattern(start), "COUNT", count, "TYPE", kind)
    ((following, names),) = yield Statement("inspect.scan", "SCAN", given)
    return text_of(following), [text_of(name)[len(start) :] for name in names]


def redis_clock(now: datetime | None = None) -> Program[float]:
    """The time of a Redis server in seconds, or the one to use."""
    if now is not None:
        return now.timestamp()
    ((seconds, micros),) = yield Statement("time", "TIME")
    return float(seconds) + float(micros) / 1e6


def fields_of(rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Replies of HMGET as texts."""
    return [[text_of(one) for one in row] for row in rows]


# One row


def delivery_state(store: AnyStore, delivery: Delivery, key: Any) -> Program[str | None]:
    """The state of a delivery by the store's clock; None if there is no such row."""
    request = send_request(delivery, key, tenant=store.tenant)
    return (yield from reading(programs_of(store).deliveries.look(request)))


def current_attempt(store: AnyStore, attempts: Attempts, owner: Any) -> Program[dict[str, Any] | None]:
    """The active attempt of an owner."""
    spec = attempts.lifecycle
    tenant = owner if spec.tenant == attempts.owner else store.tenant
    any_key = "-" if len(spec.key) == 1 else ("-",) * len(spec.key)
    request = start_request(attempts, owner, any_key, tenant=tenant)
    return (yield from reading(programs_of(store).attempts.current(request)))
