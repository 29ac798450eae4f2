"""What is wrong with a store, shown by its rows, and what repairs it: `diagnose(store, …)`, `adiagnose` on an async store.

Promise: a diagnosis only reads; every query is bounded, whatever the size of the tables. Not promised: that a large table
without a problem in the rows that were looked at has none elsewhere; `Checked.note` says how far a check looked.
"""

from raceproof.ops.doctor.diagnose import adiagnose, diagnose
from raceproof.ops.doctor.finding import Checked, Diagnosis, Problem, Repair, Subject
from raceproof.ops.doctor.fix import afix, fix

__all__ = ["Checked", "Diagnosis", "Problem", "Repair", "Subject", "adiagnose", "afix", "diagnose", "fix"]
