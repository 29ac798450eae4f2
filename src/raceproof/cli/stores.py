"""Opening the store of a command, and saying in words what it answered when it did not do what was asked."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import click

from raceproof import RaceproofError, Spec, Store, bind, connect
from raceproof.cli.ends import ExitCode, Failure
from raceproof.cli.location import Location
from raceproof.statement import AcknowledgementLost

_SECONDS_TO_CONNECT = 10
_SETTINGS: dict[str, dict[str, Any]] = {
    "postgres": {"connect_timeout": _SECONDS_TO_CONNECT},
    "redis": {"socket_connect_timeout": _SECONDS_TO_CONNECT},
}
_UNREACHABLE_SQLITE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
}
_CHECK_VIOLATION = "23514"


@contextmanager
def open_store(
    location: Location | None, spec: Spec[Any] | None = None, tenant: str | None = None
) -> Iterator[Store]:
    """The store at a location, closed at the end; errors that are a part of life become a Failure."""
    if location is None:
        raise click.UsageError("which store? Say --url, or set RACEPROOF_URL or DATABASE_URL.")
    if spec is not None and spec.tenant and tenant is None:
        raise click.UsageError(f"{spec} has a tenant column {spec.tenant!r}: say whose rows with --tenant.")
    try:
        with _opened(location, tenant) as store:
            yield store
    except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        raise _failure(error, location) from error


@contextmanager
def _opened(location: Location, tenant: str | None) -> Iterator[Store]:
    if location.kind != "sqlite":
        settings = {
            name: value
            for name, value in _SETTINGS[location.kind].items()
            if name not in urlsplit(location.url).query
        }
        with connect(location.url, tenant=tenant, **settings) as store:
            yield store
        return
    # Not by `connect`: that would create a file which does not exist, and change the journal of one which does.
    if not location.path.is_file():
        raise Failure(
            f"there is no file {location.path}",
            ExitCode.UNREACHABLE,
            "sqlite:///name is relative to the current folder, sqlite:////name is absolute.",
        )
    opening = sqlite3.connect(
        f"file:{quote(str(location.path))}?mode=rw", uri=True, isolation_level=None, timeout=30.0
    )
    with closing(opening) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        yield bind(connection, tenant=tenant)


def _failure(error: Exception, location: Location) -> Failure:
    code, message = _meaning(error)
    advice = "\n".join(getattr(error, "__notes__", ()))
    if not advice and not isinstance(error, RaceproofError):
        advice = "`raceproof verify` compares the database with the declaration."
    if code == ExitCode.UNREACHABLE:
        message, advice = f"the store at {location} cannot be reached: {message}", ""
    return Failure(message, code, advice)


def _meaning(error: Exception) -> tuple[ExitCode, str]:
    """An error of ours or of a driver: the exit code, and what it says in one line."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    driver = type(error).__module__.partition(".")[0]
    if isinstance(error, AcknowledgementLost):
        return ExitCode.UNREACHABLE, _meaning(error.__cause__)[1] if isinstance(
            error.__cause__, Exception
        ) else said
    if isinstance(error, RaceproofError):
        return ExitCode.ERROR, said
    if isinstance(error, sqlite3.Error):
        if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _UNREACHABLE_SQLITE:
            return ExitCode.UNREACHABLE, said
        return _refused("raceproof_guard_" in said), said
    if driver == "psycopg":
        if _named(error, "OperationalError") or _named(error, "InterfaceError"):
            return ExitCode.UNREACHABLE, said
        return _refused(getattr(error, "sqlstate", None) == _CHECK_VIOLATION), said
    if driver == "redis":
        lost = _named(error, "ConnectionError") or _named(error, "TimeoutError")
        return (ExitCode.UNREACHABLE if lost else ExitCode.ERROR), said
    if isinstance(error, OSError):
        return ExitCode.UNREACHABLE, said
    raise error


def _refused(by_guard: bool) -> ExitCode:
    return ExitCode.REFUSED if by_guard else ExitCode.ERROR


def _named(error: Exception, name: str) -> bool:
    """Whether an error is of a class with this name, without importing its driver."""
    return any(cls.__name__ == name for cls in type(error).__mro__)
