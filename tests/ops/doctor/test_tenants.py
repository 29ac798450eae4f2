"""L16: rows that belong to somebody: whose they are tells one owner from another, and the repairs name it."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from raceproof import Claim, SendPermit, Store
from raceproof.inbox import Arrival
from raceproof.kernel.keys import key_text
from raceproof.ops.doctor import Problem, Subject, diagnose
from raceproof.ops.doctor.finding import Repair
from tests.ddl import script
from tests.ops.cli.test_pasting import KEYS
from tests.ops.doctor import shops
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.shops import Crate, Errand, Parcel, Visit, events, notes, visits

LONG_AGO = datetime.now(UTC) - timedelta(days=2)
TENANT = "north & south"
IGNORED = ("guard", "schema")
_TABLES = """
CREATE TABLE shop_visits (shop text, id text, status text, guest text, began_at {time}, superseded_by text,
    PRIMARY KEY (shop, id));
CREATE TABLE shop_parcels (shop text, street text, house text, status text, attempts integer, claimed_by text,
    claimed_until {time}, fence bigint, PRIMARY KEY (shop, street, house));
CREATE TABLE shop_crates (shop text, street text, house text, status text, attempts integer, claimed_by text,
    claimed_until {time}, fence bigint, PRIMARY KEY (shop, street, house));
CREATE TABLE shop_notes (shop text, street text, house text, state text, delivering_at {time}, delivered_at {time},
    PRIMARY KEY (shop, street, house));
CREATE TABLE shop_errands (id text PRIMARY KEY, status text, made_at integer, street text, leave text, attempts integer,
    rests_until {time}, claimed_by text, claimed_until {time}, fence bigint);
