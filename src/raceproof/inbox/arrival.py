"""An event that was verified and is not stored yet."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Arrival(NamedTuple):
    """An event that has been verified and not been stored yet. `event_id` is unique within its `source`."""

    source: str
    event_id: str
    body: bytes
    headers: Mapping[str, str] = NO_HEADERS
    ordering_key: str | None = None

    def __repr__(self) -> str:
        """Without what was sent."""
        return (
            f"Arrival({self.source!r}, {self.event_id!r}, {len(self.body)} bytes, ordering_key={self.ordering_key!r})"
        )
