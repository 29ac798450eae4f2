"""`raceproof web`: the dashboard of any application on the library, in a browser on this machine."""

import ipaddress
import os
import secrets
import sqlite3
from typing import Any
from urllib.parse import quote

import click

from raceproof import Attempts, Delivery, Inbox, Lease, connect
from raceproof.connect.sqlite_writer import SqliteWriter
from raceproof.connect.url import Connecting
from raceproof.declare import Claimable, Spec
from raceproof.kernel.errors import CallError, missing_extra
from raceproof.ops.cli.changes import by_option, login_name
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode, Failure
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import Run, app_option, debug_option, url_option
from raceproof.ops.cli.things import find_things
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
On another address than this machine's own a token is needed. Put TLS in front of it there."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(*_KINDS))
@app_option
@url_option
@click.option("--tenant", help="Show this tenant alone; what has no tenant column is left out.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any free one.")
@click.option(
    "--name",
    "host_names",
    multiple=True,
    help="A name by which browsers may ask for it, beside this machine's own. May be given several times.",
)
@click.option("--prefix", default="", help="The path under which a proxy shows it, as /raceproof.")
@click.option(
    "--token",
    envvar="RACEPROOF_WEB_TOKEN",
    show_envvar=True,
    help="What a visitor must know; better in the environment than on the command line.",
)
@click.option("--allow-changes", is_flag=True, help="Let those who have the token change things.")
@click.option("--create-audit", is_flag=True, help="Create the table of the audit, or the column that it lacks.")
@click.option("--title", default="raceproof", show_default=True, help="The name of the page.")
@by_option
@debug_option
@click.pass_context
def web(
    context: click.Context,
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    host: str,
    port: int,
    host_names: tuple[str, ...],
    prefix: str,
    token: str | None,
    allow_changes: bool,
    create_audit: bool,
    title: str,
    by: str | None,
) -> None:
    """Serve the dashboard.

    On this machine alone, and read-only, unless you say otherwise. Every change is made through the guards that hold for
    everybody, and leaves a line in the audit with who and why. Ctrl-C ends it.
    """
    if location is None:
        raise click.UsageError("which store? Say --url, or set RACEPROOF_URL or DATABASE_URL.")
    if not _is_loopback(host) and not token:
        raise click.UsageError(
            f"--host {host} can be reached from elsewhere: set RACEPROOF_WEB_TOKEN to something long and secret."
        )
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise click.UsageError(f"the token needs {_SHORTEST_TOKEN} characters at least.")
    if prefix and not prefix.startswith("/"):
        raise click.UsageError("--prefix begins with a slash.")
    given = token is not None
    if allow_changes and token is None:
        token = secrets.token_urlsafe(18)
    run = context.ensure_object(Run)
    run.secrets |= {token} if token else set()
    targets = find_things(apps, names, *_KINDS)
    _serve(
        [target.thing for target in targets],
        location,
        tenant,
        host,
        port,
        {"title": title, "hosts": ("127.0.0.1", "localhost", "::1", host, *host_names)},
        prefix.rstrip("/"),
        token,
        by or login_name(),
        allow_changes,
        create_audit,
        shown_token=None if given else token,
    )


def _serve(
    things: list[Any],
    location: Location,
    tenant: str | None,
    host: str,
    port: int,
    settings: dict[str, Any],
    prefix: str,
    token: str | None,
    actor: str,
    changes: bool,
    create_audit: bool,
    shown_token: str | None,
) -> None:
    try:
        import uvicorn

        from raceproof.ops.web import dashboard
        from raceproof.ops.web.serving import impatient
        from raceproof.ops.web.token import TokenAccess
    except ImportError as error:
        raise missing_extra(str(error.name), "web") from error
    authorize = TokenAccess(token, actor, changes) if token else None
    app = dashboard(
        opening(location, tenant, read_only=not (changes or create_audit)),
        *things,
        authorize=authorize,
        where=str(location),
        **settings,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            try:
                await app.board.source.store()
                if create_audit:
                    await app.board.audit.create()
                if changes and (missing := await app.board.audit.missing()):
                    raise Failure(
                        f"table {app.board.audit.table} does not exist or has no tenant column, "
                        "and nothing is changed without an audit",
                        advice=f"Create it, or say --create-audit:\n\n{missing}",
                    )
            except Failure:
                raise
            except CallError as error:
                raise Failure(f"the dashboard cannot use {location}: {error}") from error
            except Exception as error:
                said = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise Failure(f"the store at {location} cannot be reached: {said}", ExitCode.UNREACHABLE) from error
            await super().startup(sockets)
            if self.started:
                self._tell()

        async def shutdown(self, sockets: Any = None) -> None:
            await app.board.pages.close()  # an open page would hold up the end
            await super().shutdown(sockets)

        def _tell(self) -> None:
            bound = self.servers[0].sockets[0].getsockname()
            shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
            click.echo(f"The dashboard is at http://{shown}:{bound[1]}{prefix}/", err=True)
            click.echo(f"It shows {location}, {'and may change it' if changes else 'read-only'}.", err=True)
            if shown_token:
                click.echo(f"Its token, which it will ask for: {shown_token}", err=True)

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
    except SystemExit as error:  # uvicorn's own word for an address that is taken
        raise Failure(f"it cannot listen on {host} port {port}", ExitCode.ERROR) from error


def _under(prefix: str, app: Any) -> Any:
    """The application under a prefix, whether a proxy in front of it leaves the prefix in the path or not."""
    if not prefix:
        return app

    async def prefixed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            path = path if path.startswith(f"{prefix}/") else prefix + (path if path != prefix else "/")
            scope = {**scope, "root_path": prefix, "path": path}
        await app(scope, receive, send)

    return prefixed


class _Reading(Connecting):
    """A store of SQLite that exists already, opened without changing how it is written."""

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


def opening(location: Location, tenant: str | None, read_only: bool) -> Connecting:
    """How the store is opened: one that is only looked at cannot be written to, and no question may take long."""
    match location.kind:
        case "sqlite":
            if not location.path.is_file():
                raise Failure(f"there is no file {location.path}", ExitCode.UNREACHABLE)
            return _Reading(location, tenant, read_only)
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
