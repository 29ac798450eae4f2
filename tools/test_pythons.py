"""Run `make test` on every supported Python that is installed here: `make test-pythons`.

Supported are those that the classifiers in pyproject.toml list. Each gets an environment of its own, `.venv-3.12.1`.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_ASK = "import sys; print('.'.join(map(str, sys.version_info[:3])))"


def supported(pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    """The versions that the classifiers name, as in 3.12."""
    classifiers = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["classifiers"]
    return [match[1] for match in map(_CLASSIFIER.fullmatch, classifiers) if match]


def installed(minor: str, pyenv: Path) -> dict[str, Path]:
    """The interpreters of this version by their full version: all that pyenv has, and the one on the PATH."""
    candidates = sorted(pyenv.glob(f"versions/{minor}.*/bin/python{minor}"))
    if beside := shutil.which(f"python{minor}"):
        candidates.append(Path(beside))
    found: dict[str, Path] = {}
    for candidate in candidates:
        told = subprocess.run([candidate, "-c", _ASK], capture_output=True, text=True)
        if told.returncode == 0:  # a shim of pyenv for a version that is not active says so and fails
            found.setdefault(told.stdout.strip(), candidate)
    return found


def main(arguments: list[str]) -> int:
    """Test on each, one after the other; the exit status is 1 if one failed or a version is not installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    results: dict[str, str] = {}
    for minor in supported():
        pythons = installed(minor, pyenv)
        if not pythons:
            results[minor] = "not installed"
        for version, python in pythons.items():
            command = ["make", "test", f"VENV=.venv-{version}", f"PYTHON={python}"]
            command += [f"ARGS={' '.join(arguments)}"] if arguments else []
            done = subprocess.run(command, cwd=ROOT)
            results[version] = "passed" if done.returncode == 0 else "FAILED"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return int(set(results.values()) != {"passed"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
