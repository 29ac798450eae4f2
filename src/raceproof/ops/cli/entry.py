"""Where `raceproof` starts; without the extra that it needs, it says so."""

import importlib
import sys

from raceproof.kernel.errors import missing_extra

_NEEDED = ("click", "rich")


def main() -> None:
    """Run the command line."""
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.exit(f"raceproof: {missing_extra(name, 'cli')}")
    from raceproof.ops.cli.program import program

    program()
