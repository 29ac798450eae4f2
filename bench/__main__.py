"""`python -m bench`: measure ours beside its references, show a table, and write it down."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from bench import bulk, claims, concurrent, decisions, growth, peers, pgbench, report, single, watched
from bench.intake import compare as intake
from bench.machine import describe
from bench.queues import compare as queues
from bench.queues.ours import ours as ours_of_queues
from bench.result import Comparison, Result
from bench.scale import FULL, SHORT, SMOKE
from bench.world import World

_WIDTH_OF_A_LOG = 170


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    scale = SMOKE if options.smoke else SHORT if options.short else FULL
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_OF_A_LOG)
    with World(scale) as world:
        chosen = [one for one in _comparisons(world) if _wanted(one, options.only)]
        if options.list or not chosen:
            for one in chosen:
                console.print(one.name, highlight=False)
            return 0 if chosen else _complain(options.only)
        facts = describe(world)
        gc.collect()
        gc.freeze()  # what was imported: collecting garbage between rounds need not look at it
        for fact in facts:
            console.print(fact, highlight=False)
        results = _run(console, chosen)
    report.show(console, results)
    if scale is SMOKE:
        console.print("everything ran; figures of a smoke run mean nothing")
        return 0
    report.show_costs(console, results)
    if not options.only:
        command = "make bench" if scale is FULL else "make bench-short"
        report.write(results, command, facts, datetime.now(UTC))
        for path in (report.LATEST, report.PAGE):
            console.print(f"wrote {path.relative_to(report.ROOT)}", highlight=False)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench",
        description="Measure ours beside the raw drivers and what people use today, on servers that it starts itself. "
        "A whole run writes bench/latest.json and docs/bench.md. A goal that is not met is told, never an error.",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="about 7 minutes, with less precise figures and only the quickest of the other queues",
    )
    parser.add_argument("--smoke", action="store_true", help="only see that everything runs; writes nothing")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        default=[],
        help="only comparisons whose name has this text, whatever its case; may be repeated; writes nothing",
    )
    parser.add_argument("--list", action="store_true", help="only tell the names of the comparisons")
    return parser.parse_args(arguments)


def _comparisons(world: World) -> Iterator[Comparison]:
    for module in (single, watched, concurrent, pgbench, bulk, growth, claims, decisions, peers):
        yield from module.comparisons(world)
    yield from queues.comparisons(world, ours_of_queues)
    yield from intake.comparisons(world)


def _wanted(comparison: Comparison, only: Sequence[str]) -> bool:
    return not only or any(text.casefold() in comparison.name.casefold() for text in only)


def _complain(only: Sequence[str]) -> int:
    print(f"no comparison has {' or '.join(map(repr, only))} in its name; see --list", file=sys.stderr)
    return 2


def _run(console: Console, comparisons: Sequence[Comparison]) -> list[Result]:
    """Run them all in order; a bar on a terminal, a line for each elsewhere."""
    results: list[Result] = []
    columns = (
        SpinnerColumn(),
        MofNCompleteColumn(),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(comparisons))
        for comparison in comparisons:
            progress.update(task, description=comparison.name)
            found = asyncio.run(comparison.run())
            progress.advance(task)
            results += found
            if not console.is_terminal:
                for result in found:
                    ratio = "" if result.ratio is None else f"{result.ratio:.2f}  "
                    print(f"{ratio}{result.name}", flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
