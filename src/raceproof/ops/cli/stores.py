"""Opening the store of a command, and turning errors of drivers into exit codes and messages."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import click

from raceproof import RaceproofError, Store, StoreUnavailable, bind, connect
from raceproof.declare import Spec
from raceproof.kernel.statement import AcknowledgementLost
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.exits import ExitCode, Failure, is_unwritable
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import Options, Run
from raceproof.ops.cli.output import printable

T = TypeVar("T")

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
_DATA_EXCEPTION = "22"


@contextmanager
def open_store(options: Options, spec: Spec[Any] | None = None) -> Iterator[Store]:
    """The store that the options name, closed at the end; errors to be expected become a Failure."""
    location = need_location(options)
    if spec is not None and spec.tenant and options.tenant is None:
        raise click.UsageError(f"{spec} has a tenant column {spec.tenant!r}: name the tenant with --tenant.")
    try:
        with _opened(location, options.tenant) as store:
            yield store
    except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        if is_unwritable(error):
            raise
        raise _failure(error, location, spec) from error


def need_location(options: Options) -> Location:
    """The location of the store; a usage error without one."""
    if options.location is None:
        raise click.UsageError("no store given: use --url, or set RACEPROOF_URL or DATABASE_URL.")
    return options.location


def read_each(
    options: Options, targets: Sequence[Target[Any]], read: Callable[[Store, Target[Any]], Iterable[T]]
) -> tuple[list[T], ExitCode]:
    """Read all targets; report those that could not be read, and go on with the others."""
    found: list[T] = []
    failures: list[Failure] = []
    with open_store(options) as store:
        for target in targets:
            try:
                found += read(store, target)
            except Exception as error:
                failure = _failure(error, options.location)
                if failure.code == ExitCode.UNREACHABLE:
                    raise failure from error
                failures.append(Failure(f"{target.name}: {failure.message}", failure.code, failure.advice))
    if failures and len(failures) == len(targets):
        raise failures[0]
    run = click.get_current_context().ensure_object(Run)
    unread = [f"could not be read: {failure.message}" for failure in failures]
    for line in (*unread, *dict.fromkeys(failure.advice for failure in failures)):
        click.echo(printable(run.redacted(line)), err=True)
    return found, ExitCode.PARTLY if failures else ExitCode.OK


@contextmanager
def _opened(location: Location, tenant: str | None) -> Iterator[Store]:
    if location.kind != "sqlite":
        settings = {
            name: value for name, value in _SETTINGS[location.kind].items() if name not in urlsplit(location.url).query
        }
        with _connected(location, tenant, settings) as store:
            yield store
        return
    # Not by `connect`: that would create a file which does not exist, and change the journal of one which does.
    if not location.path.is_file():
        raise Failure(
            f"no such file: {location.path}",
            ExitCode.UNREACHABLE,
            "sqlite:///name is relative to the current folder, sqlite:////name is absolute.",
        )
    opening = sqlite3.connect(f"file:{quote(str(location.path))}?mode=rw", uri=True, isolation_level=None, timeout=30.0)
    with closing(opening) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        yield bind(connection, tenant=tenant)


def _connected(location: Location, tenant: str | None, settings: dict[str, Any]) -> Store:
    """Open a store; a URL that the driver rejects is a usage error, with or without a server."""
    try:
        return connect(location.url, tenant=tenant, **settings).open()
    except Exception as error:
        if isinstance(error, TypeError | ValueError) or _named(error, "ProgrammingError"):
            said = str(error).strip().splitlines()[0]
            if unknown := re.search(r"unexpected keyword argument ('\w+')", said):
                said = f"unknown setting {unknown[1]}"
            raise click.UsageError(f"the driver rejects the URL of the store: {said}") from error
        raise


def _failure(error: Exception, location: Location | None, spec: Spec[Any] | None = None) -> Failure:
    code, message = _meaning(error)
    advice = "\n".join(getattr(error, "__notes__", ()))
    if spec is not None and str(getattr(error, "sqlstate", "")).startswith(_DATA_EXCEPTION):
        advice = f"A value does not fit its column; the key of {spec} is {', '.join(spec.key_columns)}."
    if not advice and not isinstance(error, RaceproofError):
        advice = _advice(location, spec)
    if code == ExitCode.UNREACHABLE:
        message, advice = f"cannot reach the store at {location}: {message}", ""
    return Failure(message, code, advice)


def _advice(location: Location | None, spec: Spec[Any] | None) -> str:
    """What to do next: verify knows lifecycles only, doctor also leases, inboxes and deliveries."""
    if spec is not None:
        return "`raceproof verify` compares the database with the declaration."
    compares = "`raceproof doctor` compares the store with the declarations"
    if location is not None and location.kind == "redis":
        return f"{compares}."
    return f"{compares}, `raceproof sql` prints the missing DDL."


def _meaning(error: Exception) -> tuple[ExitCode, str]:
    """The exit code for an error of the library or a driver, and its message in one line."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    driver = type(error).__module__.partition(".")[0]
    if isinstance(error, AcknowledgementLost):
        return ExitCode.UNREACHABLE, _meaning(error.__cause__)[1] if isinstance(error.__cause__, Exception) else said
    if isinstance(error, RaceproofError):
        return ExitCode.UNREACHABLE if isinstance(error, StoreUnavailable) else ExitCode.ERROR, said
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
