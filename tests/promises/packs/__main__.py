"""Explore the packs: `python -m tests.promises.packs`; exit 1 if one fails, 3 if one shows nothing."""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from raceproof.testing.explorer import Limits, Verdict
from raceproof.testing.explorer.report import text
from tests.promises.packs import PACKS, Pack
from tests.promises.packs.grounds import opened

FAILED, INCONCLUSIVE = 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the packs that were asked for, print one line for each, and say how it went."""
    asked = _parser().parse_args(arguments)
    worst = 0
    wanted = [pack for pack in PACKS if asked.ground in pack.grounds and _is_wanted(pack, asked)]
    with opened(asked.ground) as ground_for:
        for pack in wanted:
            with closing(ground_for(pack)) as ground:
                verdict = (
                    pack.replay(asked.replay, ground, strict=False)
                    if asked.replay
                    else pack.explore(_limits(pack, asked), ground)
                )
            _say(_data(pack, verdict) if asked.json else _line(pack, verdict))
            if verdict.kind == "inconclusive":
                worst = worst or INCONCLUSIVE
            elif verdict.kind == "failed":
                worst = FAILED
                if not asked.json:
                    _say(text(verdict))
                if asked.stop:
                    break
    return worst


def _say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.promises.packs", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="packs whose name contains this text")
    parser.add_argument("--promise", default="", help="packs that are about this promise, as in P7")
    parser.add_argument("--seconds", type=float, help="how long each may take")
    parser.add_argument("--deviations", type=int, help="how far each is explored")
    parser.add_argument(
        "--ground",
        choices=("sqlite", "postgres", "redis"),
        default="sqlite",
        help="where; a server is started",
    )
    parser.add_argument("--replay", help="run this schedule only, without steps that are not possible")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each")
    return parser


def _is_wanted(pack: Pack, asked: argparse.Namespace) -> bool:
    return asked.only in pack.name and (not asked.promise or asked.promise in pack.promises)


def _limits(pack: Pack, asked: argparse.Namespace) -> Limits:
    changes = {name: getattr(asked, name) for name in ("seconds", "deviations")}
    return replace(pack.limits, **{name: value for name, value in changes.items() if value is not None})


def _data(pack: Pack, verdict: Verdict) -> str:
    return json.dumps({"pack": pack.name, "promises": pack.promises, **verdict.to_dict()}, default=str)


def _line(pack: Pack, verdict: Verdict) -> str:
    covered = verdict.covered
    said = f"{pack.name:26} {' '.join(pack.promises):24} {verdict.kind:12} {covered.exhausted} deviations"
    said += f"  {covered.schedules:6} schedules  {covered.states:6} states  {covered.crash_points:3} crash points"
    said += f"  {covered.seconds:6.2f} s"
    return f"{said}  {verdict.why}" if verdict.why else said


if __name__ == "__main__":
    sys.exit(main())
