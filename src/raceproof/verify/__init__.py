"""Does the database still fit the declaration? And do the guards in it allow exactly the declared moves?"""

from raceproof.verify.finding import Finding, Trial
from raceproof.verify.programs import try_matrix, verify

__all__ = ["Finding", "Trial", "try_matrix", "verify"]
