"""Write docs/certificates.md: what was exhausted, how stores compare, and which broken guards are found.

`make certificates`; takes about five minutes on two cores. Each part can be done by itself (`--part packs`); what was
found is kept in docs/certificates.json. Fails if a pack does, a store differs, or a mutant survives.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raceproof.testing.explorer import Limits, Verdict, world_of
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.on_sqlite import SqliteGround
from tests.promises.packs import PACKS
from tests.promises.packs.conformance import differences, explored_schedules
from tests.promises.packs.grounds import opened
from tests.promises.packs.pack import GroundName
from tools.explore_mutants import seen

DOCS = Path(__file__).parents[1] / "docs"
SCHEDULES = 2000
_COMPARED: tuple[tuple[GroundName, str], ...] = (("postgres", "PostgreSQL"), ("redis", "Valkey"))
_PAGE = """# Certificates

Written by `make certificates` on {today}; do not edit. What the [explorer](explorer.md) has tried on the library itself. A
deviation is a switch to another process, a fault, or a jump in time, against the run that nobody disturbs.

## Promises, exhausted

Each pack is a small scenario on the primitives. *Exhausted to 3* means: every schedule with up to three deviations was
tried, among them at most one crash, one lost acknowledgement, one error and one cancellation; none broke its promises.
`make explore` does it again.

| pack | promises | exhausted to | schedules | states | crash points | lost answers | errors | cancels | jumps in time |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
{packs}

## Stores, compared

Schedules that were explored on SQLite, run call by call on another store, every answer compared:

| store | schedules | differences |
|---|---:|---:|
{stores}

## Broken guards, found

Those mutations of [the list](promises.md) that a pack notices too, and not only a test, with the smallest schedule. Packs
make no bad input, have no drivers and no HTTP, and explore one open transaction at a time. `make mutate-explored` does it
again.

| promise | what was broken | pack | store | seconds | schedule |
|---|---|---|---|---:|---|
{mutants}

{caught} of {tried} were found.
"""
Rows = list[list[str]]


def explored(place: int) -> Verdict:
    """One pack, as far as it says itself."""
    pack = PACKS[place]
    return pack.explore(Limits(pack.limits.deviations, seconds=600.0))


def packs() -> Iterator[list[str]]:
    """What each pack has exhausted."""
    with ProcessPoolExecutor(2) as pool:
        for pack, verdict in zip(PACKS, pool.map(explored, range(len(PACKS))), strict=True):
            covered, points = verdict.covered, verdict.covered.points
            cancelled = sum(len(points.get(one, ())) for one in (Fate.CANCELLED_BEFORE, Fate.CANCELLED_AFTER))
            far = str(covered.exhausted) if verdict.passed else f"**{verdict.kind}**: {verdict.why}"
            cells = [pack.name, " ".join(pack.promises), far, f"{covered.schedules:,}", f"{covered.states:,}"]
            cells += [str(covered.crash_points), str(len(points.get(Fate.UNANSWERED, ())))]
            yield [*cells, str(len(points.get(Fate.FAILS, ()))), str(cancelled), f"{covered.expiries:,}"]


def stores() -> Iterator[list[str]]:
    """Each store beside SQLite: how many schedules, and how many differ."""
    limits = Limits(deviations=2, seconds=1.0)
    for ground, name in _COMPARED:
        chosen = [pack for pack in PACKS if ground in pack.grounds]
        tried = differing = 0
        with opened(ground) as ground_for:
            for pack in chosen:
                world = world_of(pack.scenario)
                schedules = explored_schedules(world, limits, -(-SCHEDULES // len(chosen)))
                other = ground_for(pack)
                tried += len(schedules)
                differing += len(list(differences(world, schedules, SqliteGround(), other, limits)))
                other.close()
        yield [name, f"{tried:,}", str(differing)]


def mutants() -> Iterator[list[str]]:
    """Each broken guard, and what notices it."""
    for one in seen():
        mutation = one.mutation
        cells = [mutation.promise, mutation.name, one.pack or "**none**", one.ground, f"{one.seconds:.2f}"]
        yield [*cells, f"`{one.schedule}`"]


PARTS: dict[str, Callable[[], Iterator[list[str]]]] = {"packs": packs, "stores": stores, "mutants": mutants}


def is_sound(found: dict[str, Any]) -> bool:
    """Whether nothing failed, nothing differs and nothing survived."""
    exhausted = all(row[2].isdigit() for row in found["packs"])
    return exhausted and all(row[2] == "0" for row in found["stores"]) and not _survivors(found["mutants"])


def page(found: dict[str, Any]) -> str:
    """What was found, for people."""
    tables = {part: "\n".join("| " + " | ".join(row) + " |" for row in found[part]) for part in PARTS}
    tried = len(found["mutants"])
    caught = tried - len(_survivors(found["mutants"]))
    return _PAGE.format(today=found["on"], caught=caught, tried=tried, **tables)


def _survivors(rows: Rows) -> Rows:
    return [row for row in rows if row[2] == "**none**"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; the others are as they were")
    asked = parser.parse_args()
    kept = DOCS / "certificates.json"
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for part in asked.part or PARTS:
        found[part] = []
        for row in PARTS[part]():
            print(" | ".join(row), flush=True)
            found[part].append(row)
    found["on"] = str(datetime.now(UTC).date())
    kept.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if all(part in found for part in PARTS):
        (DOCS / "certificates.md").write_text(page(found), encoding="utf-8")
        return 0 if is_sound(found) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
