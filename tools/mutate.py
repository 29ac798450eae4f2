"""Break each guard on purpose and see a test turn red: `make mutate`.

A mutation that no test notices is a guard that nothing proves. Each is applied to a copy of the source, so that a run can
be interrupted at any time; the test named beside it has to pass on the copy before the edit and to fail after it.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "raceproof"


class NotRun(Exception):
    """The test could not even be run, so that it proves nothing."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One guard, how to break it, and the test that must notice."""

    name: str
    promise: str
    file: str
    find: str
    replace: str
    test: str
    pack: str = ""
    """The promise pack that notices it too; most guards are of something that no schedule of a pack does."""

    def apply(self, package: Path) -> None:
        path = package / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.find, self.replace), encoding="utf-8")

    def places(self, package: Path) -> int:
        """In how many places the edit would apply; exactly one is right."""
        return (package / self.file).read_text(encoding="utf-8").count(self.find)


def mutations() -> list[Mutation]:
    """All of them: each package has its own, in mutations.toml beside what they break."""
    found = []
    for path in sorted(PACKAGE.glob("*/mutations.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]:
            found.append(Mutation(**entry | {"file": f"{path.parent.name}/{entry['file']}"}))
    return found


def passes(test: str, package: Path) -> bool:
    """Run a test against a copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--no-header",
        "-p",
        "no:cacheprovider",
        *shlex.split(test),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise NotRun(f"{test}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def end_of(mutation: Mutation, clean: Path) -> str:
    """What became of a mutation: caught if the test turns red with the guard broken."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "raceproof"
        shutil.copytree(clean, copy)
        mutation.apply(copy)
        try:
            return "SURVIVED" if passes(mutation.test, copy) else "caught"
        except NotRun as error:
            return f"NOT RUN: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only mutations whose name or file contains this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many tests run at once")
    asked = parser.parse_args()
    chosen = [one for one in mutations() if asked.only in f"{one.name} {one.file}"]
    if stale := [one.name for one in chosen if one.places(PACKAGE) != 1]:
        raise SystemExit("not in exactly one place of the source:\n" + "\n".join(stale))
    caught = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        clean = Path(folder) / "raceproof"
        shutil.copytree(PACKAGE, clean, ignore=shutil.ignore_patterns("__pycache__"))
        tests = list(dict.fromkeys(one.test for one in chosen))
        print(f"{len(tests)} tests without a mutation", flush=True)
        green = dict(zip(tests, pool.map(partial(passes, package=clean), tests), strict=True))
        if red := [test for test in tests if not green[test]]:
            raise SystemExit("red before any mutation:\n" + "\n".join(red))
        ends = pool.map(partial(end_of, clean=clean), chosen)
        for number, (mutation, end) in enumerate(zip(chosen, ends, strict=True), 1):
            print(f"{number:3}/{len(chosen)}  {mutation.promise:4} {mutation.name}: {end}", flush=True)
            caught += end == "caught"
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
