"""Problems of a store, the rows that show them, and their repairs: `diagnose(store, …)`, awaited on an async store.

Promise: a diagnosis only reads; every query is bounded, whatever the size of the tables. Not promised: that a large table
without problems in the scanned rows has none elsewhere; `Checked.note` says how much was scanned.
"""

from raceproof.ops.doctor.diagnose import diagnose
from raceproof.ops.doctor.finding import Checked, Diagnosis, Problem, Repair, Subject
from raceproof.ops.doctor.fix import fix

__all__ = ["Checked", "Diagnosis", "Problem", "Repair", "Subject", "diagnose", "fix"]
