"""The pages of docs/gallery: `python -m tools.generate_gallery` writes them, `--check` tells which are stale and fails.

What a page shows is the source of its exhibit, a failing schedule that is explored anew, and the certificate of the guarded
version. To explore that takes a while, so certificates are kept in a file, each with a hash of the code that it is for;
`--anew` explores all of them again, as one does after a change of the explorer or of the library.
"""

import hashlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from gallery.catalogue import EXHIBITS, FROM_ELSEWHERE, FROM_NOTES
from gallery.exhibit import Exhibit
from raceproof.testing.explorer import Explorer, Limits, Verdict, world_of
from raceproof.testing.explorer.action import Fate
from raceproof.testing.explorer.mermaid import sequence
from raceproof.testing.explorer.report import certificate, text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "gallery"
KEPT = FOLDER / "certificates.json"

_REGION = re.compile(r"^# gallery: (\w+)\n", re.MULTILINE)
_SECONDS = re.compile(r" in [\d.,]+ s\b")
Certificates = Mapping[str, Mapping[str, Any]]


def name_of(module: ModuleType) -> str:
    """What its page and its target are called."""
    return module.__name__.rpartition(".")[2]


def exhibit_of(module: ModuleType) -> Exhibit:
    exhibit: Exhibit = module.EXHIBIT
    return exhibit


def region(module: ModuleType, name: str) -> str:
    """The part of its source between `# gallery: NAME` and the next such line."""
    _, *found = _REGION.split(inspect.getsource(module))
    return dict(zip(found[::2], found[1::2], strict=True))[name].strip()


# What the explorer says


def smallest_failure(module: ModuleType) -> Verdict:
    """The naive version, explored until it fails."""
    return Explorer(world_of(module.naive), exhibit_of(module).search).explore()


def documented_failure(module: ModuleType) -> Verdict:
    """The naive version in the schedule that the exhibit names."""
    exhibit = exhibit_of(module)
    return Explorer(world_of(module.naive), exhibit.search).replay(exhibit.schedule)


def fingerprint(module: ModuleType) -> str:
    """Of everything that a certificate is for."""
    source = [
        region(module, "stage"),
        region(module, "guarded"),
        json.dumps(asdict(exhibit_of(module).limits)),
    ]
    return hashlib.sha256("\0".join(source).encode()).hexdigest()[:16]


def certified(module: ModuleType) -> dict[str, Any]:
    """The guarded version, explored until everything within its limits is tried."""
    patient = replace(exhibit_of(module).limits, seconds=900.0)
    verdict = Explorer(world_of(module.guarded), patient).explore()
    if not verdict.passed:
        raise SystemExit(f"{name_of(module)}: no certificate\n{text(verdict)}")
    print(
        f"{name_of(module)}: {verdict.covered.schedules:,} schedules in {verdict.covered.seconds:.1f} s",
        flush=True,
    )
    facts = [[name, _SECONDS.sub("", said)] for name, said in certificate(verdict)]
    return {"of": fingerprint(module), "schedules": verdict.covered.schedules, "facts": facts}


def kept() -> Certificates:
    """The certificates that were written last."""
    found: Certificates = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return found


def certificates(anew: bool = False) -> Certificates:
    """A certificate for every exhibit; what is kept and still fits is not explored again."""
    known = dict(kept())
    for module in EXHIBITS:
        name = name_of(module)
        if anew or known.get(name, {}).get("of") != fingerprint(module):
            known[name] = certified(module)
            KEPT.write_text(_listed_certificates(known), encoding="utf-8")  # each took its time
    return {name_of(module): known[name_of(module)] for module in EXHIBITS}


def _listed_certificates(known: Certificates) -> str:
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"


# Pages


def pages(known: Certificates) -> dict[Path, str]:
    """Every file of the folder, with what belongs in it."""
    found = {FOLDER / "README.md": _joined(_index(known))}
    for module in EXHIBITS:
        found[FOLDER / f"{name_of(module)}.md"] = _joined(_page(module, known[name_of(module)]))
    found[KEPT] = _listed_certificates(known)
    return found


