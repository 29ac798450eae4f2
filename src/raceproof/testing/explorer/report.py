"""A verdict as text for people: a table with a column for each process, and why it failed; or the certificate.

Plain text without anything from elsewhere, so that a test can fail with it.
"""

import shlex
import unicodedata
from collections.abc import Iterator, Sequence

from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.changes import plain
from raceproof.testing.explorer.story import NOT_DONE, Scene, scenes
from raceproof.testing.explorer.verdict import Verdict

WIDTH = 120
_NARROWEST = 14
_GAP = "  "


def text(verdict: Verdict, target: str = "", width: int = WIDTH) -> str:
    """The verdict in lines of at most `width`; `target` is what `raceproof explore` was asked for, if it was."""
    return "\n".join(line.rstrip() for line in _lines(verdict, target, width))


def _lines(verdict: Verdict, target: str, width: int) -> Iterator[str]:
    yield from wrapped(f"{plain(verdict.scenario)} {verdict.kind.upper()}: {headline(verdict)}", width)
    if verdict.steps:
        yield ""
        yield from _table(verdict, width)
    yield ""
    match verdict.kind:
        case "failed":
            yield from _labelled("why", plain(verdict.why), width)
        case "inconclusive":
            for one in verdict.why.split("; "):
                yield from _labelled("missing", plain(one), width)
            yield ""
    if verdict.schedule:
        # one line however long it is, to be copied
        yield f"replay  {replay_command(verdict, target)}"
    else:
        facts = certificate(verdict)
        space = max(len(name) for name, _ in facts)
        yield from (f"  {name:<{space}}  {said}" for name, said in facts)


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    covered = verdict.covered
    if is_replay(verdict):
        return "what must hold does not, in this schedule" if verdict.why else "what must hold holds in this schedule"
    tried = f"{_counted(covered.schedules, 'schedule')} in {_seconds(verdict)}"
    if verdict.kind == "passed":
        return f"no schedule with up to {_counted(covered.exhausted, 'deviation')} breaks it"
    if verdict.kind == "inconclusive":
        return f"{tried} show nothing yet"
    if covered.random:
        return f"found after {tried}, at random; a smaller schedule may fail too"
    if covered.exhausted < 0:
        return "even the undisturbed run fails"
    deviations = _counted(covered.exhausted + 1, "deviation")
    return f"found after {tried}, {deviations} from the undisturbed run; none with fewer fails"


def is_replay(verdict: Verdict) -> bool:
    """Whether one schedule was run, and nothing searched."""
    return bool(verdict.schedule) and not verdict.covered.seconds


def certificate(verdict: Verdict) -> list[tuple[str, str]]:
    """What was exhausted, or tried: name and figure."""
    covered, limits = verdict.covered, verdict.limits
    operations = len(covered.operations)

    def at(*fates: Fate) -> int:
        return len(set[tuple[str, str]]().union(*(covered.points.get(fate, set()) for fate in fates)))

    before, after = at(Fate.DIES_BEFORE), at(Fate.DIES_AFTER)
    facts = [
        (
            "schedules",
            f"{covered.schedules:,} in {_seconds(verdict)}, the longest of {_counted(covered.longest, 'step')}",
        ),
        ("states", f"{covered.states:,}, each told apart by its rows, its clock and what every process has seen"),
        ("deviations", f"all schedules with up to {covered.exhausted}" if covered.exhausted >= 0 else "none exhausted"),
        (
            "crash points",
            f"{before + after:,}: just before {before} and just after {after} of {_counted(operations, 'operation')}, "
            f"up to {limits.crashes} in a run",
        ),
    ]
    for name, limit, fates in (
        ("lost acknowledgements", limits.lost, (Fate.UNANSWERED,)),
        ("errors", limits.errors, (Fate.FAILS,)),
        ("cancellations", limits.cancels, (Fate.CANCELLED_BEFORE, Fate.CANCELLED_AFTER)),
    ):
        facts.append((name, f"at {_counted(at(*fates), 'operation')}, up to {limit} in a run"))
    facts.append(("expiries", f"time jumped ahead {_counted(covered.expiries, 'time')} while somebody could still act"))
    if covered.random:
        facts.append(("at random", f"{_counted(covered.random, 'schedule')} beyond that"))
    if covered.reached:
        facts.append(("reached", ", ".join(plain(name) for name in sorted(covered.reached))))
    facts.append(("on", verdict.ground))
    return facts


