"""`raceproof metrics`: how a store stands, for Prometheus."""

import signal
import threading
from collections.abc import Callable

import click

from raceproof import Attempts, Inbox, Lease
from raceproof.declare import Claimable, Spec
from raceproof.kernel.errors import missing_extra
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import Failure
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import Run, app_option, debug_option, url_option
from raceproof.ops.cli.output import printable
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import find_things
from raceproof.ops.doctor.snapshot import snapshot
from raceproof.ops.metrics import StateGauges

_KINDS = (Spec, Claimable, Attempts, Lease, Inbox)


@click.command(
    epilog="""\b
Examples:
  raceproof metrics --app shop.models
  raceproof metrics --app shop.models --serve 9464
  raceproof metrics --app shop.models --serve 0.0.0.0:9464 --every 30

\b
Decisions are counted where they are made: call raceproof.count_decisions() in the application."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(*_KINDS))
@app_option
@url_option
@click.option("--tenant", help="Whose rows, where a lifecycle has a tenant column.")
@click.option("--serve", metavar="[HOST:]PORT", help="Answer GET /metrics until interrupted, on 127.0.0.1.")
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=15.0,
    show_default=True,
    help="Seconds between two looks at the store, while it serves.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Rows at a status are counted up to this many.",
)
@debug_option
@click.pass_context
def metrics(
    context: click.Context,
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    serve: str | None,
    every: float,
    limit: int,
) -> None:
    """Print or serve how a store stands, for Prometheus.

    Rows by status, claims that are held, active attempts, leases, and the oldest event that waits. TARGET is anything
    declared; without one, all of it. Counts are bounded, and label values come from declarations alone.
    """
    host, port = _address(serve) if serve is not None else ("", 0)
    things = [target.thing for target in find_things(apps, names, *_KINDS)]
    try:
        from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    except ImportError as error:
        raise missing_extra("prometheus-client", "metrics") from error
    registry = CollectorRegistry()
    with open_store(location, None, tenant) as store:
        gauges = StateGauges(registry)

        def look() -> None:
            gauges.show(snapshot(store, *things, limit=limit).readings(leases=True))

        look()  # a store that cannot be looked at is told before anybody asks
        if serve is None:
            click.echo(generate_latest(registry).decode(), nl=False)
            return
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise Failure(f"cannot serve on {host}:{port}: {error.strerror or error}") from error
        click.echo(f"serving http://{host}:{server.server_port}/metrics", err=True)
        _look_again(look, gauges, every, context.find_object(Run) or Run())
        server.shutdown()
        server.server_close()
        thread.join()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5) or int(port) > 65535:
        raise click.UsageError(f"--serve {text}: write it as 9464 or as 127.0.0.1:9464.")
    return (host.strip("[]") if colon else "127.0.0.1"), int(port)


def _look_again(look: Callable[[], None], gauges: StateGauges, every: float, run: Run) -> None:
    """Until Ctrl-C, or until whoever started it ends it. While the store does not answer there is nothing to show."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(every):
        try:
            look()
        except Exception as error:
            gauges.show(())
            click.echo(printable(run.redacted(f"the store does not answer: {error}")), err=True)
