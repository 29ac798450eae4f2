"""Links of the host's own, shown beside the pages: other dashboards, runbooks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A word and where it leads."""

    text: str
    url: str
