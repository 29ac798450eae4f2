"""`raceproof demo`: real processes race over the same rows, once with the usual code and once with raceproof.

In the order to read: `commands` (the declaration), `sides` (the two pieces of code that race), `plan` and `actors` (who
does what, and when), `audit` (what the database saw), `race` (one run), `page`, `report` and `example` (the screen). The
shorter scenarios are in `scenes`. `showing` shows one of them all, `command` those that were asked for.
"""
