"""The command line: thin, parse → call → print. stdout is data, stderr is everything else.

In the order to read: `program` (the commands, and how each run ends), `target` (which lifecycles, which store), `output`
(table, json, jsonl, ids), then one file in `commands/` for each command.
"""

from raceproof.ops.cli.entry import main

__all__ = ["main"]
