"""`verify` and `try_matrix`, on either kind of store."""

from collections.abc import Awaitable
from typing import Any, overload

from raceproof.declare import Lifecycle, Spec, spec_of
from raceproof.kernel.errors import CallError
from raceproof.ops.inspect import is_settled, sql_of
from raceproof.ops.verify.finding import Finding, Trial
from raceproof.ops.verify.programs import Beside, findings_of, trials_of
from raceproof.store import AsyncStore, Store

Declared = type[Lifecycle[Any]] | Spec[Any]


@overload
def verify(store: Store, declared: Declared | Beside) -> list[Finding]: ...
@overload
def verify(store: AsyncStore, declared: Declared | Beside) -> Awaitable[list[Finding]]: ...


def verify(store: Store | AsyncStore, declared: Declared | Beside) -> Any:
    """Compare the database with a lifecycle, delivery, lease, inbox or attempts; reads only. On an AsyncStore, await it."""
    thing = declared if isinstance(declared, Beside) else spec_of(declared)
    return store.run(findings_of(store.dialect, sql_of(store).style, thing))


@overload
def try_matrix(store: Store, lifecycle: Declared) -> list[Trial]: ...
@overload
def try_matrix(store: AsyncStore, lifecycle: Declared) -> Awaitable[list[Trial]]: ...


def try_matrix(store: Store | AsyncStore, lifecycle: Declared) -> Any:
    """Try every change of status against the installed guards, on temporary rows."""
    if not is_settled(store):
        raise CallError("try_matrix needs a transaction of its own; end yours first")
    return store.run(trials_of(store.dialect, sql_of(store).style, spec_of(lifecycle)))
