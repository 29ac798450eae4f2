"""Count what a newcomer has to read, and fail if it grows: `make house`.

Each figure has a limit, which the build enforces, and a goal. Where the limit is above the goal, the figure still has to
come down; lower the limit whenever it does.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "src" / "raceproof"
PRIMITIVES = ("moves", "claims", "deliveries", "attempts", "leases", "inbox")
NOT_DECIDING = {"__init__", "declared", "answers", "api", "request", "reading", "arrival"}
"""What is declared, asked, answered and read; the rest of a primitive decides."""


class Figure(NamedTuple):
    """One measurement; `limit` is enforced, `goal` is where it should be."""

    what: str
    found: int
    limit: int
    goal: int
    detail: str = ""


def figures() -> Iterator[Figure]:
    """All measurements of the package as it is on disk."""
    yield Figure("public names", len(public_names()), 45, 45)
    yield Figure("loose modules", len(list(PACKAGE.glob("*.py"))), 4, 4)
    by_kind = deciding_lines()
    detail = ", ".join(f"{number:,} {kind}" for kind, number in by_kind.items())
    yield Figure("deciding lines", sum(by_kind.values()), 3000, 3000, detail)
    path = modules_of_a_claim()
    yield Figure("files from declaration to answer of a claim", len(path), 8, 8, " → ".join(path))
    private = list(private_accesses())
    yield Figure("private accesses across packages", len(private), 0, 0, ", ".join(private[:5]))
    spelled = claimable_spellings()
    yield Figure("spellings of claimable per dialect", max(spelled.values()), 1, 1, _counted(spelled))
    yield Figure("modules loaded by import raceproof", len(loaded_modules()), 70, 70)


def public_names() -> list[str]:
    """The names that `raceproof` exports."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    raise SystemExit("raceproof has no __all__")


def deciding_lines() -> dict[str, int]:
    """Lines of SQL, Lua and programs, without comments and without what only makes them faster."""
    found = {"SQL": 0, "Lua": 0, "Python": 0}
    for primitive in PRIMITIVES:
        for path in sorted((PACKAGE / primitive).glob("*.*")):
            match path.suffix:
                case _ if path.stem in NOT_DECIDING:
                    pass
                case ".sql":
                    found["SQL"] += _lines(path, "--")
                case ".lua":
                    found["Lua"] += _lines(path, "--")
                case ".py":
                    found["Python"] += _python_lines(path)
    for path in sorted((PACKAGE / "kernel").glob("*.lua")):
        found["Lua"] += _lines(path, "--")
    return found


def _lines(path: Path, comment: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith(comment) for line in lines)


def _python_lines(path: Path) -> int:
    """Lines that hold code: no blank lines, comments, docstrings, and no imports."""
    text = path.read_text(encoding="utf-8")
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent and token.type != tokenize.ENDMARKER:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            assert isinstance(node, ast.stmt)
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def modules_of_a_claim() -> list[str]:
    """What a reader opens to follow one claim on SQLite: the modules about claims that a call runs through, and its SQL.

    From the second call on, for the first one renders the texts, which docs/core.md shows; and without the kernel and the
    driver, which know nothing about claims.
    """
    program = """
import enum, sqlite3, sys
from raceproof import Lifecycle, bind, claimable, move
Status = enum.StrEnum("Status", "NEW BUSY DONE")
class Job(Lifecycle[Status], table="jobs", key="id", column="status"):
    start = move(Status.NEW, to=Status.BUSY)
    done = move(Status.BUSY, to=Status.DONE)
    work = claimable(start, lease=30)
connection = sqlite3.connect(":memory:", isolation_level=None)
connection.execute("CREATE TABLE jobs (id, status, claimed_by, claimed_until, fence)")
connection.execute("INSERT INTO jobs (id, status) VALUES ('a', 'new'), ('b', 'new')")
store, seen = bind(connection), {}
assert store.claim(Job.work, 1)
def watch(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and "/raceproof/" in name and "<" not in frame.f_code.co_name:
        seen.setdefault(name.partition("/raceproof/")[2])
sys.setprofile(watch)
claims = store.claim(Job.work, 1)
sys.setprofile(None)
assert len(claims) == 1
print(*seen, sep="\\n")
"""
    ran = [name for name in _python(program).split() if name.split("/")[0] in ("declare", "claims")]
    return [*ran, "claims/sqlite.sql"]


def loaded_modules() -> list[str]:
    """What a fresh interpreter has loaded of raceproof after importing it."""
    program = "import sys, raceproof; print(*(m for m in sys.modules if m.split('.')[0] == 'raceproof'), sep='\\n')"
    return _python(program).split()


def _python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def private_accesses() -> Iterator[str]:
    """Places where a module reads `_x` of an object, and only another package of ours has such an `_x`."""
    defined = {path: _defined(path) for path in PACKAGE.rglob("*.py")}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        own = {word for other, words in defined.items() if other.is_relative_to(path.parent) for word in words}
        others = {word for words in defined.values() for word in words} - own
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Attribute) or not re.fullmatch("_[a-z][a-z_]*", node.attr):
                continue
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                continue
            if node.attr in others:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.attr}"


def _defined(path: Path) -> set[str]:
    """Private names that a module defines: functions, and attributes that it sets."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Store()):
                found.add(attr)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return {name for name in found if name.startswith("_")}


def claimable_spellings() -> dict[str, int]:
    """How many places say which rows can be claimed, each with the whole list of conditions: in SQL texts and in Lua."""
    folder = PACKAGE / "claims"
    slots = (folder / "slots.py").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.sql")]
    lua = (folder / "redis.lua").read_text(encoding="utf-8")
    return {
        "SQL": slots.count("SPENT: ") + sum("{free}" in one and "{open}" in one for one in _statements(texts)),
        "Lua": lua.count("unmet + 8"),
    }


def _statements(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from text.split("-- name: ")[1:]


def _counted(found: dict[str, int]) -> str:
    return ", ".join(f"{number} in {name}" for name, number in found.items())


def main() -> int:
    failed = False
    for one in figures():
        over = one.found > one.limit
        failed |= over
        state = "TOO MANY" if over else "ok" if one.found <= one.goal else f"goal {one.goal:,}"
        sys.stdout.write(f"{one.what:45} {one.found:6,}  of {one.limit:,} at most  {state}\n")
        if one.detail and (over or one.found > one.goal or "-v" in sys.argv):
            sys.stdout.write(f"    {one.detail}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
