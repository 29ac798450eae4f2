"""The repair that adds a status to an enum says no more than that, whatever the status is called."""

import psycopg

from raceproof import Lifecycle
from raceproof.ops.doctor.schema import _adding_to_enum


def test_a_status_that_looks_like_the_end_of_the_repair_is_only_a_status(empty_postgres: str) -> None:
    odd = "x$raceproof$; DROP TABLE canary; --"
    spec = Lifecycle.from_dict(
        {
            "name": "Odd",
            "table": "odd",
            "key": "id",
            "statuses": ["NEW", odd],
            "terminal": [odd],
            "moves": {"go": {"from": ["NEW"], "to": odd}},
        }
    )
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE canary (); CREATE TYPE state AS ENUM ('NEW')")
        connection.execute("CREATE TABLE odd (id text PRIMARY KEY, status state)")
        connection.execute(_adding_to_enum(spec, odd).encode())
        labels = connection.execute("SELECT enumlabel FROM pg_enum ORDER BY enumsortorder").fetchall()
        assert [label for (label,) in labels] == ["NEW", odd]
        assert connection.execute("SELECT to_regclass('canary') IS NOT NULL").fetchone() == (True,)
