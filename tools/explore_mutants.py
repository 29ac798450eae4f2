"""Break each guard on purpose and see a promise pack fail: which one, after how long, and by which schedule.

`make mutate-explored`. A mutation of P1–P14 that no pack notices is a hole in the packs; the ones that packs cannot notice
are named here, with the reason. Each runs on the store that its code belongs to.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raceproof.testing import postgres, valkey
from tools.mutate import PACKAGE, Mutation, mutations

BEYOND = {
    "stores/": "a driver of its own; the explorer is one itself",
    "guard/": "a trigger against raw SQL, which no pack writes",
    "intake/": "HTTP, before anything reaches the store",
    "declaration.py": "a declaration that cannot work does not import, so there is nothing to run",
    "leader/advisory.py": "a session lock of PostgreSQL",
    "PostgreSQL: starters of one owner do not wait for each other": "two open transactions at once, which are not explored",
    "PostgreSQL: a takeover slips between a guarded write and its commit": "two open transactions at once",
    "PostgreSQL: an event gets a place in its line before one that is not committed yet": "two open transactions at once",
    "Redis: the pointer has changed since it was read, and nobody looks": "read before only on a cluster",
    "Redis: the row is written although its history was not": "a history that is no stream, which no pack has",
    "Redis: a quote in a declaration ends the text": "a declaration with a quote, and not a schedule",
    "A worker believes that it leads, and the store does not look": "a leader renews meanwhile: four jumps of time at least",
    "A leader that has stepped down goes on": "a Leader also cancels its tasks then; only the machine alone shows it",
}
"""What packs cannot notice: the file or name of a mutation, and why."""
_EXPLORED = {f"P{number}" for number in range(1, 15)}
_TURNS = ((True, 1, 10.0), (True, 2, 5.0), (False, 1, 2.0), (True, 3, 10.0))
"""Packs about the same promise first, and few deviations first; each pack has so many seconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one mutation."""

    mutation: Mutation
    ground: str
    beyond: str | None = None
    pack: str = ""
    seconds: float = 0.0
    schedule: str = ""
    why: str = ""

    @property
    def survived(self) -> bool:
        return not self.beyond and not self.pack

    def __str__(self) -> str:
        name = f"{self.mutation.promise:4} {self.mutation.name}"
        if self.beyond:
            return f"beyond    {name}: {self.beyond}"
        if self.survived:
            return f"SURVIVED  {name} ({self.ground})"
        how = f"{self.pack} on {self.ground}, {self.seconds:.2f} s: {self.schedule}"
        return f"caught    {name}\n          {how}\n          {self.why}"


def ground_of(mutation: Mutation) -> str:
    """The store that the mutated code belongs to."""
    told = f"{mutation.file} {mutation.name}".lower()
    return next((ground for ground in ("postgres", "redis") if ground in told), "sqlite")


def beyond(mutation: Mutation) -> str | None:
    """Why no pack can notice it, if so."""
    for what, why in BEYOND.items():
        if mutation.name == what or mutation.file.startswith(what):
            return why
    return None


def look(mutation: Mutation, environment: dict[str, str]) -> Seen:
    """The first pack that fails on a copy with the guard broken, and does not without."""
    ground, why = ground_of(mutation), beyond(mutation)
    if why is not None:
        return Seen(mutation, ground, why)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "raceproof"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(copy)
        for about, deviations, seconds in _TURNS:
            options = [
                "--ground",
                ground,
                "--seconds",
                str(seconds),
                "--deviations",
                str(deviations),
                "--stop",
            ]
            options += ["--promise", mutation.promise] if about else []
            failed = run_packs(copy.parent, options, environment)
            if failed is None:
                continue
            again = ["--ground", ground, "--only", failed["pack"], "--replay", failed["schedule"]]
            if run_packs(PACKAGE.parent, again, environment) is not None:
                raise SystemExit(f"{failed['pack']} fails before any mutation: {failed['schedule']}")
            took = float(failed["covered"]["seconds"])
            return Seen(mutation, ground, None, failed["pack"], took, failed["schedule"], failed["why"])
    return Seen(mutation, ground)


def run_packs(source: Path, options: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    """Run the packs of a copy of the package: the one that fails, or None."""
    command = [sys.executable, "-m", "raceproof.testing.packs", "--json", *options]
    done = subprocess.run(
        command,
        cwd=source,
        env={**os.environ, **environment, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"the packs could not be run: {' '.join(options)}\n{done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return next((one for one in found if one["verdict"] == "failed"), None)


def seen(only: str = "") -> Iterator[Seen]:
    """Every mutation that is about a promise which can be explored, two at a time, each with servers of its own."""
    wanted = [one for one in mutations() if only in f"{one.name} {one.file}" and one.promise in _EXPLORED]
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        keeps = [stack.enter_context(valkey()) for _ in range(2)]
        places = [
            {"RACEPROOF_EXPLORE_POSTGRES": server.database(), "RACEPROOF_EXPLORE_REDIS": keep.url}
            for keep in keeps
        ]
        pool = stack.enter_context(ThreadPoolExecutor(2))

        def run(mutation: Mutation) -> Seen:
            place = places.pop()
            try:
                return look(mutation, place)
            finally:
                places.append(place)

        yield from pool.map(run, wanted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only mutations whose name or file contains this text")
    asked = parser.parse_args()
    survivors = 0
    for one in seen(asked.only):
        survivors += one.survived
        print(one, flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
