"""The repairs that `stuck` prints are run as they stand: for the rows of one tenant, whatever stands in their keys."""

import json
import shlex
from typing import Any

import pytest

from raceproof import SendPermit, Store
from raceproof.inbox import Arrival
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.repairs import RepairCommands
from raceproof.ops.doctor.quoting import separator_for
from tests.ddl import script
from tests.ops.cli.conftest import Cli
from tests.ops.cli.fix_working import LONG_AGO, Place
from tests.ops.cli.shops import Crate, Parcel, events, notes

SHOPS = "tests.ops.cli.shops"
TENANT = "north & south"
KEYS = [("Main Street", "1"), ("Main, the second", "1,5"), ("it's; a | long / one", "-1"), ("-x", "")]
_TABLES = """
CREATE TABLE shop_parcels (shop text, street text, house text, status text, attempts integer, claimed_by text,
    claimed_until {time}, fence bigint, PRIMARY KEY (shop, street, house));
CREATE TABLE shop_crates (shop text, street text, house text, status text, attempts integer, claimed_by text,
    claimed_until {time}, fence bigint, PRIMARY KEY (shop, street, house));
CREATE TABLE shop_notes (shop text, street text, house text, state text, delivering_at {time}, delivered_at {time},
    PRIMARY KEY (shop, street, house));
"""


@pytest.fixture
def shop(sql_place: Place) -> Store:
    """The rows of one tenant; those of another are beside them."""
    time = {"postgres": "timestamptz", "sqlite": "text"}[sql_place.db.dialect]
    for statement in (_TABLES.format(time=time) + script(events, dialect=_dialect(sql_place))).split(";"):
        if statement.strip():
            sql_place.raw.execute(statement)
    return sql_place.db.for_tenant(TENANT)


def _dialect(place: Place) -> Any:
    return place.db.dialect


def stuck(cli: Cli, place: Place, *more: str) -> list[dict[str, Any]]:
    result = cli("stuck", "--app", SHOPS, "--url", place.url, "--tenant", TENANT, "-o", "json", *more)
    assert result.exit_code == (6 if "[]" not in result.stdout else 0), result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def run(cli: Cli, place: Place, text: str) -> None:
    """As it stands; a shell would take it apart in the same way."""
    program, *args = shlex.split(text)
    assert program == "raceproof"
    result = cli(*args, env={"RACEPROOF_URL": place.url})
    assert result.exit_code == 0, result.output


def rows(place: Place, table: str, key: tuple[str, ...], **columns: Any) -> None:
    for tenant in (TENANT, "another"):
        place.put(table, shop=tenant, street=key[0], house=key[1], **columns)


@pytest.mark.parametrize("separator", [",", ";", "1"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_every_repair_can_be_pasted(
    cli: Cli, sql_place: Place, shop: Store, key: tuple[str, ...], separator: str
) -> None:
    """All of them at once, until nothing is stuck; the rows of the other tenant stay as they are."""
    rows(sql_place, "shop_parcels", key, status="QUEUED", attempts=3)
    rows(sql_place, "shop_crates", key, status="QUEUED", attempts=3)
    rows(sql_place, "shop_notes", key, state="ready")
    permit = shop.begin_delivery(notes, key)
    assert isinstance(permit, SendPermit)
    shop.uncertain(permit)
    if key[1]:
        shop.receive(events, Arrival(key[0], key[1], b"{}"), now=LONG_AGO)
        (mine,) = shop.claim(events.work, now=LONG_AGO)
        shop.fail(mine, delay=0, now=LONG_AGO)
    found = stuck(cli, sql_place, "--key-separator", separator)
    assert {one["target"] for one in found} >= {"Parcel.work", "Crate.work", "notes"}
    for one in found:
        command = one["repair"].replace("# and --arrived or --not-arrived", "--arrived")
        run(cli, sql_place, command if "--yes" in command else command.replace(" --app", " --yes --app"))
    assert stuck(cli, sql_place) == []
    for lifecycle in (Parcel, Crate):
        ended, kept = shop.read(lifecycle, key), shop.for_tenant("another").read(lifecycle, key)
        assert (ended or {})["status"] == "DEAD"
        assert (kept or {})["status"] == "QUEUED"


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_row_whose_lease_is_over_is_released_as_it_is_pasted(
    cli: Cli, sql_place: Place, shop: Store, key: tuple[str, ...]
) -> None:
    """By its whole key."""
    rows(sql_place, "shop_parcels", key, status="QUEUED", attempts=0)
    shop.claim_one(Parcel.work, key, now=LONG_AGO)
    (found,) = stuck(cli, sql_place, "Parcel")
    run(cli, sql_place, found["repair"] + " --yes")
    assert stuck(cli, sql_place) == []


@pytest.mark.parametrize("key", [*KEYS, (",;|/ <1>", "<"), ("<1", ">"), (",", ";"), ("", "")], ids=str)
@pytest.mark.parametrize("wanted", [",", "", "::", "<1>"])
def test_the_parts_of_a_key_come_apart_as_they_were(key: tuple[str, ...], wanted: str) -> None:
    """Whatever they are, there is something to put between them."""
    separator = separator_for(key, wanted)
    assert tuple(separator.join(key).split(separator)) == key


def test_names_are_quoted_for_a_shell() -> None:
    """A declaration in a file may be anywhere, and be named anything."""
    target = Target("my shop/all.toml", "Order's.work", Parcel.work)
    command = RepairCommands("ann's").command("sweep", target, "--yes")
    assert shlex.split(command) == [
        "raceproof", "sweep", "--app", "my shop/all.toml", "--tenant", "ann's", "Order's.work", "--yes",
    ]  # fmt: skip
