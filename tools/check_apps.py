"""Applications under apps/ import only what raceproof promises to keep.

That is `import raceproof`, `from raceproof import …` (names in its `__all__`) and the same of the others in `PUBLIC`.
Prints each other import and fails. Without an apps folder there is nothing to find.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PUBLIC = (
    "raceproof",
    "raceproof.attempts",
    "raceproof.claims",
    "raceproof.declare",
    "raceproof.deliveries",
    "raceproof.inbox",
    "raceproof.kernel.errors",
    "raceproof.kernel.events",
    "raceproof.leases",
    "raceproof.moves",
    "raceproof.ops.diagram",
    "raceproof.ops.explain",
    "raceproof.ops.metrics",
    "raceproof.ops.sweep",
    "raceproof.ops.tracing",
    "raceproof.ops.verify",
    "raceproof.ops.web",
    "raceproof.run",
    "raceproof.schema",
    "raceproof.testing",
    "raceproof.webhooks",
    "raceproof.webhooks.aiohttp",
    "raceproof.webhooks.asgi",
)


def problems(apps: Path, source: Path) -> Iterator[str]:
    """A line for each import under `apps` that is not of a public name of the packages under `source`."""
    public = {module: _exported(source.joinpath(*module.split("."))) for module in PUBLIC}
    for path in sorted(apps.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), path)):
            for name in _private(node, public):
                yield f"{path}:{getattr(node, 'lineno', 0)}: {name} is not public"


def _private(node: ast.AST, public: dict[str, set[str]]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names if _is_ours(each.name) and each.name not in public)
        case ast.ImportFrom(module=str(module), names=names, level=0) if _is_ours(module):
            for each in names:
                whole = f"{module}.{each.name}"
                if whole not in public and each.name not in public.get(module, ()):
                    yield whole


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "raceproof"


def _exported(path: Path) -> set[str]:
    """The names in a module's `__all__`, which must be a plain list."""
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():
        return set()
    for node in ast.parse(path.read_text(), path).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return set(ast.literal_eval(value))
    return set()


if __name__ == "__main__":
    found = list(problems(Path("apps"), Path("src")))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
