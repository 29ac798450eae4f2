"""A moment that the tests own, and those after it."""

from datetime import UTC, datetime, timedelta

NOON = datetime(2030, 1, 2, 12, 0, 0, 250_000, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)
