"""`raceproof web`: serve the dashboard of any application that uses the library."""

import ipaddress
import os
import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import click

from raceproof import Attempts, Delivery, Inbox, Lease, connect
from raceproof.connect.sqlite_writer import SqliteWriter
from raceproof.connect.url import Connecting
from raceproof.declare import Claimable, Spec
from raceproof.kernel.errors import CallError, missing_extra
from raceproof.ops.cli.exits import ExitCode, Failure
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import Options, Run, shared_options
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import need_location
from raceproof.ops.cli.targets import find_targets
from raceproof.store import AsyncStore

_KINDS = (Spec, Claimable, Delivery, Attempts, Lease, Inbox)
_SHORTEST_TOKEN = 12
_SECONDS_TO_CONNECT = 10
_SECONDS_FOR_A_STATEMENT = 5
_MOST_CONNECTIONS = 400


@click.command(
    epilog="""\b
Examples:
  raceproof web --app shop.models --url postgresql://localhost/shop
  raceproof web --app shop.models --allow-changes                    (prints a token)
  RACEPROOF_WEB_TOKEN=… raceproof web --app shop.models --host 0.0.0.0 --name ops.example

\b
Any other address than this machine's own requires a token. Put TLS in front of it."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(*_KINDS))
@shared_options("app", "url", "by")
@click.option("--tenant", help="Show the rows of this tenant alone; tables without a tenant column are hidden.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 picks a free one.")
@click.option(
    "--name", "host_names", multiple=True, help="A further host name to answer to, besides localhost. Repeatable."
)
@click.option("--prefix", default="", help="The path prefix behind a proxy, such as /raceproof.")
@click.option(
    "--token",
    envvar="RACEPROOF_WEB_TOKEN",
    show_envvar=True,
    help="The token that visitors must enter; pass it in the environment rather than here.",
)
@click.option("--allow-changes", is_flag=True, help="Let visitors with the token make changes.")
@click.option("--create-audit", is_flag=True, help="Create the audit table, or its missing column.")
@click.option("--title", default="raceproof", show_default=True, help="The title of the pages.")
@click.pass_context
def web(
    context: click.Context,
    options: Options,
    names: tuple[str, ...],
    host: str,
    port: int,
    host_names: tuple[str, ...],
    prefix: str,
    token: str | None,
    allow_changes: bool,
    create_audit: bool,
    title: str,
) -> None:
    """Serve the dashboard.

    Local and read-only by default. Changes go through the same guards as every other call, and each is recorded in the
    audit with actor and reason. Stop it with Ctrl-C.
    """
    location = need_location(options)
    if not _is_loopback(host) and not token:
        raise click.UsageError(
            f"--host {host} is reachable from other machines: set RACEPROOF_WEB_TOKEN to a long secret."
        )
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise click.UsageError(f"the token must have at least {_SHORTEST_TOKEN} characters, got {len(token)}.")
    if prefix and not prefix.startswith("/"):
        raise click.UsageError(f"--prefix must begin with a slash, got {prefix!r}.")
    generated = secrets.token_urlsafe(18) if allow_changes and token is None else None
    token = token or generated
    context.ensure_object(Run).secrets |= {token} if token else set()
    targets = find_targets(options.apps, names, *_KINDS)
    try:
        from raceproof.ops.web import dashboard
        from raceproof.ops.web.token import TokenAccess
    except ImportError as error:
        raise missing_extra(str(error.name), "web") from error
    app = dashboard(
        open_lazily(location, options.tenant, read_only=not (allow_changes or create_audit)),
        *(target.thing for target in targets),
        authorize=TokenAccess(token, options.actor, allow_changes) if token else None,
        where=str(location),
        title=title,
        hosts=("127.0.0.1", "localhost", "::1", host, *host_names),
    )
    notes = [f"It shows {location}, {'and may change it' if allow_changes else 'read-only'}."]
    notes += [f"Its token, which it will ask for: {generated}"] if generated else []
    _serve(app, location, host, port, prefix.rstrip("/"), allow_changes, create_audit, notes)


def _serve(
    app: Any,
    location: Location,
    host: str,
    port: int,
    prefix: str,
    changes: bool,
    create_audit: bool,
    notes: Sequence[str],
) -> None:
    import uvicorn

    from raceproof.ops.web.server import impatient

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            try:
                await app.board.source.store()
                if create_audit:
                    await app.board.audit.create()
                if changes and (missing := await app.board.audit.missing()):
                    raise Failure(
                        f"table {app.board.audit.table} does not exist or lacks its tenant column, and the dashboard "
                        "makes no changes without an audit",
                        advice=f"Create it, or pass --create-audit:\n\n{missing}",
                    )
            except Failure:
                raise
            except CallError as error:
                raise Failure(f"the dashboard cannot use {location}: {error}") from error
            except Exception as error:
                said = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise Failure(f"cannot reach the store at {location}: {said}", ExitCode.UNREACHABLE) from error
            await super().startup(sockets)
            if self.started:
                bound = self.servers[0].sockets[0].getsockname()
                name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
                for line in (f"The dashboard is at http://{name}:{bound[1]}{prefix}/", *notes):
                    click.echo(line, err=True)

        async def shutdown(self, sockets: Any = None) -> None:
            await app.board.pages.close()  # an open page would delay the shutdown
            await super().shutdown(sockets)

    server = Server(
        uvicorn.Config(
            _under(prefix, app),
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=15,
            limit_concurrency=_MOST_CONNECTIONS,
            http=impatient(),
            ws="none",
        )
    )
    try:
        server.run()
    except SystemExit as error:  # uvicorn exits if the address is in use
        raise Failure(f"cannot listen on {host} port {port}", ExitCode.ERROR) from error


def _under(prefix: str, app: Any) -> Any:
    """The application under a prefix, whether or not a proxy keeps the prefix in the path."""
    if not prefix:
        return app

    async def prefixed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            path = path if path.startswith(f"{prefix}/") else prefix + (path if path != prefix else "/")
            scope = {**scope, "root_path": prefix, "path": path}
        await app(scope, receive, send)

    return prefixed


class _ExistingSqlite(Connecting):
    """An existing SQLite file, opened without changing its journal mode."""

    def __init__(self, location: Location, tenant: str | None, read_only: bool) -> None:
        super().__init__(location.url, tenant, {})
        self._path, self._read_only = location.path, read_only

    async def aopen(self) -> AsyncStore:
        driver = SqliteWriter(self._connection)
        await driver.open()
        return AsyncStore(driver, self.tenant)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(
            f"file:{quote(os.fspath(self._path))}?mode=rw",
            uri=True,
            isolation_level=None,
            timeout=5.0,
            check_same_thread=False,
        )
        connection.execute("PRAGMA foreign_keys = ON")
        if self._read_only:
            connection.execute("PRAGMA query_only = ON")
        return connection


def open_lazily(location: Location, tenant: str | None, read_only: bool) -> Connecting:
    """A store that is opened on first use: read-only where nothing may change, and with a time limit for each statement."""
    match location.kind:
        case "sqlite":
            if not location.path.is_file():
                raise Failure(f"no such file: {location.path}", ExitCode.UNREACHABLE)
            return _ExistingSqlite(location, tenant, read_only)
        case "postgres":
            settings: dict[str, Any] = {
                "statement_timeout": f"{_SECONDS_FOR_A_STATEMENT}s",
                "application_name": "raceproof web",
            }
            if read_only:
                settings["default_transaction_read_only"] = "on"
            return connect(location.url, tenant=tenant, timeout=_SECONDS_TO_CONNECT, server_settings=settings)
    return connect(location.url, tenant=tenant, socket_connect_timeout=_SECONDS_TO_CONNECT)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
