"""The generated parts of README.md and docs/: `make docs` writes them, `--check` lists stale pages and fails.

A part stands between `<!-- generated: KIND WORDS -->` and `<!-- end -->`; its kind is one of the functions in `KINDS`.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

from raceproof.declare.lifecycle import Lifecycle
from raceproof.declare.spec import Spec
from raceproof.inbox import Inbox
from raceproof.leases import Lease
from raceproof.ops.diagram import mermaid
from raceproof.schema import Dialect, backfill
from raceproof.schema import ddl as ddl_of
from tests.promises.packs import PACKS
from tools import core_page, mutate

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"

_PART = re.compile(r"^<!-- generated: (.+?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_REGION = re.compile(r"^\s*(?:#|--) docs: (\w+)\n", re.MULTILINE)


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "apps").glob("*/README.md")),
    ]


def fill(text: str) -> str:
    """A page with its generated parts rewritten."""
    return _PART.sub(lambda part: f"<!-- generated: {part[1]} -->\n{_render(part[1])}\n<!-- end -->", text)


def parts(text: str) -> list[str]:
    """The generated parts of a page, as its markers name them."""
    return _PART.findall(text)


def _render(what: str) -> str:
    kind, *words = what.split()
    return KINDS[kind](*words).strip("\n")


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


# Examples


def example(name: str, region: str = "") -> str:
    """A file of docs/examples, or the part of it between `# docs: REGION` and the next such line."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    if region:
        _, *found = _REGION.split(text)
        text = dedent(dict(zip(found[::2], found[1::2], strict=True))[region])
    language = "sql" if text.startswith("CREATE") else {".py": "python"}.get(Path(name).suffix, "toml")
    return _fence(language, _REGION.sub("", text))


@cache
def printed(name: str) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return done.stdout


def output(name: str) -> str:
    return _fence("text", printed(name))


def _command() -> Spec[Any]:
    """The lifecycle of the examples, as its TOML form declares it."""
    return Lifecycle.from_toml(EXAMPLES / "command.toml")


# DDL, mutations and diagrams


def ddl(what: str, dialect: Dialect) -> str:
    made: dict[str, Callable[[], list[str]]] = {
        "history": lambda: ddl_of(_command(), dialect=dialect, only="tables"),
        "guards": lambda: ddl_of(_command(), dialect=dialect, only="guards"),
        "claims": lambda: ddl_of(_declared("jobs").Job.work, dialect=dialect, only="indexes"),
        "backfill": lambda: backfill(_declared("jobs").Job, dialect=dialect),
        "attempts": lambda: ddl_of(_declared("logins").logins, dialect=dialect, only="indexes"),
        "leases": lambda: ddl_of(Lease("any"), dialect=dialect),
        "inbox": lambda: ddl_of(Inbox(), dialect=dialect),
    }
    return _fence("sql", "\n".join(made[what]()))


def _declared(module: str) -> Any:
    """An example's module, for what it declares."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return import_module(module)


def mutations(promise: str) -> str:
    """How many edits break a promise, and the files that list them, each with the test that must fail."""
    found = Counter(one.file.split("/")[0] for one in mutate.mutations() if one.promise == promise)
    if not found:
        return "No mutation breaks it yet."
    files = (f"[{package}](../src/raceproof/{package}/mutations.toml) ({number})" for package, number in found.items())
    return f"Broken on purpose by `make mutate`, and a test must fail each time: {', '.join(files)}."


def diagram(declared: str = "") -> str:
    """The lifecycle of the examples, or the one of an application, named as `module:class`."""
    if not declared:
        return _fence("mermaid", mermaid(_command()))
    module, _, name = declared.partition(":")
    return _fence("mermaid", mermaid(getattr(import_module(module), name).spec))


# The command line, and the promise packs


def cli(*command: str) -> str:
    """The help of the command line, or of one of its commands."""
    done = subprocess.run(
        [sys.executable, "-c", "from raceproof.ops.cli import main; main()", *command, "--help"],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return _fence("text", done.stdout.replace("Usage: -c", "Usage: raceproof"))


def packs(promise: str) -> str:
    """The scenarios that are explored for a promise."""
    found = [f"`{pack.name}`" for pack in PACKS if promise in pack.promises]
    return f"Explored by `make explore`: {', '.join(found)}; results: [certificates](certificates.md)."


KINDS: dict[str, Callable[..., str]] = {
    "cli": cli,
    "core": core_page.page,
    "ddl": ddl,
    "diagram": diagram,
    "example": example,
    "mutations": mutations,
    "output": output,
    "packs": packs,
}


def stale() -> Iterator[tuple[Path, str]]:
    """Stale pages, with their new text."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = fill(text)
        if filled != text:
            yield page, filled


def main(arguments: list[str]) -> int:
    found = list(stale())
    for page, text in found:
        print(("stale: " if arguments == ["--check"] else "wrote ") + str(page.relative_to(ROOT)))
        if arguments != ["--check"]:
            page.write_text(text, encoding="utf-8")
    return int(bool(found) and arguments == ["--check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
