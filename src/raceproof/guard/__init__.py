"""Triggers that make the declared moves the only possible ones, generated from the same declaration.

Promise: while they are installed, no statement on the table takes a row along an undeclared path, whoever sends it, unless
it says an override, and then the history keeps who and why. Not promised: a DELETE and a new INSERT, and whoever may drop
triggers. Without a history there is nowhere to record an override, so there is none.
"""

from raceproof.guard.ddl import drop_ddl, drop_statements, guard_ddl, guard_name, guard_statements

__all__ = ["drop_ddl", "drop_statements", "guard_ddl", "guard_name", "guard_statements"]
