"""Does the database match the declaration? And do its guards allow exactly the declared moves?"""

from raceproof.ops.verify.api import try_matrix, verify
from raceproof.ops.verify.catalog import Catalog
from raceproof.ops.verify.finding import Finding, Trial
from raceproof.ops.verify.programs import Beside
from raceproof.ops.verify.tables import has_index, no_index, table_findings, table_repairs

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
