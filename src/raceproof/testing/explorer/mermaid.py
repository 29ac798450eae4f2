"""A schedule as a Mermaid sequence diagram: the processes, the store, and what is outside of it."""

from collections.abc import Iterator

from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.changes import plain
from raceproof.testing.explorer.report import headline, wrapped
from raceproof.testing.explorer.story import NOT_DONE, Scene, scenes
from raceproof.testing.explorer.verdict import Verdict

_SPECIAL = str.maketrans({one: f"#{ord(one)};" for one in '#;<>"&%$`\\{}'})
_LINE = 44
_LOCAL = ("", "wakes up")


def sequence(verdict: Verdict) -> str:
    """The steps of a verdict; one that has none, as a certificate, is a note."""
    return "\n".join(["sequenceDiagram", *(f"    {line}" for line in _lines(verdict))]) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    told = scenes(verdict)
    processes = {name: f"P{number}" for number, name in enumerate(verdict.processes, 1)}
    outside = dict.fromkeys(scene.effect for scene in told if scene.effect)
    effects = {name: f"E{number}" for number, name in enumerate(outside, 1)}
    for name, short in processes.items():
        yield f"participant {short} as {_safe(name)}"
    yield "participant Store"
    for name, short in effects.items():
        yield f"participant {short} as {_safe(name)}"
    everybody = f"P1,{'Store' if not effects else f'E{len(effects)}'}"
    for scene in told:
        if scene.process is None:
            yield f"Note over {everybody}: {_safe(scene.operation, *scene.changes)}"
        else:
            yield from _scene(scene, processes[scene.process], effects.get(scene.effect or "", "Store"))
    yield f"Note over {everybody}: {_safe(verdict.why or f'{verdict.scenario} {verdict.kind}: {headline(verdict)}')}"


def _scene(scene: Scene, process: str, other: str) -> Iterator[str]:
    if scene.start:
        yield f"Note over {process}: {scene.start}"
    operation = _safe(f"{scene.numbers} {scene.operation}")
    if scene.fate in NOT_DONE and scene.fate is not Fate.FAILS:
        yield f"Note over {process}: {_safe(scene.fault, scene.operation)}"
        operation = ""
    elif scene.operation in _LOCAL:
        if scene.operation:
            yield f"Note over {process}: {_safe(scene.operation)}"
    else:
        yield f"{process}{'-x' if scene.fate is Fate.FAILS else '->>'}{other}: {operation}"
    if scene.changes and operation:
        yield f"Note over Store: {_safe(*scene.changes)}"
    if scene.fate is Fate.UNANSWERED:
        yield f"{other}--x{process}: ✗ the answer is lost"
    elif scene.fault and operation:
        yield f"Note over {process}: {scene.fault}"
    for answer in scene.answers:
        yield f"{other}-->>{process}: {_safe(answer)}"


def _safe(*texts: str) -> str:
    """Texts in lines that Mermaid takes as text: what it could read as its own language is written as a number."""
    lines = [line.strip() for text in texts for line in wrapped(plain(text), _LINE)]
    return "<br/>".join(line.translate(_SPECIAL) for line in lines)
