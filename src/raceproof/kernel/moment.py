"""A time as a store keeps it, as a datetime."""

from datetime import UTC, datetime
from typing import Any


def moment(value: Any) -> datetime:
    """A time as any of the stores keeps it, as a datetime in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(float(value), UTC)
    except ValueError:
        return datetime.fromisoformat(str(value)).replace(tzinfo=UTC)