def replay_command(verdict: Verdict, target: str = "") -> str:
    """What to type to see a schedule again."""
    wanted = shlex.quote(plain(target or f"MODULE:{verdict.scenario}"))
    return f"raceproof explore {wanted} --replay {shlex.quote(plain(verdict.schedule))}"


# the table


def _table(verdict: Verdict, width: int) -> Iterator[str]:
    told = scenes(verdict)
    names = [plain(name) for name in verdict.processes]
    rows = [_cells(scene, list(verdict.processes)) for scene in told]
    header = [["step"], ["time"], *([name] for name in names), ["rows"]]
    widths = _widths([header, *rows], width)
    yield _GAP.join(_padded(cell[0], size) for cell, size in zip(header, widths, strict=True))
    yield _GAP.join("─" * size for size in widths)
    inner = sum(widths[2:-1]) + len(_GAP) * (len(names) - 1)
    for scene, cells in zip(told, rows, strict=True):
        if scene.process is None:
            middle = f" {scene.operation} ".center(inner, "·")
            yield from _row([*cells[:2], [middle], cells[-1]], [*widths[:2], inner, widths[-1]])
        else:
            yield from _row(cells, widths)


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """The lines of one step: every cell wrapped to its column."""
    columns = [
        [line for part in cell for line in wrapped(part, size)] for cell, size in zip(cells, widths, strict=True)
    ]
    for number in range(max(map(len, columns))):
        yield _GAP.join(
            _padded(column[number] if number < len(column) else "", size)
            for column, size in zip(columns, widths, strict=True)
        )


def _cells(scene: Scene, processes: list[str]) -> list[list[str]]:
    cells: list[list[str]] = [[] for _ in processes]
    if scene.process is not None:
        cells[processes.index(scene.process)] = lines_of(scene)
    return [[scene.numbers], [f"{scene.clock:g} s"], *cells, list(scene.changes)]


def lines_of(scene: Scene) -> list[str]:
    """What a process does in one step, in the order in which it happens."""
    start = [f"({scene.start})"] if scene.start else []
    operation = [scene.operation] if scene.operation else []
    fault = [scene.fault] if scene.fault else []
    if scene.fate in NOT_DONE and scene.fate is not Fate.FAILS:
        operation, fault = fault, operation  # it never came to the operation
    return [*start, *operation, *fault, *(f"→ {answer}" for answer in scene.answers)]


def _widths(rows: Sequence[Sequence[Sequence[str]]], width: int) -> list[int]:
    """As wide as the longest line in them needs; if that is too much, the widest columns give way."""
    widths = [
        max(max((_size(part) for part in row[column]), default=0) for row in rows) for column in range(len(rows[0]))
    ]
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


# lines


def wrapped(line: str, width: int) -> list[str]:
    """A line in parts that fit, cut at spaces where there are any; what goes on is indented."""
    lines: list[str] = []
    indent = ""
    while _size(line) > width:
        fits = _fitting(line, width)
        cut = line.rfind(" ", len(indent) + 1, fits + 1)
        if cut <= len(indent):
            cut = fits
        lines.append(line[:cut])
        indent = "  " if width > _NARROWEST else ""
        line = indent + line[cut:].lstrip()
    return [*lines, line]


def _fitting(line: str, width: int) -> int:
    """How many characters of a line fit."""
    used = 0
    for place, one in enumerate(line):
        used += _size(one)
        if used > width:
            return max(place, 3)
    return len(line)


def _size(line: str) -> int:
    """How many columns it takes in a terminal."""
    if line.isascii():
        return len(line)
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in line)


def _padded(line: str, size: int) -> str:
    return line + " " * (size - _size(line))


def _labelled(name: str, said: str, width: int) -> Iterator[str]:
    label = f"{name:<6}  "
    for number, line in enumerate(wrapped(said, width - len(label))):
        yield (label if number == 0 else " " * len(label)) + line.strip()


def _seconds(verdict: Verdict) -> str:
    return f"{max(verdict.covered.seconds, 0.01):.2f} s"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
