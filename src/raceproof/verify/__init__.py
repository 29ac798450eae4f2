"""Does the database still fit the declaration? And do the guards in it allow exactly the declared moves?"""

from raceproof.verify.catalog import Catalog
from raceproof.verify.finding import Finding, Trial
from raceproof.verify.programs import Beside, try_matrix, verify
from raceproof.verify.things import has_index, no_index, table_findings, table_repairs

__all__ = [
    "Beside",
    "Catalog",
    "Finding",
    "Trial",
    "has_index",
    "no_index",
    "table_findings",
    "table_repairs",
    "try_matrix",
    "verify",
]
