"""Leases on Redis and Valkey: each decision is one run of a script; see `redis.lua` beside this file."""

from typing import Any

from raceproof.kernel.errors import CallError
from raceproof.kernel.lua import arguments, script
from raceproof.kernel.redis import RedisDialect, Scripts, seconds_of, text_of
from raceproof.kernel.statement import Program, Rows, Statement
from raceproof.leases.declared import Lease
from raceproof.leases.program import Found, LeasePrograms
from raceproof.leases.request import LeaseRequest

FILES = (("raceproof.kernel", "counting.lua"), ("raceproof.leases", "redis.lua"))
_NAMES = {action: f"lease.{action}" for action in ("acquire", "renew", "release", "look")}
_GIVEN: tuple[str, ...] = ("by", "lease", "epoch")
_TAKEN_OVER = 1


def script_of_lease(action: str, given: tuple[str, ...]) -> str:
    """`redis.lua` for one thing to do with a lease, for callers who give these values."""
    return script(FILES, action, {"given_now": None, **arguments(given)})


_SCRIPTS = Scripts(script_of_lease)


class RedisLeases(LeasePrograms):
    """The programs of leases."""

    def __init__(self, dialect: RedisDialect) -> None:
        self._dialect = dialect

    def _sent(self, action: str, request: LeaseRequest) -> Program[Found]:
        names, values = _GIVEN, [request.by, request.lease.seconds, request.epoch]
        if request.now is not None:
            names, values = (*names, "given_now"), [*values, seconds_of(request.now)]
        made = _SCRIPTS.get(action, names)
        row: Any = yield Statement(_NAMES[action], made, values, (self.key(request.lease),))
        won, holder, epoch, until = map(text_of, row)
        taken_over = action == "acquire" and won == _TAKEN_OVER
        return Found(bool(won), holder or None, int(epoch), until or None, taken_over)

    def listed(self, request: LeaseRequest) -> Program[Rows]:
        raise CallError(f"{request.lease}: Redis keeps each lease in its own key; ask for one by its name")
        yield

    def key(self, lease: Lease) -> str:
        return f"{lease.table}:{{{lease.name}}}" if self._dialect.cluster else f"{lease.table}:{lease.name}"
