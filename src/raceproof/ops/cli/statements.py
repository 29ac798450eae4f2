"""The finished statements of a move, without a database: its program is run, and what it yields is written down."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from raceproof.declare.spec import Move
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.redis import RedisDialect
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Program, Rows, Statement
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest, request
from raceproof.programs import Programs

_NEWEST_POSTGRES = 18
_OLDER_POSTGRES = 17


class Shown(NamedTuple):
    """A statement with its parameters as names in angle brackets."""

    name: str
    text: str
    parameters: tuple[str, ...]
    keys: tuple[str, ...]
    note: str


def statements_of(move: Move[Any], dialect: str) -> list[Shown]:
    """What one call of a move sends: first on the way where it moves the row, then what it asks where it does not."""
    if dialect == "redis":
        return _trace(RedisDialect(), move)
    if dialect == "sqlite":
        return _trace(SqliteDialect("question"), move)
    return older_and_newest(lambda version: _trace(PostgresDialect("dollar", version), move))


def older_and_newest(trace: Callable[[int], list[Shown]]) -> list[Shown]:
    """The statements for the newest PostgreSQL; those that older ones do not get are marked."""
    older = {shown.text for shown in trace(_OLDER_POSTGRES)}
    note = f"on PostgreSQL {_NEWEST_POSTGRES} and later"
    return [shown if shown.text in older else shown._replace(note=note) for shown in trace(_NEWEST_POSTGRES)]


def _trace(dialect: Any, move: Move[Any]) -> list[Shown]:
    moves = Programs(dialect).moves
    found: dict[str, Shown] = {}
    for wins in (True, False):
        asked = _request(move)
        for statement in _run(moves.one(asked), asked, wins_at=len(move.sources) if wins else 0):
            found.setdefault(statement.text, _shown(statement, asked))
    return list(found.values())


def _request(move: Move[Any]) -> MoveRequest:
    spec = move.lifecycle
    key = tuple(f"<{column}>" for column in spec.key)
    return request(
        move,
        key if len(key) > 1 else key[0],
        tenant=f"<{spec.tenant}>" if spec.tenant else None,
        set={column: f"<{column}>" for column in move.sets},
        by="<by>",
        reason="<reason>",
    )


def _run(program: Program[Answer[Any, Any]], asked: MoveRequest, wins_at: int) -> Iterator[Statement]:
    """Run a program against a store that answers with a row at the write with this number, and otherwise with none."""
    writes = 0
    try:
        statement = next(program)
        while True:
            yield statement
            rows: Rows = ()
            if statement.name == "move.write":
                writes += 1
                rows = (("<revision>", "<key>"),) if writes == wins_at else ()
            elif statement.name.startswith("move.fast") and wins_at:
                rows = (("<before>", "<revision>", *(("<holder>",) if asked.ended else ())),)
            statement = program.send(rows)
    except StopIteration:
        return


def _shown(statement: Statement, asked: MoveRequest) -> Shown:
    text = "BEGIN IMMEDIATE" if statement.name == "begin" else statement.text
    values = () if statement.name == "begin" else statement.params
    parameters = tuple("NULL" if value is None else str(value) for value in values)
    if asked.call:
        parameters = tuple(parameter.replace(asked.call, "<call>") for parameter in parameters)
    return Shown(statement.name, text, parameters, tuple(statement.keys), "")
