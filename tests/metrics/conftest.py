"""The doctor's stores serve here too."""

from tests.doctor.conftest import cli, doctors_database, ill, ill_postgres, ill_sqlite, ill_valkey

__all__ = ["cli", "doctors_database", "ill", "ill_postgres", "ill_sqlite", "ill_valkey"]
