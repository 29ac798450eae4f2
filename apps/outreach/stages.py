"""The stages in their order, with the note's numbers: how many of a kind at once, and how often.

There are two sets: over the table that `migrate` makes, and over the note's own table where that is adopted as it is.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from outreach.adopted import AdoptedEnrichment, AdoptedVetting
from outreach.lifecycle import Description, Enrichment, Matching, Vetting
from raceproof.claims import TextMarker
from raceproof.declare import Claimable, Move, Spec


class Layout(StrEnum):
    """Whose table the discoveries are in."""

    OWN = "own"
    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its claim in each form, and the limits of its kind of work."""

    name: str
    task: str
    """What the scheduler calls it."""
    marker: Claimable[Any]
    columns: Claimable[Any]
    """The same claim once more where the table is adopted, which has no columns for it."""
    at_once: int
    """Workers at once, over all processes."""
    parallel: int
    """Items at once in one worker."""
    every: float
    """Seconds from the end of one run to the next."""
    asks: str = ""
    """What its work depends on: `ai` or `feeds`, whose failures pause it."""

    @property
    def lifecycle(self) -> Spec[Any]:
        return self.columns.lifecycle

    @property
    def form(self) -> TextMarker:
        assert isinstance(self.marker.form, TextMarker)
        return self.marker.form

    @property
    def error(self) -> str:
        """The column with the error, or with the marker."""
        return self.form.column

    @property
    def kind(self) -> str:
        """As it stands in the marker."""
        return self.form.kind

    @property
    def status(self) -> str:
        """Its status in `discovery_stages`, which has one for every stage in both layouts."""
        return f"{self.name}_status"

    @property
    def stays(self) -> bool:
        """A claimed row stays at its status: the stage has none of its own."""
        return self.marker.move is None

    @property
    def shared(self) -> bool:
        """Work for the podcast: what comes of it belongs to all its discoveries."""
        return self.asks == "feeds" or self.name == "ai_description"

    @property
    def finish(self) -> Move[Any]:
        """The move of a row that is done; where a row stays, none is ever made, and a worker only needs the name of one."""
        return self.move("anew" if self.stays else "finish")

    def move(self, name: str) -> Move[Any]:
        return self.lifecycle.moves[name]


def _stages(claims: dict[str, tuple[Claimable[Any], Claimable[Any]]]) -> dict[str, Stage]:
    return {
        "enrichment": Stage("enrichment", "enrichment_pipeline", *claims["enrichment"], 1, 5, 86400.0, "feeds"),
        "ai_description": Stage(
            "ai_description", "ai_description_completion", *claims["ai_description"], 1, 3, 600.0, "ai"
        ),
        "vetting": Stage("vetting", "vetting_pipeline", *claims["vetting"], 1, 3, 900.0, "ai"),
        "matching": Stage("matching", "matching_pipeline", *claims["matching"], 1, 5, 900.0),
    }


STAGES = _stages(
    {
        "enrichment": (Enrichment.enrichment_marker, Enrichment.enrichment),
        "ai_description": (Description.ai_description_marker, Description.ai_description),
        "vetting": (Vetting.vetting_marker, Vetting.vetting),
        "matching": (Matching.matching_marker, Matching.matching),
    }
)
ENRICHMENT, AI_DESCRIPTION, VETTING, MATCHING = STAGES.values()

STAGES_OF = {
    Layout.OWN: STAGES,
    Layout.ADOPTED: _stages(
        {
            name: (one, one)
            for name, one in (
                ("enrichment", AdoptedEnrichment.enrichment),
                ("ai_description", AdoptedEnrichment.ai_description),
                ("vetting", AdoptedVetting.vetting),
                ("matching", AdoptedVetting.matching),
            )
        }
    ),
}
