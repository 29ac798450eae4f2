"""A lifecycle as a picture: `mermaid` for documents, `ascii_diagram` for terminals, `svg` for pages.

Promise: pure functions of the declaration, the same text for the same declaration; whatever a status is called, it is
shown as text and never read as markup.
"""

from raceproof.ops.diagram.svg import svg
from raceproof.ops.diagram.text import ascii_diagram, mermaid

__all__ = ["ascii_diagram", "mermaid", "svg"]
