"""The DDL that is printed: for two dialects, of a lifecycle however it was declared."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from raceproof import Attempts, Inbox, Lease, Lifecycle, claimable, ddl, move
from raceproof.kernel.errors import CallError
from raceproof.ops.web import audit_ddl
from raceproof.run import Schedules
from tests.ddl import script


class Stage(StrEnum):
    OPEN = "OPEN"
    TAKEN = "TAKEN"
    ENDED = "ENDED"


class Parcel(Lifecycle[Stage], table="parcels", history="parcel_history"):
    take = move(Stage.OPEN, to=Stage.TAKEN)
    end = move(Stage.OPEN, Stage.TAKEN, to=Stage.ENDED)
    work = claimable(take, lease=30)


parcels = Attempts(Parcel, owner="owner", supersede=Parcel.end)
MADE: dict[str, Callable[[Any], str]] = {
    "lease": lambda dialect: script(Lease("bot"), dialect=dialect),
    "inbox": lambda dialect: script(Inbox(), dialect=dialect),
    "schedule": lambda dialect: script(Schedules(), dialect=dialect),
    "audit": audit_ddl,
    "history": lambda dialect: script(Parcel, dialect=dialect, only="tables"),
    "guard": lambda dialect: script(Parcel, dialect=dialect, only="guards"),
    "drop": lambda dialect: script(Parcel, dialect=dialect, drop_guards=True),
    "claim index": lambda dialect: script(Parcel.work, dialect=dialect, only="indexes"),
    "attempt index": lambda dialect: script(parcels, dialect=dialect, only="indexes"),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("dialect", ["postgresql", "redis", "", None])
def test_a_dialect_that_has_no_ddl_is_told_which_have(made: Callable[[Any], str], dialect: Any) -> None:
    """Two, by their names; on Redis there is nothing to do."""
    with pytest.raises(CallError, match=r"write 'postgres' or 'sqlite'; on Redis nothing has to be created"):
        made(dialect)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_both_dialects_have_all_of_it(made: Callable[[Any], str], dialect: Any) -> None:
    """Statements that end."""
    assert made(dialect).rstrip().endswith(";")


@pytest.mark.parametrize("options", [{}, {"only": "guards"}, {"drop_guards": True}], ids=str)
def test_a_class_is_as_good_as_its_spec(options: dict[str, Any]) -> None:
    """And what is not a lifecycle is an error."""
    assert script(Parcel, dialect="sqlite", **options) == script(Parcel.spec, dialect="sqlite", **options)
    with pytest.raises(CallError, match="is not a lifecycle"):
        script(Stage, dialect="sqlite", **options)


def test_a_claim_brings_its_own_index_only() -> None:
    """A lifecycle brings those of all its claims."""
    assert len(ddl(Parcel.work, dialect="sqlite", only="indexes")) == 1
