"""The contract: tests that every driver and every dialect must pass, to run in a test file of your own.

    from raceproof.testing.contract import *

    @pytest.fixture
    def ground(): ...

The fixture yields a `Ground`, which is one store and a way around the library; SqlGround and RedisGround are ready-made. The
tests are coroutines: install the extra `testing` and set `asyncio_mode = "auto"` for pytest-asyncio. For a store that
sorts rows by any column, as SQL databases do, import `raceproof.testing.contract.ordering` as well.

Not covered: races between processes, crashes, broken connections and the caller's own transactions.
"""

from importlib import import_module
from typing import Any

from raceproof.kernel.errors import missing_extra

try:
    import pytest
except ImportError as error:
    raise missing_extra("pytest", "testing") from error

_MODULES = (
    "moves",
    "many",
    "guards_first",
    "keys",
    "status_kinds",
    "claims",
    "claim_searches",
    "claims_and_moves",
    "claims_bounds",
    "claims_carried",
    "claims_dead_letter",
    "claims_ended",
    "claims_fenced_off",
    "claims_in_line",
    "deliveries",
    "deliveries_in_doubt",
    "attempts",
    "leases",
    "inbox",
    "clock_set_back",
    "peers_locks",
    "peers_queues",
    "peers_state_machines",
)

# before the first of them is imported, or a failing assert shows no values
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in (*_MODULES, "ordering")))

from raceproof.testing.contract.grounds import (  # noqa: E402
    Caller,
    Ground,
    PostgresGround,
    RedisGround,
    SqlGround,
    SqliteGround,
    fresh_name,
)
from raceproof.testing.contract.status_kinds import status_kind  # noqa: E402


def _tests() -> dict[str, Any]:
    """The tests of all modules by name."""
    found: dict[str, Any] = {}
    for module in _MODULES:
        tests = {
            name: test for name, test in vars(import_module(f"{__name__}.{module}")).items() if name[:5] == "test_"
        }
        assert not found.keys() & tests.keys(), f"{module} repeats the name of a test"
        found |= tests
    return found


_TESTS = _tests()
globals().update(_TESTS)

__all__ = [
    "Caller",
    "Ground",
    "PostgresGround",
    "RedisGround",
    "SqlGround",
    "SqliteGround",
    "fresh_name",
    "status_kind",
    *_TESTS,
]
