"""Refuses a PostgreSQL connection on which a backslash could end one of our quotes.

Promise: no statement is sent while the server reports `standard_conforming_strings = off`, because statuses and names of a
declaration stand in the statements as quoted texts. The drivers know the setting without asking the server. Not promised:
anything about a driver or a pooler that does not report it.
"""

from typing import Any

from raceproof.kernel.errors import CallError

NAME = "standard_conforming_strings"
_REFUSAL = (
    "this PostgreSQL connection has standard_conforming_strings = off, so a backslash in a quoted text could change a "
    "statement, and nothing was sent. Turn it on: SET standard_conforming_strings = on in the session, or reset it where it "
    "was turned off (ALTER ROLE … RESET, ALTER DATABASE … RESET, postgresql.conf)"
)


def refuse_escapes(setting: str | bytes | None) -> None:
    """Raise if the server reads backslashes in plain quoted texts as escapes."""
    if setting in ("off", b"off"):
        raise CallError(_REFUSAL)


def setting_of(raw: Any) -> str | None:
    """The setting as the driver below SQLAlchemy or Django knows it; None if that driver does not say."""
    if hasattr(raw, "get_settings"):  # asyncpg
        return getattr(raw.get_settings(), NAME, None)
    if hasattr(raw, "get_parameter_status"):  # psycopg2
        found: str | None = raw.get_parameter_status(NAME)
        return found
    if hasattr(raw, "pgconn"):  # psycopg 3
        said = raw.pgconn.parameter_status(NAME.encode())
        return said.decode() if said is not None else None
    return None


def backend_pid(connection: Any) -> int | None:
    """The server process of a connection of psycopg or asyncpg; None for any other."""
    if hasattr(connection, "get_server_pid"):
        return int(connection.get_server_pid())
    found = getattr(getattr(connection, "info", None), "backend_pid", None)
    return None if found is None else int(found)
