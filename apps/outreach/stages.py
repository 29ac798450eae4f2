"""The stages in their order, with the note's numbers: how many of a kind at once, and how often."""

from dataclasses import dataclass
from typing import Any

from outreach.lifecycle import Description, Enrichment, Matching, Vetting
from raceproof import Claimable, Marker, Move, Spec


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its claim in both forms, and the limits of its kind of work."""

    name: str
    task: str
    """What the scheduler calls it."""
    marker: Claimable[Any]
    columns: Claimable[Any]
    at_once: int
    """Workers at once, over all processes."""
    parallel: int
    """Items at once in one worker."""
    every: float
    """Seconds from the end of one run to the next."""

    @property
    def lifecycle(self) -> Spec[Any]:
        return self.columns.lifecycle

    @property
    def form(self) -> Marker:
        assert isinstance(self.marker.form, Marker)
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
        return self.lifecycle.column

    def move(self, name: str) -> Move[Any]:
        return self.lifecycle.moves[name]


ENRICHMENT = Stage(
    "enrichment", "enrichment_pipeline", Enrichment.enrichment_marker, Enrichment.enrichment, 1, 5, 86400.0
)
AI_DESCRIPTION = Stage(
    "ai_description",
    "ai_description_completion",
    Description.ai_description_marker,
    Description.ai_description,
    1,
    3,
    600.0,
)
VETTING = Stage("vetting", "vetting_pipeline", Vetting.vetting_marker, Vetting.vetting, 1, 3, 900.0)
MATCHING = Stage("matching", "matching_pipeline", Matching.matching_marker, Matching.matching, 1, 5, 900.0)

STAGES = {stage.name: stage for stage in (ENRICHMENT, AI_DESCRIPTION, VETTING, MATCHING)}
