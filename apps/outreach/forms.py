"""The claim of a stage in the form that this process uses, beside processes that use another one.

Both forms may be in use at once, so each looks at the other. A claim in columns leaves a row alone while a marker on it is
alive. A claim by marker leaves a row alone that `held_by_columns` names, and in the instant between looking and writing the
database itself passes such a row over (`triggers/`). And neither takes
a row whose marker was written by an older version, with a date: `PROCESSING:AI_DESC:<uuid>:2026-01-31T12:00:00`.
In an adopted table the note's own code is such another process: what it has in progress without a marker is left alone too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from outreach.lifecycle import ATTEMPTS, LEASE, REST, STALE, TABLE
from outreach.stages import STAGES_OF, Layout, Stage
from raceproof import Backoff, sql
from raceproof.declare import Claimable


class Form(StrEnum):
    MARKER = "marker"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class Claiming:
    """How rows are claimed: in which form and table, for how long, and how long a row backs off after its first failure."""

    form: Form = Form.COLUMNS
    dialect: str = "sqlite"
    stale: float = STALE
    lease: float = LEASE
    rest: float = REST.first
    layout: Layout = Layout.OWN

    @property
    def stages(self) -> dict[str, Stage]:
        return STAGES_OF[self.layout]

    @property
    def adopted(self) -> bool:
        """The table is the note's own: attempts are counted beside it."""
        return self.layout is Layout.ADOPTED

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.rest, max(self.rest, REST.max_delay))

    @property
    def max_attempts(self) -> int:
        return ATTEMPTS

    def of(self, stage: Stage, rested: bool = True) -> Claimable[Any]:
        """What to claim, for a worker or for a call; for a cleanup also what backs off or has had its attempts."""
        found = stage.marker if self.form is Form.MARKER else stage.columns
        return replace(
            found,
            lease=self.stale if self.form is Form.MARKER else self.lease,
            backoff=self.backoff,
            where=(*found.where, *self.apart(stage, rested)),
        )

    def apart(self, stage: Stage, rested: bool) -> Iterator[Any]:
        """Guards against locks that the form itself does not see, and attempts that are not in the table."""
        yield self._free(_NO_DATED_MARKER, stage)
        if self.adopted:
            if rested:
                subject = "media_id" if stage.shared else "id"
                yield sql(_RESTED.replace("<stage>", stage.name).replace("<subject>", subject))
            if not stage.stays:
                text = _NOT_BEGUN_ELSEWHERE.replace("<ago>", _AGO[self.dialect])
                yield sql(self._filled(text, stage), stale=self.stale)
            if stage.name == "ai_description":
                for free in (_NO_MARKER, _NO_DATED_MARKER):
                    inner = free[self.dialect].replace("t.<error>", "o.<error>")
                    yield sql(self._filled(_NO_SIBLING.replace("<free>", inner), stage), stale=self.stale)
        elif self.form is Form.COLUMNS:
            yield self._free(_NO_MARKER, stage)
        else:
            yield sql(_NOT_IN_COLUMNS.replace("<stage>", stage.name))

    def _free(self, texts: dict[str, str], stage: Stage) -> Any:
        return sql(self._filled(texts[self.dialect], stage), stale=self.stale)

    def _filled(self, text: str, stage: Stage) -> str:
        row = "o" if "o.<error>" in text else "t"
        time = _TIME.replace("{begins}", str(len(stage.form.prefix) + 1)).replace("t.<error>", f"{row}.<error>")
        text = text.replace("<time>", time).replace("<status>", stage.lifecycle.column)
        return text.replace("<error>", stage.error).replace("<kind>", stage.kind)


_NOT_IN_COLUMNS = "NOT EXISTS (SELECT 1 FROM held_by_columns AS h WHERE h.id = t.id AND h.stage = '<stage>')"
_RESTED = """
    NOT EXISTS (SELECT 1 FROM resting AS r WHERE r.stage = '<stage>' AND r.subject_id = t.<subject>)"""
_NOT_BEGUN_ELSEWHERE = """
    (t.<status> = 'pending' OR t.<error> LIKE 'PROCESSING:<kind>:%' OR t.updated_at < <ago>)"""
_NO_SIBLING = f"""
    NOT EXISTS (SELECT 1 FROM {TABLE} AS o WHERE o.media_id = t.media_id AND o.id <> t.id
        AND o.<error> LIKE 'PROCESSING:<kind>:%' AND NOT (<free>))"""  # noqa: S608
_AGO = {
    "postgres": "clock_timestamp() - make_interval(secs => {stale}::float8)",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S', 'now', printf('-%d seconds', {stale}))",
}
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
