"""Break each guard on purpose and see a promise pack fail: which one, after how long, and by which schedule.

`python tools/explore_mutants.py [--only TEXT] [--seconds 10]`. A mutation that no pack notices within that time is a hole in
the packs; the ones that packs cannot notice are named here, with the reason.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from raceproof import CallError
from raceproof.testing.packs import PACKS
from tools.mutate import PACKAGE, Mutation, mutations

BEYOND = {
    "stores/": "a driver of its own; the explorer is one itself",
    "guard/": "a trigger against raw SQL, which no pack writes",
    "declaration.py": "a declaration that cannot work does not import, so there is nothing to run",
    "leader/advisory.py": "a session lock of PostgreSQL",
    "A leader that has stepped down goes on": "a Leader also cancels its tasks then; only the machine alone shows it",
}
"""What packs on SQLite cannot notice: the file or name of a mutation, and why."""


def is_about_sqlite(mutation: Mutation) -> bool:
    """Whether the mutated code runs on SQLite."""
    others = ("Redis:", "PostgreSQL:")
    return (
        "postgres" not in mutation.file
        and "redis" not in mutation.file
        and not mutation.name.startswith(others)
    )


def beyond(mutation: Mutation) -> str | None:
    """Why no pack can notice it, if so."""
    for what, why in BEYOND.items():
        if mutation.name == what or mutation.file.startswith(what):
            return why
    return None


def caught(mutation: Mutation, folder: Path, seconds: float) -> dict[str, object] | None:
    """The first pack that fails on a copy with the guard broken: those about the same promise first."""
    copy = folder / "raceproof"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    mutation.apply(copy)
    for about, deviations in ((True, 1), (True, 2), (False, 1), (False, 2), (True, 3)):
        command = [sys.executable, "-m", "raceproof.testing.packs", "--stop", "--json"]
        command += ["--seconds", str(seconds), "--deviations", str(deviations)]
        command += ["--promise", mutation.promise] if about else []
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        failed = [one for one in found if one["verdict"] == "failed" and not one["known"]]
        if failed:
            pack = str(failed[-1]["pack"])
            if not is_sound(pack, str(failed[-1]["schedule"])):
                raise SystemExit(f"red before any mutation: {pack}")
            return dict(failed[-1])
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"{mutation.name}: the packs could not be run\n{done.stderr[-2000:]}")
    return None


def is_sound(pack: str, schedule: str) -> bool:
    """Whether the schedule that fails with the guard broken is harmless without; one that is not possible then is."""
    found = next(one for one in PACKS if one.name == pack)
    try:
        return found.replay(schedule).kind != "failed"
    except CallError:
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only mutations whose name or file contains this text")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each pack may take")
    asked = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory() as temporary:
        for mutation in mutations():
            if asked.only not in f"{mutation.name} {mutation.file}" or not is_about_sqlite(mutation):
                continue
            why = beyond(mutation)
            found = None if why else caught(mutation, Path(temporary), asked.seconds)
            survivors += found is None and why is None
            print(_line(mutation, found, why), flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0


def _line(mutation: Mutation, found: dict[str, object] | None, why: str | None) -> str:
    name = f"{mutation.promise:4} {mutation.name}"
    if why is not None:
        return f"beyond    {name}: {why}"
    if found is None:
        return f"SURVIVED  {name}"
    covered = found["covered"]
    assert isinstance(covered, dict)
    how = f"{found['pack']}, {covered['seconds']:.2f} s: {found['schedule']}"
    return f"caught    {name}\n          {how}\n          {found['why']}"


if __name__ == "__main__":
    sys.exit(main())
