"""Every Python snippet of the README and of the tour runs as a reader pastes it: alone, in a fresh process."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.generate_docs import EXAMPLES, ROOT

README, TOUR = "README.md", "docs/tour.md"

_SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^`(\w+\.py)`:\n+(?:<!-- generated: [^\n]* -->\n)?\Z", re.MULTILINE)
_OUTPUT = re.compile(
    r"\A\s*<!-- end -->\n[^#`]*?<!-- generated: output [^\n]* -->\n```text\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_INSTALL = re.compile(r"pip install [^\n`]*")


class Snippet(NamedTuple):
    """A snippet of a page; `name` is the file that the reader saves it as, `output` what the page says that it prints."""

    page: str
    place: int
    name: str | None
    code: str
    output: str | None


def snippets(page: str) -> list[Snippet]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for place, match in enumerate(_SNIPPET.finditer(text), 1):
        named = _NAMED.search(text[: match.start()])
        output = _OUTPUT.match(text[match.end() :])
        found.append(Snippet(page, place, named[1] if named else None, match[1], output[1] if output else None))
    return found


ALL = [*snippets(README), *snippets(TOUR)]


@pytest.mark.parametrize("snippet", ALL, ids=lambda one: f"{one.page}-{one.place}-{one.name or 'pasted'}")
def test_a_snippet_runs_as_pasted_and_prints_what_the_page_says(snippet: Snippet, tmp_path: Path) -> None:
    """In a folder that has nothing but what the page named and showed before it."""
    for earlier in snippets(snippet.page)[: snippet.place - 1]:
        if earlier.name is not None:
            (tmp_path / earlier.name).write_text(earlier.code, encoding="utf-8")
    pasted = tmp_path / (snippet.name or "pasted.py")
    pasted.write_text(snippet.code, encoding="utf-8")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-W", "error", pasted.name],
        cwd=tmp_path,
        env={**plain, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (snippet.output or "")


def test_the_snippets_were_found() -> None:
    """The README has its own; the tour shows every file that its programs import."""
    assert len(snippets(README)) == 1
    assert all(one.output for one in snippets(README))
    tour = snippets(TOUR)
    assert None not in {one.name for one in tour}
    imported = {f"{name}.py" for one in tour for name in re.findall(r"^from (\w+) import", one.code, re.MULTILINE)}
    assert {name for name in imported if (EXAMPLES / name).exists()} <= {one.name for one in tour}


def test_the_first_snippet_of_the_readme_needs_the_standard_library_alone() -> None:
    """And is on the first screen, before anything else is explained."""
    first = snippets(README)[0]
    imports = re.findall(r"^(?:from|import) (\w+)", first.code, re.MULTILINE)
    assert set(imports) - sys.stdlib_module_names == {"raceproof"}
    lines = [line for line in first.code.splitlines() if line.strip()]
    assert 10 <= len(lines) <= 40
    text = (ROOT / README).read_text(encoding="utf-8")
    assert text.index("```python") < text.index("\n## ")


def test_the_readme_is_short() -> None:
    """A stranger reads it in five minutes, the generated parts included."""
    assert len((ROOT / README).read_text(encoding="utf-8").splitlines()) <= 190


def test_no_page_and_no_message_tells_people_to_install_what_no_index_has() -> None:
    """`pip install 'raceproof[web]'` fails until there is a release: only a checkout can be installed."""
    files = [ROOT / name for name in (README, "CONTRIBUTING.md", "SECURITY.md")]
    for folder, ending in (("docs", "*.md"), ("docs", "*.py"), ("src", "*.py"), ("apps", "*.md")):
        files += (ROOT / folder).rglob(ending)
    wrong = [
        f"{path.relative_to(ROOT)}: {command}"
        for path in files
        for command in _INSTALL.findall(path.read_text(encoding="utf-8"))
        if "raceproof" in command and " @ " not in command
    ]
    assert wrong == []


def test_the_readme_s_fix_publishes_once_where_the_broken_program_publishes_twice() -> None:
    """Race and fix are one snippet. The fix wins first: publishing before the move was the mistake of an earlier README."""
    [race] = [one for one in snippets(README) if "db.move(Command.send" in one.code]
    broken, fixed = race.code.split("def guarded")
    assert "UPDATE commands SET status = 'SENT'" in broken
    assert (race.output or "").count("publishes c-1") == 2
    assert (race.output or "").count("publishes c-2") == 1
    assert fixed.index("db.move(Command.send") < fixed.index("publishes c-2")
