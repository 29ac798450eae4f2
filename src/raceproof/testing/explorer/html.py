"""Verdicts as one page: nothing from elsewhere, light and dark by the reader's wish, a table on a desk and cards on a phone.

What comes from rows, answers and names is text, never markup; the page has no script, and forbids any.
"""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.changes import plain
from raceproof.testing.explorer.report import certificate, headline, replay_command
from raceproof.testing.explorer.story import NOT_DONE, Scene, scenes
from raceproof.testing.explorer.verdict import Verdict

_MARKS = {"passed": "✓", "failed": "✗", "inconclusive": "?"}
_COLOURS = 6
_LEGEND = """<p class="legend">One step on a line, from top to bottom; a column for each process. → is what a process was
told. <b class="effect">In bold</b>: it happens outside of the store, and cannot be undone. <b class="mark">✗</b>: a fault
that was put there on purpose. <b>rows</b>: what the step has changed in them.</p>"""


def page(verdicts: Sequence[Verdict], targets: Sequence[str] = ()) -> str:
    """The page; `targets` are what `raceproof explore` was asked for, one for each verdict."""
    style = files("raceproof.testing.explorer").joinpath("page.css").read_text(encoding="utf-8")
    names = targets or [f"MODULE:{verdict.scenario}" for verdict in verdicts]
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
        '<meta name="color-scheme" content="light dark">',
        f"<title>{_text(_title(verdicts))}</title>",
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>",
        *(_index(verdicts) if len(verdicts) > 1 else ()),
    ]
    for number, (verdict, target) in enumerate(zip(verdicts, names, strict=True), 1):
        lines += _section(number, verdict, target)
    return "\n".join([*lines, "</main>\n</body>\n</html>"]) + "\n"


def _title(verdicts: Sequence[Verdict]) -> str:
    if len(verdicts) == 1:
        return f"{verdicts[0].scenario}: {verdicts[0].kind}"
    return f"{sum(verdict.passed for verdict in verdicts)} of {len(verdicts)} scenarios passed"


def _index(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield f"<h1>{_text(_title(verdicts))}</h1>\n<ul class=index>"
    for number, verdict in enumerate(verdicts, 1):
        yield f'<li><a href="#v{number}">{_text(verdict.scenario)} {_badge(verdict)}</a></li>'
    yield "</ul>"


def _section(number: int, verdict: Verdict, target: str) -> Iterator[str]:
    yield f'<section id="v{number}">\n<h2>{_text(verdict.scenario)} {_badge(verdict)}</h2>'
    yield f"<p>{_text(headline(verdict))}</p>"
    if verdict.why:
        yield f'<p class="why {verdict.kind}">{_text(verdict.why)}</p>'
    if verdict.steps:
        yield from _table(verdict)
        yield _LEGEND
    if verdict.schedule:
        yield f"<h3>See it again</h3>\n<pre><code>{_text(replay_command(verdict, target))}</code></pre>"
    else:
        yield "<dl>"
        for name, said in certificate(verdict):
            yield f"<dt>{_text(name)}</dt><dd>{_text(said)}</dd>"
        yield "</dl>"
    yield "</section>"


def _badge(verdict: Verdict) -> str:
    return f'<span class="badge {verdict.kind}">{_MARKS[verdict.kind]} {verdict.kind}</span>'


# the steps


def _table(verdict: Verdict) -> Iterator[str]:
    names = list(verdict.processes)
    yield '<table>\n<thead><tr><th scope="col">step</th><th scope="col">time</th>'
    for place, name in enumerate(names):
        yield f'<th scope="col" class="p{place % _COLOURS}">{_text(name)}</th>'
    yield '<th scope="col">rows</th></tr></thead>\n<tbody>'
    for scene in scenes(verdict):
        yield from _row(scene, names)
    yield "</tbody>\n</table>"


def _row(scene: Scene, names: list[str]) -> Iterator[str]:
    kind = "pause" if scene.process is None else "fault" if scene.fault else "step"
    yield f'<tr class="{kind}"><th scope="row">{scene.numbers}</th><td class="time">{scene.clock:g} s</td>'
    if scene.process is None:
        yield f'<td class="between" colspan="{len(names)}">{_text(scene.operation)}</td>'
    else:
        place = names.index(scene.process)
        yield "<td></td>" * place
        yield f'<td class="does p{place % _COLOURS}" data-process="{_text(scene.process)}">{"".join(_does(scene))}</td>'
        yield "<td></td>" * (len(names) - place - 1)
    changes = "".join(f"<div>{_text(one)}</div>" for one in scene.changes)
    yield f'<td class="rows">{changes}</td></tr>'


def _does(scene: Scene) -> Iterator[str]:
    if scene.start:
        yield f'<div class="start">{scene.start}</div>'
    fault = f'<div class="mark">{_text(scene.fault)}</div>' if scene.fault else ""
    kind = "effect" if scene.effect else "operation"
    operation = f'<code class="{kind}">{_text(scene.operation)}</code>' if scene.operation else ""
    never = scene.fate in NOT_DONE and scene.fate is not Fate.FAILS
    yield from (fault, f"<s>{operation}</s>") if never else (operation, fault)
    yield from (f'<div class="answer">→ {_text(answer)}</div>' for answer in scene.answers)


def _text(text: str) -> str:
    return escape(plain(text), quote=True)
