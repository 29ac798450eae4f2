"""Write docs/certificates.md: what was exhausted, how stores compare, and which broken guards are found.

`make certificates`; takes about twenty minutes on two cores. Fails if a pack does, or a mutant survives.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from raceproof.testing.explorer import Limits, Verdict, world_of
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.conformance import differences, explored_schedules
from raceproof.testing.explorer.on_sqlite import SqliteGround
from raceproof.testing.packs import PACKS
from raceproof.testing.packs.grounds import opened
from raceproof.testing.packs.pack import GroundName
from tools.explore_mutants import Seen, seen

PAGE = Path(__file__).parents[1] / "docs" / "certificates.md"
SCHEDULES = 2000
_COMPARED: tuple[tuple[GroundName, str], ...] = (("postgres", "PostgreSQL"), ("redis", "Valkey"))
_HEAD = """# Certificates

Written by `make certificates` on {today}; do not edit. What the [explorer](explorer.md) has tried on the library itself. A
deviation is a switch to another process, a fault, or a jump in time, against the run that nobody disturbs.

## Promises, exhausted

Each pack is a small scenario on the primitives. *Exhausted to 3* means: every schedule with up to three deviations was
tried, among them at most one crash, one lost acknowledgement, one error and one cancellation; none broke its promises.
`make explore` does it again.

| pack | promises | exhausted to | schedules | states | crash points | lost answers | errors | cancels | jumps in time |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""
_STORES = """
## Stores, compared

Schedules that were explored on SQLite, run call by call on another store, every answer compared:

| store | schedules | differences |
|---|---:|---:|
"""
_MUTANTS = """
## Broken guards, found

Every mutation of [the list](promises.md) that is about P1–P14, and the pack that notices it, with the smallest schedule.
`make mutate-explored` does it again.

| promise | what was broken | pack | store | seconds | schedule |
|---|---|---|---|---:|---|
"""


def explored(place: int) -> Verdict:
    """One pack, as far as it says itself."""
    pack = PACKS[place]
    return pack.explore(Limits(pack.limits.deviations, seconds=600.0))


def pack_rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for pack, verdict in zip(PACKS, verdicts, strict=True):
        covered, points = verdict.covered, verdict.covered.points
        cancelled = sum(len(points.get(one, ())) for one in (Fate.CANCELLED_BEFORE, Fate.CANCELLED_AFTER))
        far = str(covered.exhausted) if verdict.passed else f"**{verdict.kind}**: {verdict.why}"
        cells = [pack.name, " ".join(pack.promises), far, f"{covered.schedules:,}", f"{covered.states:,}"]
        cells += [str(covered.crash_points), str(len(points.get(Fate.UNANSWERED, ())))]
        cells += [str(len(points.get(Fate.FAILS, ()))), str(cancelled), f"{covered.expiries:,}"]
        yield "| " + " | ".join(cells) + " |"


def compared() -> Iterator[tuple[str, int, int]]:
    """Each store beside SQLite: how many schedules, and how many differ."""
    limits = Limits(deviations=2, seconds=1.0)
    for ground, name in _COMPARED:
        packs = [pack for pack in PACKS if ground in pack.grounds]
        tried = differing = 0
        with opened(ground) as ground_for:
            for pack in packs:
                world = world_of(pack.scenario)
                schedules = explored_schedules(world, limits, SCHEDULES // len(packs))
                other = ground_for(pack)
                tried += len(schedules)
                differing += len(list(differences(world, schedules, SqliteGround(), other, limits)))
                other.close()
        yield name, tried, differing


def mutant_row(one: Seen) -> str:
    mutation = one.mutation
    if one.beyond:
        return f"| {mutation.promise} | {mutation.name} | – | – | – | not to be seen by packs: {one.beyond} |"
    cells = [mutation.promise, mutation.name, one.pack or "**none**", one.ground, f"{one.seconds:.2f}"]
    return "| " + " | ".join([*cells, f"`{one.schedule}`"]) + " |"


def main() -> int:
    with ProcessPoolExecutor(2) as pool:
        verdicts = []
        for pack, verdict in zip(PACKS, pool.map(explored, range(len(PACKS))), strict=True):
            print(f"{pack.name:26} {verdict.kind}  {verdict.why}", flush=True)
            verdicts.append(verdict)
    page = _HEAD.format(today=datetime.now(UTC).date()) + "\n".join(pack_rows(verdicts)) + "\n" + _STORES
    differing = 0
    for name, tried, wrong in compared():
        print(f"{name}: {tried} schedules, {wrong} differences", flush=True)
        page += f"| {name} | {tried:,} | {wrong} |\n"
        differing += wrong
    page += _MUTANTS
    mutants = []
    for one in seen():
        print(one, flush=True)
        mutants.append(one)
        page += mutant_row(one) + "\n"
    caught = sum(bool(one.pack) for one in mutants)
    page += f"\n{caught} of {sum(not one.beyond for one in mutants)} that packs can notice were found.\n"
    PAGE.write_text(page, encoding="utf-8")
    sound = all(verdict.passed for verdict in verdicts) and not differing
    return 0 if sound and not any(one.survived for one in mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
