"""DDL as one script, for connections that run several statements at once."""

from typing import Any

from raceproof import ddl


def script(*declarations: Any, dialect: Any, **options: Any) -> str:
    """The statements of `ddl`, joined."""
    return "\n".join(ddl(*declarations, dialect=dialect, **options))
