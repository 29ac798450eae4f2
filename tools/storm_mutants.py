"""Plant each known bug in a copy of the source and see the storm find it: `make storm-mutants`.

A storm that stays green with a bug planted proves nothing. The bugs are in tests/apps/<app>/storm_mutants.toml; each names
the check that has to be violated. Before them, the storm runs once without a bug: there every check has to hold.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTS = "tests/apps/*/storm_mutants.toml"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug and the check of the storm that must notice it."""

    app: str
    name: str
    file: str
    find: str
    replace: str
    check: str
    args: str = ""

    def places(self, root: Path) -> int:
        """In how many places the edit applies; it has to be one."""
        return (root / self.file).read_text(encoding="utf-8").count(self.find)

    def edited(self, root: Path) -> str:
        return (root / self.file).read_text(encoding="utf-8").replace(self.find, self.replace)

    def apply(self, root: Path) -> None:
        (root / self.file).write_text(self.edited(root), encoding="utf-8")


def mutants(root: Path = ROOT) -> list[Mutant]:
    """All lists, in the order of their applications."""
    found = []
    for path in sorted(root.glob(LISTS)):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        found += [Mutant(app=path.parent.name, **entry) for entry in data["mutant"]]
    return found


@dataclass(frozen=True, slots=True)
class Run:
    """One storm: whether each check held, or why there is no answer."""

    checks: dict[str, bool]
    trouble: str = ""

    @property
    def violated(self) -> list[str]:
        return [name for name, holds in self.checks.items() if not holds]


def storm(app: str, args: str, root: Path, folder: Path, seconds: float) -> Run:
    """Run a short storm of the source below `root`; it is ended, with all it started, after so many seconds."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(root / part) for part in ("src", "apps")),
        "TMPDIR": str(folder),  # what a failed storm keeps is removed with it
    }
    command = [sys.executable, "-m", app, "storm", "--short", "-o", "json", *shlex.split(args)]
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return Run({}, f"did not end within {seconds:.0f} s")
        finally:
            _end(process)
        return read((folder / "out").read_text(), (folder / "err").read_text())


def read(out: str, err: str) -> Run:
    """The checks that a storm has printed as JSON."""
    try:
        checks = json.loads(out[out.index("{") :])["checks"]
        return Run({one["name"]: one["holds"] for one in checks})
    except (ValueError, KeyError, TypeError):
        return Run({}, f"no report: {(err or out)[-800:].strip()}")


def verdict(mutant: Mutant, run: Run) -> str:
    """`caught` if the check that the list names was violated."""
    if run.trouble:
        return f"NOT RUN: {run.trouble}"
    if mutant.check not in run.checks:
        return f"NOT RUN: the storm has no check {mutant.check!r}"
    if run.checks[mutant.check]:
        others = ", ".join(run.violated)
        return f"SURVIVED {mutant.check}" + (f", although these are violated: {others}" if others else "")
    return "caught"


def chosen(listed: Iterable[Mutant], app: str, only: str) -> list[Mutant]:
    return [one for one in listed if app in ("", one.app) and only.lower() in one.name.lower()]


def stale(listed: Iterable[Mutant], root: Path) -> list[str]:
    """Those that no longer apply."""
    return [one.name for one in listed if one.places(root) != 1]


def run_all(listed: Sequence[Mutant], root: Path, seconds: float, baseline: bool = True, tries: int = 2) -> int:
    """Print a line for each; returns the exit code. A storm depends on chance, so a survivor gets another try."""
    began = time.monotonic()
    if baseline and (red := [line for line in map(_clean_line, *_clean_runs(listed, root, seconds)) if line]):
        print("without a planted bug:", *red, sep="\n  ")
        return 1
    caught = 0
    for number, mutant in enumerate(listed, 1):
        ends = ""
        for attempt in range(1, tries + 1):
            since = time.monotonic()
            ends = verdict(mutant, _planted(mutant, root, seconds))
            took = time.monotonic() - since
            again = attempt < tries and ends != "caught"
            note = f"{ends}, again" if again else ends
            print(f"{number:3}/{len(listed)}  {mutant.name} [{mutant.check}]: {note} ({took:.0f} s)", flush=True)
            if not again:
                break
        caught += ends == "caught"
    print(f"{caught} of {len(listed)} caught, {(time.monotonic() - began) / 60:.0f} minutes")
    return 0 if caught == len(listed) else 1


def _clean_runs(listed: Sequence[Mutant], root: Path, seconds: float) -> tuple[list[tuple[str, str]], list[Run]]:
    profiles = list(dict.fromkeys((one.app, one.args) for one in listed))
    runs = []
    for app, args in profiles:
        with tempfile.TemporaryDirectory(prefix="m-") as name:
            _copy(root, Path(name))
            runs.append(storm(app, args, Path(name), Path(name), seconds))
        print(f"  -    {app} {args} without a planted bug: {_words(runs[-1])}", flush=True)
    return profiles, runs


def _clean_line(profile: tuple[str, str], run: Run) -> str:
    return "" if not run.trouble and not run.violated else f"{' '.join(profile)}: {_words(run)}"


def _words(run: Run) -> str:
    return run.trouble or (f"VIOLATED {', '.join(run.violated)}" if run.violated else "all checks hold")


def _planted(mutant: Mutant, root: Path, seconds: float) -> Run:
    with tempfile.TemporaryDirectory(prefix="m-") as name:
        _copy(root, Path(name))
        mutant.apply(Path(name))
        return storm(mutant.app, mutant.args, Path(name), Path(name), seconds)


def _copy(root: Path, target: Path) -> None:
    target.chmod(0o755)  # PostgreSQL runs as another user where we are root, and has to enter
    for part in ("src", "apps"):
        shutil.copytree(root / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The storm and whatever it has left running: all of them are in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--app", default="", help="only the bugs of this application")
    parser.add_argument("--only", default="", help="only bugs whose name contains this text")
    parser.add_argument("--list", action="store_true", help="print the list and run nothing")
    parser.add_argument("--seconds", type=float, default=600.0, help="the longest that a storm may take")
    parser.add_argument("--tries", type=int, default=2, help="how often a storm may miss a bug but the last time")
    parser.add_argument("--no-baseline", action="store_true", help="skip the storms without a planted bug")
    asked = parser.parse_args()
    listed = chosen(mutants(), asked.app, asked.only)
    if not listed:
        raise SystemExit("no planted bug matches")
    if asked.list:
        print(*(f"{one.name} [{one.check}] {one.file}" for one in listed), sep="\n")
        return 0
    if gone := stale(listed, ROOT):
        raise SystemExit("these do not apply in exactly one place:\n" + "\n".join(gone))
    return run_all(listed, ROOT, asked.seconds, not asked.no_baseline, asked.tries)


if __name__ == "__main__":
    sys.exit(main())
