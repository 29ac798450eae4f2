"""The doctor's stores serve here too."""

from tests.ops.doctor.conftest import cli, ill, ill_postgres, ill_sqlite, ill_valkey

__all__ = ["cli", "ill", "ill_postgres", "ill_sqlite", "ill_valkey"]
