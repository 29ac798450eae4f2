"""The tables and indexes that the library needs, as DDL for the user to run. Nothing here is ever run behind their back."""

from raceproof.schema.history import Dialect, history_columns, history_ddl, history_statements
from raceproof.schema.indexes import attempt_index_ddl, claim_index_ddl

__all__ = [
    "Dialect",
    "attempt_index_ddl",
    "claim_index_ddl",
    "history_columns",
    "history_ddl",
    "history_statements",
]