def _joined(parts: Iterator[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _prose(paragraph: str) -> str:
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)


def _fence(language: str, content: str) -> str:
    return f"```{language}\n{content.strip(chr(10))}\n```"


def _page(module: ModuleType, kept_one: Mapping[str, Any]) -> Iterator[str]:
    exhibit, name = exhibit_of(module), name_of(module)
    yield "<!-- Written by `make docs` from the exhibit's module; change that. -->"
    yield f"# {exhibit.title}"
    yield _prose(exhibit.story)
    yield "## The design"
    yield _prose(f"It follows {exhibit.follows}")
    if exhibit.quoted:
        yield _fence("text", exhibit.quoted)
    yield _prose(f"What is right about it: {_lower(exhibit.right)}")
    if exhibit.holds is not None:
        yield _holds(module, exhibit.holds)
    yield "This is where it plays, and what must hold:"
    yield _fence("python", region(module, "stage"))
    yield "And this is the design:"
    yield _fence("python", region(module, "naive"))
    yield "## How it fails"
    yield _prose(_how(smallest_failure(module)))
    failure = documented_failure(module)
    yield _fence("mermaid", sequence(failure))
    yield "The same as a table, with what changes in the rows:"
    yield _fence("text", text(failure, f"gallery.{name}:naive"))
    yield _prose(f"**Why.** {exhibit.why}")
    if exhibit.also:
        yield "The other one:"
        yield _fence("sh", f"raceproof explore gallery.{name}:naive --replay '{exhibit.also}'")
    yield "## The same with raceproof"
    yield _prose(exhibit.answer)
    yield _fence("python", region(module, "guarded"))
    yield "No schedule within these limits breaks it:"
    yield _table(["tried", ""], kept_one["facts"])
    yield _fence("sh", f"raceproof explore gallery.{name}:guarded {_options(exhibit.limits)}".rstrip())
    yield "[All exhibits](README.md)"


def _lower(sentence: str) -> str:
    keeps = sentence.startswith(("A ", "I "))
    return sentence if keeps and sentence[2:3].isupper() else sentence[0].lower() + sentence[1:]


def _holds(module: ModuleType, limits: Limits) -> str:
    verdict = Explorer(world_of(module.naive), limits).explore()
    if verdict.covered.exhausted < limits.deviations or verdict.kind == "failed":
        raise SystemExit(f"{name_of(module)}: it does not hold as far as it says\n{text(verdict)}")
    faults = "" if any(limits.faults) else " without any fault"
    return (
        f"The explorer agrees: it holds in all schedules{faults} with up to {_counted(limits.deviations, 'deviation')}."
    )


def _how(verdict: Verdict) -> str:
    """What it takes, in a sentence."""
    deviations = verdict.covered.exhausted + 1
    if not deviations:
        return "It takes no bad luck at all: the undisturbed run fails."
    faults = [
        f"*{step.title}* {_SAID[step.fate]} (step {step.number})"
        for step in verdict.steps
        if step.fate is not Fate.DONE
    ]
    others = deviations - len(faults)
    said = [*faults, *([_ORDER[others]] if others else [])]
    return (
        f"It takes {_counted(deviations, 'deviation')} from the undisturbed run: {', and '.join(said)}. "
        f"No schedule with fewer fails."
    )


_SAID = {
    Fate.DIES_BEFORE: "dies just before an operation",
    Fate.DIES_AFTER: "dies just after an operation",
    Fate.FAILS: "cannot reach the other side",
    Fate.UNANSWERED: "gets no answer, although all was done",
    Fate.CANCELLED_BEFORE: "is cancelled just before an operation",
    Fate.CANCELLED_AFTER: "is cancelled just after an operation",
}
_ORDER = {
    1: "once another process comes first, or time passes, at a bad moment",
    2: "twice another process comes first, or time passes, at a bad moment",
    3: "three times another process comes first, or time passes, at a bad moment",
}


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _options(limits: Limits) -> str:
    usual = Limits()
    names = ("deviations", "crashes", "lost", "errors", "cancels")
    changed = [name for name in names if getattr(limits, name) != getattr(usual, name)]
    return " ".join([f"--{name} {getattr(limits, name)}" for name in changed] + [f"--seconds {limits.seconds:g}"])


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_INTRODUCTION = """\
Each of these programs looks right, and most of them do what they should in the usual order, which is the only one that a
test runs. But two processes that share a database have many orders: after every step of the one, the other may come first.
A process may also die between two steps, an answer may get lost on its way back, and a lease may run out while its holder
is paused. Nobody can think of all of these. A machine can try them.

That is what the explorer does. It runs a design on a store, in every order and with every fault within limits, and shows the
failing run that is closest to the undisturbed one. Every step that is not what would have happened anyway is a *deviation*:
another process comes first, time passes while somebody could act, or there is a fault. Then it does the same with a version
that uses raceproof, and says what it has tried without finding a failure.

Each page has the story, the design, the failing schedule as a diagram and as a table, the sentence that explains it, and
the guarded version with its certificate. All of it is code that runs: the pages are written from the modules in `gallery`,
and the tests hold every design to its schedule."""


def _index(known: Certificates) -> Iterator[str]:
    yield "<!-- Written by `make docs`; change tools/generate_gallery.py. -->"
    yield "# The gallery"
    yield _INTRODUCTION
    yield "## Five designs from field notes"
    yield _prose(
        "Each is played as the note has it, with the lines that it follows, and what is right about it is said too. "
        "The notes' PostgreSQL and Redis are SQLite here, one statement for one statement."
    )
    yield _listed(FROM_NOTES, known)
    yield "## Five bugs that many have had"
    yield _listed(FROM_ELSEWHERE, known)
    yield _prose(
        "A certificate is not a proof: it covers the processes, the steps and the number of deviations that it names, and "
        "nothing beyond them. Try your own: `raceproof explore your_module:scenario`."
    )


def _listed(modules: tuple[ModuleType, ...], known: Certificates) -> str:
    rows = []
    for module in modules:
        exhibit, name = exhibit_of(module), name_of(module)
        deviations = smallest_failure(module).covered.exhausted + 1
        rows.append(
            [
                f"[{exhibit.title}]({name}.md)",
                (inspect.getdoc(module) or "").partition(": ")[2].rstrip("."),
                _counted(deviations, "deviation") if deviations else "none needed",
                f"{known[name]['schedules']:,} schedules, none fails",
            ]
        )
    return _table(["what a user sees", "the flaw", "the naive one fails with", "the guarded one"], rows)


def main(*arguments: str) -> None:
    if "--check" in arguments:
        stale = [path for path, content in pages(kept()).items() if _read(path) != content]
        if stale:
            raise SystemExit("stale, run `make docs`: " + ", ".join(str(path.relative_to(ROOT)) for path in stale))
        return
    FOLDER.mkdir(exist_ok=True)
    for path, content in pages(certificates(anew="--anew" in arguments)).items():
        if _read(path) != content:
            path.write_text(content, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    main(*sys.argv[1:])
