"""The generated parts of README.md and docs/: `make docs` writes them, `--check` tells which are stale and fails.

A part stands between `<!-- generated: KIND WORDS -->` and `<!-- end -->`; its kind is one of the functions in `KINDS`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from raceproof.cli.statements import Shown, statements_of
from raceproof.diagram import mermaid
from raceproof.guard import guard_ddl
from raceproof.lifecycle import Lifecycle
from raceproof.moves.redis import SCRIPT
from raceproof.schema import history_ddl
from raceproof.schema.history import Dialect
from raceproof.spec import Spec
from tools import mutate

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"

_PART = re.compile(r"^<!-- generated: (.+?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_REGION = re.compile(r"^\s*(?:#|--) docs: (\w+)\n", re.MULTILINE)


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fill(text: str) -> str:
    """A page with its generated parts written anew."""
    return _PART.sub(lambda part: f"<!-- generated: {part[1]} -->\n{_render(part[1])}\n<!-- end -->", text)


def parts(text: str) -> list[str]:
    """What the page has generated, as its markers say it."""
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


# Statements


def statements(store: str, *names: str) -> str:
    """What one call of `Command.ack` sends to a store, as `raceproof sql --statements` tells it: those with these names."""
    found = statements_of(_command().moves["ack"], store)
    if missing := set(names) - {one.name for one in found}:
        raise SystemExit(f"no statement {', '.join(missing)} is sent to {store}")
    return _fence("sql", "\n\n".join(_statement(one) for one in found if one.name in names))


def _statement(shown: Shown) -> str:
    title = f"-- {shown.name}, {shown.note}" if shown.note else f"-- {shown.name}"
    if shown.keys:
        keys = [f"-- KEYS[{place}] {key}" for place, key in enumerate(shown.keys, 1)]
        arguments = [
            f"-- ARGV[{place}] {value or repr('')}" for place, value in enumerate(shown.parameters, 1)
        ]
        return "\n".join([title, *keys, *arguments])
    values = ", ".join(f"{place} {value}" for place, value in enumerate(shown.parameters, 1))
    return "\n".join([title, *([f"-- {values}"] if values else []), f"{shown.text};"])


def lua() -> str:
    return _fence("lua", SCRIPT)


def ddl(what: str, dialect: Dialect) -> str:
    made = {"history": history_ddl, "guards": guard_ddl}[what](_command(), dialect)
    return _fence("sql", made)


def mutations(promise: str) -> str:
    """The edits that break a promise, each with the test that notices."""
    found = [one for one in mutate.mutations() if one.promise == promise]
    return "\n".join(f"- {one.name}: `{one.test.split()[0]}`" for one in found) or "- none yet"


def diagram() -> str:
    return _fence("mermaid", mermaid(_command()))


# Figures

_SHOWN = (
    "one caller · PostgreSQL, asyncpg · bind · history off",
    "one caller · PostgreSQL, asyncpg · bind · history on",
    "one caller · SQLite, sqlite3 · bind · history off",
    "one caller · Redis, redis-py · bind · history off",
    "64 callers · PostgreSQL ÷ asyncpg on 8 warm connections · history off",
    "64 callers · SQLite ÷ one commit for each · history off",
    "64 callers · Redis ÷ redis.asyncio's pool · history off",
)


def bench() -> str:
    """The figures that the README shows, with the command that measured them."""
    latest, page = ROOT / "bench" / "latest.json", ROOT / "docs" / "bench.md"
    if not latest.exists():
        return "Not measured yet: `make bench` writes `bench/latest.json`, and `make docs` this table."
    found = {result["name"]: result for result in json.loads(latest.read_text(encoding="utf-8"))}
    if missing := [name for name in _SHOWN if name not in found]:
        raise SystemExit(f"bench/latest.json has no {missing}; choose others in {Path(__file__).name}")
    told = re.search(r"Written by `(.+?)` on (\S+?);", page.read_text(encoding="utf-8"))
    source = f"`{told[1]}` on {told[2]}" if told else "`make bench`"
    lines = [f"Measured by {source}; machine, versions and method: [docs/bench.md](docs/bench.md).", ""]
    lines += ["| comparison | ours, moves/s | reference | ratio | quartiles |", "|---|---:|---:|---:|---:|"]
    for name in _SHOWN:
        one = found[name]
        low, high = one["spread"]
        lines.append(
            f"| {name} | {one['ours']:,.0f} | {one['reference']:,.0f} | {one['ratio']:.2f} | {low:.2f}–{high:.2f} |"
        )
    return "\n".join(lines)


def cli(*command: str) -> str:
    """The help of the command line, or of one of its commands."""
    done = subprocess.run(
        [sys.executable, "-c", "from raceproof.cli import main; main()", *command, "--help"],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return _fence("text", done.stdout.replace("Usage: -c", "Usage: raceproof"))


KINDS: dict[str, Callable[..., str]] = {
    "bench": bench,
    "cli": cli,
    "ddl": ddl,
    "diagram": diagram,
    "example": example,
    "lua": lua,
    "mutations": mutations,
    "output": output,
    "statements": statements,
}


def stale() -> Iterator[tuple[Path, str]]:
    """The pages that are not as they should be, with their new text."""
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
