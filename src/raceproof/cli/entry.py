"""Where `raceproof` starts; without the extra that it needs, it says so."""

import importlib
import sys

_NEEDED = ("click", "rich")


def main() -> None:
    """Run the command line."""
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.exit(
                f"raceproof: {name} is not installed; the command line needs it: pip install 'raceproof[cli]'"
            )
    from raceproof.cli.program import program

    program()
