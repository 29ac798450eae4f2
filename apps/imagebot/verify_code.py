"""Patterns that note 001 forbids, found in the syntax trees of the modules, however they are spelled."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

DRIVERS = ("sqlalchemy", "asyncpg", "sqlite3", "psycopg", "psycopg2", "aiosqlite")
NOT_FOR_HANDLERS = (*DRIVERS, "appkit.database", "imagebot.tables", "imagebot.money")
OPENERS = ("TCPSite", "UnixSite", "SockSite", "run_app", "start_server", "create_server", "start_unix_server")
"""Names by which a port is opened."""
BLOCKING = (
    "time.sleep",
    "urllib.request",
    "requests",
    "http.client",
    "subprocess",
    "os.system",
    "socket.create_connection",
    "socket.getaddrinfo",
    "sqlite3.connect",
    "psycopg.connect",
    "psycopg2.connect",
)
"""Functions, or whole modules, that hold up everybody when a coroutine calls them."""
SIMULATORS = ("simulators", "measure")
_ADVISORY = re.compile(r"\bpg_\w*advisory\w*\s*\(")

Module = tuple[Path, ast.Module]


def modules(root: Path) -> Iterator[Module]:
    for path in sorted(root.rglob("*.py")):
        yield path, ast.parse(path.read_text(), path)


def entry_points(found: Iterable[Module], entrypoint: str) -> Iterator[str]:
    """The listening socket is opened in one place, and one module is a program."""
    for path, tree in found:
        if path.parent.name in SIMULATORS:
            continue
        for node in ast.walk(tree):
            name = _name(node)
            if name in OPENERS and path.name != entrypoint:
                yield f"{path.name}:{node.lineno}: {name} opens a port; only {entrypoint} may"  # type: ignore[attr-defined]
            if _is_program(node) and path.name != "__main__.py":
                yield f"{path.name}:{node.lineno}: a second program"  # type: ignore[attr-defined]


def forbidden(found: Iterable[Module]) -> Iterator[str]:
    """Wildcards, drivers in handlers, blocking calls in coroutines, session locks of one's own, Decimal."""
    for path, tree in found:
        known = _imports(tree)
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom() | ast.Import():
                    yield from _import(path, node)
                case ast.AsyncFunctionDef():
                    yield from _blocking(path, node, known)
                case ast.Constant(value=str(text)) if _ADVISORY.search(text):
                    yield (
                        f"{path.name}:{node.lineno}: an advisory lock of its own; the lock controller has one,"
                        " with two signed 32-bit numbers"
                    )
                case ast.Call(func=function, keywords=keywords) if _path(function, known) == "json.dumps":
                    if any(one.arg == "default" for one in keywords):
                        yield f"{path.name}:{node.lineno}: json.dumps(default=…) lets a Decimal through"


def _import(path: Path, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    place = f"{path.name}:{node.lineno}"
    if isinstance(node, ast.ImportFrom):
        if any(one.name == "*" for one in node.names):
            yield f"{place}: import *"
        names = [f"{node.module}.{one.name}" for one in node.names]
    else:
        names = [one.name for one in node.names]
    for name in names:
        if name.split(".")[0] == "decimal":
            yield f"{place}: Decimal; money is counted in hundredths, as int"
        if path.parent.name == "handlers" and _is_of(name, NOT_FOR_HANDLERS):
            yield f"{place}: a handler imports {name}; it has DatabaseService"


def _blocking(path: Path, function: ast.AsyncFunctionDef, known: dict[str, str]) -> Iterator[str]:
    for node in _own(function):
        if isinstance(node, ast.Call) and _is_of(called := _path(node.func, known), BLOCKING):
            yield f"{path.name}:{node.lineno}: {called} in async code"


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What runs in the coroutine itself: functions that it only defines run elsewhere, or are looked at by themselves."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _own(node)


def _imports(tree: ast.Module) -> dict[str, str]:
    """What the names of a module stand for: `from time import sleep as nap` is {"nap": "time.sleep"}."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                known |= {one.asname or one.name.split(".")[0]: (one.asname and one.name) or "" for one in names}
            case ast.ImportFrom(module=str(module), names=names):
                known |= {one.asname or one.name: f"{module}.{one.name}" for one in names}
    return {name: path or name for name, path in known.items()}


def _path(node: ast.AST, known: dict[str, str]) -> str:
    """`time.sleep`, for whatever is called."""
    match node:
        case ast.Name(id=name):
            return known.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            return f"{_path(value, known)}.{attr}"
    return ""


def _is_of(path: str, listed: Iterable[str]) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in listed)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name
    return ""


def _is_program(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
    return False
