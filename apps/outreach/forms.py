"""The claim of a stage in the form that this process uses, beside processes that use the other one.

Both forms may be in use at once, so each looks at the other. A claim in columns leaves a row alone while a marker on it is
alive. A claim by marker leaves a row alone that `held_by_columns` names, and in the instant between looking and writing the
database itself passes such a row over (`triggers/`). And neither takes
a row whose marker was written by an older version, with a date: `PROCESSING:AI_DESC:<uuid>:2026-01-31T12:00:00`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from outreach.lifecycle import LEASE, STALE
from outreach.stages import Stage
from raceproof import Backoff, Claimable, sql


class Form(StrEnum):
    MARKER = "marker"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class Claiming:
    """How rows are claimed: in which form, for how long, and how long a row rests after its first failure."""

    form: Form = Form.COLUMNS
    dialect: str = "sqlite"
    stale: float = STALE
    lease: float = LEASE
    rest: float = 30.0

    def of(self, stage: Stage) -> Claimable[Any]:
        """What to claim, for a worker or for a call."""
        found = stage.marker if self.form is Form.MARKER else stage.columns
        return replace(
            found,
            lease=self.stale if self.form is Form.MARKER else self.lease,
            backoff=Backoff(self.rest, max(self.rest, found.backoff.most)),
            where=(*found.where, *self.apart(stage)),
        )

    def apart(self, stage: Stage) -> tuple[Any, ...]:
        """Guards against markers that the form itself does not see."""
        if self.form is Form.COLUMNS:
            other = _no_marker(stage, self.dialect, self.stale)
        else:
            other = sql(_NOT_IN_COLUMNS.replace("<stage>", stage.name))
        return _no_dated_marker(stage, self.dialect, self.stale), other


_NOT_IN_COLUMNS = "NOT EXISTS (SELECT 1 FROM held_by_columns AS h WHERE h.id = t.id AND h.stage = '<stage>')"
_NO_MARKER = {
    "postgres": """
        COALESCE(
            to_timestamp(substring(t.<error> FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{{1,12}}([.][0-9]{{1,9}})?)$')::float8)
            NOT BETWEEN clock_timestamp() - make_interval(secs => {stale}::float8)
                    AND clock_timestamp() + interval '1 day', TRUE)""",
    "sqlite": """
        COALESCE(
            t.<error> NOT GLOB 'PROCESSING:<kind>:*:[0-9]*'
            OR CAST(<time> AS REAL) NOT BETWEEN (julianday('now') - 2440587.5) * 86400.0 - {stale}
                    AND (julianday('now') - 2440587.5) * 86400.0 + 86400, TRUE)""",
}
_NO_DATED_MARKER = {
    # compared as texts, so that no date, however wrong, is an error which stops everybody's work
    "postgres": """
        COALESCE(
            replace(substring(t.<error> FROM
                '^PROCESSING:[^:]+:[^:]+:([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9:]{{8}})'), 'T', ' ') COLLATE "C"
            NOT BETWEEN to_char(timezone('UTC', clock_timestamp()) - make_interval(secs => {stale}::float8),
                    'YYYY-MM-DD HH24:MI:SS')
                AND to_char(timezone('UTC', clock_timestamp()) + interval '1 day', 'YYYY-MM-DD HH24:MI:SS'), TRUE)""",
    "sqlite": """
        COALESCE(
            t.<error> NOT GLOB 'PROCESSING:<kind>:*:[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ]*'
            OR replace(substr(<time>, 1, 19), 'T', ' ')
            NOT BETWEEN strftime('%Y-%m-%d %H:%M:%S', 'now', printf('-%d seconds', {stale}))
                AND strftime('%Y-%m-%d %H:%M:%S', 'now', '+1 day'), TRUE)""",
}
_TIME = "substr(substr(t.<error>, {begins}), instr(substr(t.<error>, {begins}), ':') + 1)"


def _no_marker(stage: Stage, dialect: str, stale: float) -> Any:
    """No marker of this library's kind is alive."""
    return sql(_filled(_NO_MARKER[dialect], stage), stale=stale)


def _no_dated_marker(stage: Stage, dialect: str, stale: float) -> Any:
    """No marker of the older kind is alive; its date is in UTC."""
    return sql(_filled(_NO_DATED_MARKER[dialect], stage), stale=stale)


def _filled(text: str, stage: Stage) -> str:
    begins = str(len(stage.form.prefix) + 1)
    text = text.replace("<time>", _TIME.replace("{begins}", begins))
    return text.replace("<error>", stage.error).replace("<kind>", stage.kind)
