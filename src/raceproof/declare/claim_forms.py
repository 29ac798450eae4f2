"""Where a claim lives in the user's row. In every form the value that is written is the fence of its holder.

`ClaimColumns` is the default. `TimestampClaim` is for a table that has one column such as `delivering_at`, `TextMarker` for
one that cannot be altered: a text such as `PROCESSING:AI_DESC:<uuid>:<seconds>` in a column that exists already.
"""

import re
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from raceproof.kernel.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class ClaimColumns:
    """Columns of its own: who holds the row, until when, and a number that grows with every claim."""

    kind_of_form: ClassVar[str] = "columns"
    holder: str = "claimed_by"
    until: str = "claimed_until"
    fence: str = "fence"

    @property
    def fence_column(self) -> str:
        return self.fence

    @property
    def cleared(self) -> tuple[str, ...]:
        """What a holder clears when it is done; the fence stays, so that it can only grow."""
        return (self.holder, self.until)


@dataclass(frozen=True, slots=True)
class TimestampClaim:
    """One timestamp: when the row was claimed. It is free when it is NULL or older than the lease."""

    kind_of_form: ClassVar[str] = "timestamp"
    column: str

    @property
    def fence_column(self) -> str:
        return self.column

    @property
    def cleared(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True)
class TextMarker:
    """A text in an existing column; whatever else stands there is an old error, and means that the row is free."""

    kind_of_form: ClassVar[str] = "marker"
    column: str
    kind: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z0-9_]+", str(self.kind)):
            raise DeclarationError(
                f"Marker kind {self.kind!r}: letters, digits and _ only, for it stands between colons"
            )

    @property
    def prefix(self) -> str:
        return f"PROCESSING:{self.kind}:"

    @property
    def fence_column(self) -> str:
        return self.column

    @property
    def cleared(self) -> tuple[str, ...]:
        return (self.column,)


Form = ClaimColumns | TimestampClaim | TextMarker
_FORMS: dict[str, type[Form]] = {form.kind_of_form: form for form in (ClaimColumns, TimestampClaim, TextMarker)}


def form_columns(form: Form) -> tuple[str, ...]:
    """The columns that the form writes."""
    return tuple(dict.fromkeys((*form.cleared, form.fence_column)))


def form_roles(form: Form) -> tuple[tuple[str, str], ...]:
    """The same, each with what it is for."""
    match form:
        case ClaimColumns():
            return ((form.holder, "holder"), (form.until, "until"), (form.fence, "fence"))
        case TimestampClaim():
            return ((form.column, "timestamp"),)
        case TextMarker():
            return ((form.column, "marker"),)


def is_form(form: Any) -> bool:
    return isinstance(form, ClaimColumns | TimestampClaim | TextMarker)


def form_to_data(form: Form) -> dict[str, Any]:
    return {"kind_of_form": form.kind_of_form, **asdict(form)}


def form_from_data(data: Any) -> Form:
    """The way back from `form_to_data`."""
    if is_form(data):
        return data  # type: ignore[no-any-return]
    try:
        settings = dict(data)
        return _FORMS[settings.pop("kind_of_form", "columns")](**settings)
    except (KeyError, TypeError, ValueError) as error:
        raise DeclarationError(
            f"{data!r} is not the form of a claim ({error}); write {{kind_of_form = 'columns' | 'timestamp' | "
            "'marker', …} with its columns"
        ) from None
