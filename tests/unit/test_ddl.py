"""The DDL that is printed: for two dialects, of a lifecycle however it was declared."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from raceproof import (
    Attempts,
    CallError,
    Lifecycle,
    attempt_index_ddl,
    claim,
    claim_index_ddl,
    drop_ddl,
    guard_ddl,
    history_ddl,
    inbox_ddl,
    lease_ddl,
    move,
    schedule_ddl,
)
from raceproof.web import audit_ddl


class Stage(StrEnum):
    OPEN = "OPEN"
    TAKEN = "TAKEN"
    ENDED = "ENDED"


class Parcel(Lifecycle[Stage], table="parcels", history="parcel_history"):
    take = move(Stage.OPEN, to=Stage.TAKEN)
    end = move(Stage.OPEN, Stage.TAKEN, to=Stage.ENDED)
    work = claim(take, lease=30)


parcels = Attempts(Parcel, owner="owner", supersede=Parcel.end)
MADE: dict[str, Callable[[Any], str]] = {
    "lease": lease_ddl,
    "inbox": inbox_ddl,
    "schedule": schedule_ddl,
    "audit": audit_ddl,
    "history": lambda dialect: history_ddl(Parcel, dialect),
    "guard": lambda dialect: guard_ddl(Parcel, dialect),
    "drop": lambda dialect: drop_ddl(Parcel, dialect),
    "claim index": lambda dialect: claim_index_ddl(Parcel.work, dialect),
    "attempt index": lambda dialect: attempt_index_ddl(parcels, dialect),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("dialect", ["postgresql", "redis", "", None])
def test_a_dialect_that_has_no_ddl_is_told_which_have(made: Callable[[Any], str], dialect: Any) -> None:
    """Two, by their names; on Redis there is nothing to do."""
    with pytest.raises(CallError, match=r"say 'postgres' or 'sqlite'; on Redis nothing has to be created"):
        made(dialect)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_both_dialects_have_all_of_it(made: Callable[[Any], str], dialect: Any) -> None:
    """Statements that end."""
    assert made(dialect).rstrip().endswith(";")


@pytest.mark.parametrize("made", [history_ddl, guard_ddl, drop_ddl])
def test_a_class_is_as_good_as_its_spec(made: Callable[[Any, Any], str]) -> None:
    """And what is no lifecycle is told so."""
    assert made(Parcel, "sqlite") == made(Parcel.spec, "sqlite")
    with pytest.raises(CallError, match="is not a lifecycle"):
        made(Stage, "sqlite")
