"""Explore the packs: `python -m raceproof.testing.packs`; exit 1 if one fails, 3 if one shows nothing."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from raceproof.testing.explorer import Limits, Verdict
from raceproof.testing.explorer.ground import Ground
from raceproof.testing.explorer.on_sqlite import SqliteGround
from raceproof.testing.explorer.report import text
from raceproof.testing.packs import PACKS, Pack

FAILED, INCONCLUSIVE = 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the packs that were asked for, print one line for each, and say how it went."""
    asked = _parser().parse_args(arguments)
    worst = 0
    for pack in PACKS:
        wanted = asked.only in pack.name and (not asked.promise or asked.promise in pack.promises)
        if not wanted or asked.ground not in pack.grounds:
            continue
        verdict = pack.explore(_limits(pack, asked), _ground(asked.ground, pack))
        as_expected = bool(pack.known) and verdict.kind == "failed"
        _say(
            json.dumps({"pack": pack.name, "known": pack.known, **verdict.to_dict()}, default=str)
            if asked.json
            else _line(pack, verdict)
        )
        if verdict.kind == "failed" and not as_expected:
            worst = FAILED
            if not asked.json:
                _say(text(verdict))
            if asked.stop:
                break
        elif verdict.kind == "inconclusive" and worst != FAILED:
            worst = INCONCLUSIVE
    return worst


def _say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m raceproof.testing.packs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default="", help="packs whose name contains this text")
    parser.add_argument("--promise", default="", help="packs that are about this promise, as in P7")
    parser.add_argument("--seconds", type=float, help="how long each may take")
    parser.add_argument("--deviations", type=int, help="how far each is explored")
    parser.add_argument("--ground", choices=("sqlite", "postgres", "redis"), default="sqlite", help="where")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    return parser


def _limits(pack: Pack, asked: argparse.Namespace) -> Limits:
    changes = {name: getattr(asked, name) for name in ("seconds", "deviations")}
    return replace(pack.limits, **{name: value for name, value in changes.items() if value is not None})


def _ground(name: str, pack: Pack) -> Ground:
    """The store to explore on; the address of a server is in RACEPROOF_EXPLORE_POSTGRES or RACEPROOF_EXPLORE_REDIS."""
    sqlite = SqliteGround()
    if name == "sqlite":
        return sqlite
    address = os.environ.get(f"RACEPROOF_EXPLORE_{name.upper()}")
    if not address:
        raise SystemExit(f"--ground {name} needs the address of a server in RACEPROOF_EXPLORE_{name.upper()}")
    # only SQLite tells which spans of time its statements reckon with
    pack.explore(replace(pack.limits, deviations=1, seconds=2.0), sqlite)
    if name == "postgres":
        from raceproof.testing.explorer.on_postgres import PostgresGround

        return PostgresGround(address, sqlite.durations)
    from raceproof.testing.explorer.on_redis import RedisGround

    return RedisGround(address, sqlite.durations)


def _line(pack: Pack, verdict: Verdict) -> str:
    covered = verdict.covered
    said = f"{pack.name:26} {' '.join(pack.promises):24} {verdict.kind:12} {covered.exhausted} deviations"
    said += f"  {covered.schedules:6} schedules  {covered.states:6} states  {covered.seconds:6.2f} s"
    if pack.known:
        said += f"  known: {pack.known}"
    elif verdict.why:
        said += f"  {verdict.why}"
    return said


if __name__ == "__main__":
    sys.exit(main())
