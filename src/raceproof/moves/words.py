"""What PostgreSQL and SQLite say differently about time and about NULL; everything that decides is written once."""

from typing import Protocol

from raceproof.predicate import Kind

_FORMAT = "'%Y-%m-%d %H:%M:%f'"


class Words(Protocol):
    """What a dialect says about time; moments are in its own type, seconds are numbers. And where it sorts NULL."""

    nulls_first: bool
    same: str
    """Compares like `=`, and NULL is the same as NULL."""

    def once(self, value: str) -> str:
        """A value that is the same for all rows, computed once for the whole statement."""
        ...

    def plus(self, moment: str, seconds: str) -> str: ...
    def microseconds(self, moment: str) -> str: ...
    def seconds_text(self, moment: str) -> str: ...
    def greatest(self, first: str, second: str) -> str: ...
    def step(self, column: str) -> str: ...
    def unique(self, moment: str) -> str: ...
    def marked_at(self, column: str) -> str: ...
    def spelled(self, kind: Kind, value: str) -> str:
        """A moment or a UUID in one spelling, where a column may have several."""
        ...


class PostgresWords:
    """What PostgreSQL says about time, and about NULL."""

    nulls_first = False
    same = "IS NOT DISTINCT FROM"

    def once(self, value: str) -> str:
        return f"(SELECT {value})"

    def plus(self, moment: str, seconds: str) -> str:
        return f"{moment} + make_interval(secs => {seconds}::float8)"

    def microseconds(self, moment: str) -> str:
        return f"(extract(epoch FROM {moment}) * 1000000)::bigint"

    def seconds_text(self, moment: str) -> str:
        return f"extract(epoch FROM {moment})::numeric(20, 6)::text"

    def greatest(self, first: str, second: str) -> str:
        return f"GREATEST({first}, {second})"

    def step(self, column: str) -> str:
        return f"{column} + INTERVAL '1 microsecond'"

    def unique(self, moment: str) -> str:
        return moment  # no two statements have the same microsecond

    def marked_at(self, column: str) -> str:
        seconds = f"substring({column} FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{{1,12}}([.][0-9]{{1,9}})?)$')"
        return f"to_timestamp({seconds}::float8)"

    def spelled(self, kind: Kind, value: str) -> str:
        return value


class SqliteWords:
    """What SQLite says about time: moments are texts in UTC with milliseconds, which sort as they are. And about NULL."""

    nulls_first = True
    same = "IS"

    def once(self, value: str) -> str:
        return value  # with no column in it, SQLite does so by itself

    def plus(self, moment: str, seconds: str) -> str:
        return f"strftime({_FORMAT}, {moment}, printf('%+.3f seconds', {seconds}))"

    def microseconds(self, moment: str) -> str:
        return f"CAST((julianday({moment}) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000"

    def seconds_text(self, moment: str) -> str:
        return f"printf('%.3f', (julianday({moment}) - 2440587.5) * 86400.0)"

    def greatest(self, first: str, second: str) -> str:
        return f"max({first}, {second})"

    def step(self, column: str) -> str:
        return f"COALESCE({self.plus(column, '0.001')}, '')"

    def unique(self, moment: str) -> str:
        return f"{moment} || printf('%06d', abs(random() % 400000))"  # rounds to the same millisecond

    def marked_at(self, column: str) -> str:
        # three parts between colons, and then seconds: what follows the last colon
        last = f"substr({column}, length(rtrim({column}, replace({column}, ':', ''))) + 1)"
        well_formed = (
            f"{column} GLOB 'PROCESSING:?*:?*:[0-9]*'",
            f"{column} NOT GLOB '*:*:*:*:*'",
            f"{last} GLOB '*[0-9]'",
            f"{last} NOT GLOB '*[^0-9.]*'",
            f"{last} NOT GLOB '*.*.*'",
            # at most so many digits before and after the point: a time in milliseconds would hold the row for ages
            f"instr({last} || '.', '.') <= 13",
            f"length({last}) - instr({last} || '.', '.') <= 9",
        )
        marked = f"strftime({_FORMAT}, CAST({last} AS REAL), 'unixepoch')"
        return f"CASE WHEN {' AND '.join(well_formed)} THEN {marked} END"

    def spelled(self, kind: Kind, value: str) -> str:
        match kind:
            case "moment":
                # Django leaves zero microseconds out, SQLAlchemy writes six digits, a stamp has three
                return f"strftime({_FORMAT}, {value})"
            case "uuid":
                # both ORMs store 32 digits, others the usual 36 characters
                return f"replace(lower({value}), '-', '')"
            case "value":
                return value
