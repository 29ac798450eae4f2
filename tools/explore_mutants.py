"""Break guards on purpose and see a promise pack fail: which one, after how long, and by which schedule.

`make mutate-explored`. In mutations.toml a mutation names its pack, if there is one: packs make no bad input, have no
drivers and no HTTP, and explore one open transaction at a time. `--search` looks for a pack for those that name none. Each
runs on the store that its code belongs to.
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
from tools.mutate import PACKAGE, ROOT, Mutation, mutations

_EXPLORED = {f"P{number}" for number in range(1, 15)}
_TURNS = ((True, 1, 10.0), (True, 2, 5.0), (False, 1, 2.0), (True, 3, 10.0))
"""A search takes packs about the same promise first, and few deviations first; each pack has so many seconds."""
_DEVIATIONS = (1, 2, 3)
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one mutation."""

    mutation: Mutation
    ground: str
    pack: str = ""
    seconds: float = 0.0
    schedule: str = ""
    why: str = ""

    @property
    def survived(self) -> bool:
        return not self.pack

    def __str__(self) -> str:
        name = f"{self.mutation.promise:4} {self.mutation.name}"
        if self.survived:
            return f"SURVIVED  {name} ({self.ground})"
        how = f"{self.pack} on {self.ground}, {self.seconds:.2f} s: {self.schedule}"
        return f"caught    {name}\n          {how}\n          {self.why}"


def ground_of(mutation: Mutation) -> str:
    """The store that the mutated code belongs to."""
    told = f"{mutation.file} {mutation.name}".lower()
    return next((ground for ground in ("postgres", "redis") if ground in told), "sqlite")


def look(mutation: Mutation, environment: dict[str, str]) -> Seen:
    """The first pack that fails on a copy with the guard broken, and does not without."""
    ground = ground_of(mutation)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "raceproof"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(copy)
        for options in _turns(mutation):
            options = ["--ground", ground, "--stop", *options]
            failed = run_packs(copy.parent, options, environment)
            if failed is None:
                continue
            again = ["--ground", ground, "--only", failed["pack"], "--replay", failed["schedule"]]
            if run_packs(PACKAGE.parent, again, environment) is not None:
                raise SystemExit(f"{failed['pack']} fails before any mutation: {failed['schedule']}")
            took = float(failed["covered"]["seconds"])
            return Seen(mutation, ground, failed["pack"], took, failed["schedule"], failed["why"])
    return Seen(mutation, ground)


def _turns(mutation: Mutation) -> Iterator[list[str]]:
    """What is tried one after the other: its own pack, or all that may notice it."""
    if mutation.pack:
        for deviations in _DEVIATIONS:
            yield ["--only", mutation.pack, "--seconds", str(_SECONDS), "--deviations", str(deviations)]
        return
    for about, deviations, seconds in _TURNS:
        chosen = ["--promise", mutation.promise] if about else []
        yield [*chosen, "--seconds", str(seconds), "--deviations", str(deviations)]


def run_packs(source: Path, options: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    """Run the packs against a copy of the package: the one that fails, or None."""
    command = [sys.executable, "-m", "tests.promises.packs", "--json", *options]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"the packs could not be run: {' '.join(options)}\n{done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return next((one for one in found if one["verdict"] == "failed"), None)


def seen(only: str = "", search: bool = False) -> Iterator[Seen]:
    """Every mutation that names a pack, or could have one, two at a time, each with servers of its own."""
    wanted = [
        one
        for one in mutations()
        if only in f"{one.name} {one.file}" and one.promise in _EXPLORED and bool(one.pack) != search
    ]
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        keeps = [stack.enter_context(valkey()) for _ in range(2)]
        places = [
            {"RACEPROOF_EXPLORE_POSTGRES": server.database(), "RACEPROOF_EXPLORE_REDIS": keep.url} for keep in keeps
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
    parser.add_argument("--search", action="store_true", help="look for packs for those that name none")
    asked = parser.parse_args()
    survivors = 0
    for one in seen(asked.only, asked.search):
        survivors += one.survived
        print(one, flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
