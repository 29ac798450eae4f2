"""What can be sold, as data: `product/models.yaml`, and a file of the operator's own."""

from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

CATALOGUE = Path(__file__).parent / "product" / "models.yaml"


class Format(BaseModel):
    """How KIE learns the format: by which field, and the name there of each choice of a user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    values: dict[str, str] = Field(min_length=1, max_length=8)


class Model(BaseModel):
    """One model of KIE."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["image", "video"]
    longest_prompt: int = Field(gt=0, le=20_000)
    format: Format
    input: dict[str, str | int | bool] = {}

    @property
    def formats(self) -> tuple[str, ...]:
        """What a user can choose from; the first is taken for one who does not choose."""
        return tuple(self.format.values)

    def asked(self, prompt: str, chosen: str) -> dict[str, Any]:
        """The `input` of createTask."""
        values = self.format.values
        told = values.get(chosen, next(iter(values.values())))
        return {**self.input, "prompt": prompt, self.format.field: told}


_LISTED = TypeAdapter(dict[str, Model])


@cache
def catalogue(more: Path | None = None) -> dict[str, Model]:
    """All models by name; ValueError if a file is not of the right form."""
    listed = _read(CATALOGUE)
    return {**listed, **_read(more)} if more is not None else listed


def _read(path: Path) -> dict[str, Model]:
    return _LISTED.validate_python(yaml.safe_load(path.read_text()))