"""


@pytest.fixture
def shop(ill: Ill) -> Ill:
    """The tables of the shops, healthy as yet."""
    if ill.dialect != "redis":
        dialect: Any = ill.dialect
        time = {"postgres": "timestamptz", "sqlite": "text"}[dialect]
        made = (
            _TABLES.format(time=time)
            + script(events, dialect=dialect)
            + script(visits, dialect=dialect, only="indexes")
        )
        for statement in filter(str.strip, made.split(";")):
            ill.run(statement)
    return ill


def put(ill: Ill, table: str, key: Iterable[str], **columns: Any) -> None:
    """A row of each of two shops, written by somebody else."""
    for tenant in (TENANT, "another"):
        street, house = key
        if ill.dialect == "redis":
            ill.raw.hset(f"{table}:{key_text((tenant, street, house))}", mapping=columns)
        else:
            ill.put(table, shop=tenant, street=street, house=house, **columns)


def forget(store: Store, key: tuple[str, str]) -> None:
    """Nobody knows whether the note has arrived."""
    permit = store.begin_delivery(notes, key)
    assert isinstance(permit, SendPermit)
    store.uncertain(permit)


def found_in(ill: Ill, store: Store, *things: Any) -> tuple[Problem, ...]:
    flags = f"--app {shops.__name__} --url {ill.url}"
    names = {id(notes): "notes", id(events): "events", id(visits): "visits"}
    subjects = [Subject(one, names.get(id(one)) or one.__name__, flags) for one in things]
    return diagnose(store, *subjects, ignore=IGNORED).problems


def test_the_same_name_at_two_shops_is_two_owners(shop: Ill) -> None:
    """Each has one open attempt, and the index of both columns is the one that is wanted."""
    for tenant in ("blue", "red"):
        shop.db.for_tenant(tenant).start_attempt(visits, "ann", f"{tenant}-1")
    assert found_in(shop, shop.db, visits) == ()


def test_an_index_on_the_owner_alone_is_not_the_one(shop: Ill) -> None:
    """It would refuse the owner of the same name at another shop."""
    if shop.dialect == "redis":
        assert found_in(shop, shop.db, visits) == ()
        return
    shop.run("DROP INDEX shop_visits_one_open")
    shop.run("CREATE UNIQUE INDEX one_guest ON shop_visits (guest) WHERE status IN ('pending')")
    (problem,) = found_in(shop, shop.db, visits)
    assert (problem.check, "shop, guest" in problem.what) == ("index", True)
    shop.paste(problem)
    assert found_in(shop, shop.db, visits) == ()


def test_a_second_open_attempt_at_one_shop_is_superseded_and_the_other_shop_left_alone(shop: Ill) -> None:
    """Which one stays is decided for each of the two owners by itself."""
    if shop.dialect != "redis":
        shop.run("DROP INDEX shop_visits_one_open")
    for tenant in ("blue", "red:1"):
        shop.db.for_tenant(tenant).start_attempt(visits, "ann", "v-1")
    red = shop.db.for_tenant("red:1")
    began = (red.read(Visit, "v-1") or {})["began_at"]
    columns = {"status": "pending", "guest": "ann", "began_at": began}
    if shop.dialect == "redis":
        shop.raw.hset("shop_visits:red%3A1:v-2", mapping=columns)
        shop.raw.expire("shop_visits:red%3A1:v-2", 900)
    else:
        shop.put("shop_visits", shop="red:1", id="v-2", **columns)
    (problem,) = [one for one in found_in(shop, shop.db, visits) if one.check == "owner"]
    assert [(row["shop"], row["id"]) for row in problem.evidence] == [("red:1", "v-1"), ("red:1", "v-2")]
    assert problem.what.startswith("1 owner ")
    shop.paste(problem)
    stays, ended = ("v-1", "v-2") if shop.dialect == "redis" else ("v-2", "v-1")
    assert [(red.read(Visit, key) or {})["status"] for key in (stays, ended)] == ["pending", "superseded"]
    link = key_text(("red:1", stays)) if shop.dialect == "redis" else stays  # as a start writes it
    assert (red.read(Visit, ended) or {})["superseded_by"] == link
    assert (shop.db.for_tenant("blue").read(Visit, "v-1") or {})["status"] == "pending"
    assert [one for one in found_in(shop, shop.db, visits) if one.check == "owner"] == []


def test_the_keys_of_a_shops_owner_on_redis_get_an_end(ill_valkey: Ill) -> None:
    """The pointer and the set that are really there."""
    ill_valkey.db.for_tenant("red").start_attempt(visits, "ann", "v-1")
    keys = {"shop_visits/active:red:ann", "shop_visits/owned:red:ann"}
    assert all(ill_valkey.raw.persist(key) for key in keys)
    (problem,) = found_in(ill_valkey, ill_valkey.db, visits)
    assert {row["key"] for row in problem.evidence} == keys
    ill_valkey.paste(problem)
    assert found_in(ill_valkey, ill_valkey.db, visits) == ()


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("by_command", [True, False], ids=["command", "library"])
def test_every_repair_can_be_pasted(shop: Ill, key: tuple[str, str], by_command: bool) -> None:
    """Whatever stands in the keys; the rows of the other shop stay as they are, and are no evidence."""
    mine, things = shop.db.for_tenant(TENANT), (Parcel, Crate, notes, events)
    for table in ("shop_parcels", "shop_crates"):
        put(shop, table, key, status="QUEUED", attempts=3)
    for tenant in (TENANT, "another"):
        for lifecycle in (Parcel, Crate):
            shop.db.for_tenant(tenant).offer(lifecycle.work, [key])
    put(shop, "shop_notes", key, state="ready")
    forget(mine, key)
    if key[1]:
        mine.receive(events, Arrival(key[0], key[1], b"{}"), now=LONG_AGO)
        (event,) = mine.claim(events.work, now=LONG_AGO)
        mine.fail(event, delay=0, now=LONG_AGO)
    found = found_in(shop, mine, *things)
    assert {one.target for one in found} >= {"Parcel", "Crate", "notes"}
    assert {row["key"] for one in found for row in one.evidence if "key" in row} == {key}
    if by_command:
        flags = ("--app", shops.__name__, "--url", shop.url, "--tenant", TENANT, "--ignore", "guard")
        told = shop.cli("doctor", *flags, "--ignore", "schema", "-o", "jsonl", "Parcel", "Crate", "notes", "events")
        found = tuple(_problem(line) for line in told.stdout.splitlines())
    for one in found:
        shop.paste(one, choice="--not-arrived")
    assert found_in(shop, mine, *things) == ()
    for lifecycle in (Parcel, Crate):
        rows = [shop.db.for_tenant(one).read(lifecycle, key) or {} for one in (TENANT, "another")]
        assert [row["status"] for row in rows] == ["DEAD", "QUEUED"]


def _problem(line: str) -> Problem:
    """One that the command has told."""
    told = json.loads(line)
    repair = Repair(told["repair"]["way"], told["repair"]["text"])
    return Problem(told["check"], told["level"], told["target"], told["what"], repair=repair)


def test_the_deliveries_of_another_shop_on_redis_are_no_evidence(ill_valkey: Ill) -> None:
    """Whoever looks for one shop could do nothing about them."""
    put(ill_valkey, "shop_notes", ("Main Street", "1"), state="ready")
    forget(ill_valkey.db.for_tenant("another"), ("Main Street", "1"))
    assert found_in(ill_valkey, ill_valkey.db.for_tenant(TENANT), notes) == ()
    assert len(found_in(ill_valkey, ill_valkey.db.for_tenant("another"), notes)) == 1


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_lease_that_was_over_long_ago_is_released_as_it_is_pasted(shop: Ill, key: tuple[str, str]) -> None:
    """By its whole key, of the shop whose it is."""
    mine = shop.db.for_tenant(TENANT)
    put(shop, "shop_parcels", key, status="QUEUED", attempts=0)
    mine.offer(Parcel.work, [key])
    assert mine.claim_one(Parcel.work, key, now=LONG_AGO).won
    (problem,) = [one for one in found_in(shop, mine, Parcel) if one.check == "stuck.claim"]
    shop.paste(problem)
    assert [one for one in found_in(shop, mine, Parcel) if one.check == "stuck.claim"] == []


def errand(ill: Ill, key: str, made_at: int, **columns: Any) -> None:
    given = {"street": key, "leave": "yes", "attempts": 3, **columns}
    ill.put("shop_errands", id=key, status="QUEUED", made_at=made_at, **given)
    ill.db.offer(Errand.work, [key])


def test_what_a_sweep_leaves_is_not_said_to_be_out_of_attempts(shop: Ill) -> None:
    """A row that a guard keeps back, one that rests, and one behind another of its line; the first of a line is."""
    errand(shop, "kept back", 1, leave="no")
    errand(shop, "rests", 2, attempts=0)
    held = shop.db.claim_one(Errand.work, "rests")
    assert isinstance(held, Claim)
    shop.db.fail(held, delay=600)
    if shop.dialect == "redis":
        shop.raw.hset("shop_errands:rests", "attempts", 3)
    else:
        shop.run("UPDATE shop_errands SET attempts = 3 WHERE id = 'rests'")
    errand(shop, "first", 3, street="main", attempts=0)
    errand(shop, "behind", 4, street="main")
    assert found_in(shop, shop.db, Errand) == ()
    errand(shop, "tired", 5, street="side")
    errand(shop, "behind it", 6, street="side")
    (problem,) = found_in(shop, shop.db, Errand)
    assert [row["key"] for row in problem.evidence] == ["tired"]
