"""Links that the host adds to the pages: other dashboards, runbooks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A link beside the pages."""

    text: str
    url: str
