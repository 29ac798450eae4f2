"""The same events for two sides: the usual code, and the same with raceproof; each on an SQLite file of its own.

In the order to read: `desk` (what a piece of code works with), the scenarios `pictures`, `commands`, `leaders`, `jobs`,
`webhooks` and `logins` (each with both pieces of code), `instance` (the process that runs them), `world` (where events come
from and where effects arrive), `score` (what the files say). Both files have the same tables, the same audit triggers
and are asked the same questions.
"""

from showcase.twins.scenario import RACEPROOF, SIDES, UNGUARDED

__all__ = ["RACEPROOF", "SIDES", "UNGUARDED"]
