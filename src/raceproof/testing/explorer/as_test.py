"""A schedule as a test for pytest: what broke once is tried again in every run of the tests."""

import os
import re
from pathlib import Path

from raceproof.testing.explorer.changes import plain
from raceproof.testing.explorer.verdict import Verdict

_TEST = '''"""One schedule of {scenario}, kept by `raceproof explore --as-test`: run again, it must hold."""

{imports}

SCHEDULE = {schedule}


def test_{name}() -> None:
    """{why}"""
    verdict = explored({scenario}).replay(SCHEDULE, strict=False)
    assert verdict.passed, text(verdict)
'''
_OURS = """\
from raceproof.testing.explorer import explored
from raceproof.testing.explorer.report import text"""
_FROM_FILE = """\
import sys
from importlib import import_module
from pathlib import Path

{ours}

sys.path.insert(0, str((Path(__file__).parent / {folder}).resolve()))
{name} = import_module({module}).{name}"""


def source(target: str, verdict: Verdict, file: Path | None = None) -> str:
    """The text of a test. `target` is MODULE:SCENARIO; if MODULE is a file, it is found from where the test is: `file`."""
    module, _, scenario = target.rpartition(":")
    return _TEST.format(
        imports=_imports(module, scenario.partition(".")[0], file),
        schedule=_literal(verdict.schedule),
        name=_named(scenario, verdict.schedule),
        why=_said(f"It broke once: {verdict.why}." if verdict.why else "It held when it was kept."),
        scenario=scenario,
    )


def _imports(module: str, name: str, file: Path | None) -> str:
    if not module.endswith(".py"):
        return f"from {module} import {name}\n{_OURS}"
    path = Path(module).resolve()
    folder = os.path.relpath(path.parent, file.resolve().parent if file else Path.cwd())
    return _FROM_FILE.format(
        ours=_OURS, folder=_literal(Path(folder).as_posix()), name=name, module=_literal(path.stem)
    )


def _literal(text: str) -> str:
    """A text as Python writes it, with the quotes that formatters like."""
    written = repr(text)
    return written if '"' in written or "\\" in written else f'"{text}"'


def _named(scenario: str, schedule: str) -> str:
    """The name of the test says which faults it has."""
    faults = re.findall(r"([^\s:#*]+)(?:#\d+)?:([a-z-]+)", schedule)
    words = [scenario, "holds", *(f"when_{process}_{fault}" for process, fault in faults)]
    return re.sub(r"\W+", "_", "_".join(words)).strip("_")


def _said(text: str) -> str:
    """A text that can stand in a docstring."""
    return plain(text).replace("\\", "\\\\").replace('"', "'")
