"""The tables that the library itself needs, as DDL for the user to run. Nothing here is ever run behind their back."""

from raceproof.schema.history import history_columns, history_ddl

__all__ = ["history_columns", "history_ddl"]
