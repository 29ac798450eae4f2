"""Does the database still fit the declaration? And do the guards in it allow exactly the declared moves?"""

from raceproof.verify.catalog import Catalog
from raceproof.verify.finding import Finding, Trial
from raceproof.verify.programs import try_matrix, verify, verify_thing
from raceproof.verify.things import has_index, no_index, table_findings

__all__ = [
    "Catalog",
    "Finding",
    "Trial",
    "has_index",
    "no_index",
    "table_findings",
    "try_matrix",
    "verify",
    "verify_thing",
]
