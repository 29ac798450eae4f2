"""The tables, columns, indexes and triggers that the library needs, as DDL for the user to run; it never runs any itself."""

from raceproof.schema.ddl import backfill, ddl
from raceproof.schema.tables import Dialect

__all__ = ["Dialect", "backfill", "ddl"]
