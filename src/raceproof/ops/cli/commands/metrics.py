"""`raceproof metrics`: the state of a store, for Prometheus."""

import signal
import threading
from collections.abc import Callable

import click

from raceproof import Attempts, Inbox, Lease
from raceproof.declare import Claimable, Spec
from raceproof.kernel.errors import missing_extra
from raceproof.ops.cli.exits import Failure
from raceproof.ops.cli.options import Options, Run, shared_options
from raceproof.ops.cli.output import printable
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_targets
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
Decisions are counted in the application: call raceproof.ops.metrics.count_decisions() there."""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(*_KINDS))
@shared_options("app", "url", "tenant")
@click.option(
    "--serve", metavar="[HOST:]PORT", help="Serve GET /metrics until interrupted; HOST is 127.0.0.1 by default."
)
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=15.0,
    show_default=True,
    help="Seconds between reads of the store, with --serve.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Count the rows at a status up to this many.",
)
@click.pass_context
def metrics(context: click.Context, options: Options, names: tuple[str, ...], serve: str | None, every: float) -> None:
    """Print or serve the state of a store, for Prometheus.

    Rows by status, held claims, active attempts, leases, and the oldest waiting event. TARGET is anything declared;
    without one, everything. Counts are bounded, and label values come from declarations alone.
    """
    host, port = _address(serve) if serve is not None else ("", 0)
    things = [target.thing for target in find_targets(options.apps, names, *_KINDS)]
    try:
        from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    except ImportError as error:
        raise missing_extra("prometheus-client", "metrics") from error
    registry = CollectorRegistry()
    with open_store(options) as store:
        gauges = StateGauges(registry)

        def refresh() -> None:
            gauges.show(snapshot(store, *things, limit=options.limit).readings(leases=True))

        refresh()  # an unreadable store fails before the first scrape
        if serve is None:
            click.echo(generate_latest(registry).decode(), nl=False)
            return
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise Failure(f"cannot serve on {host}:{port}: {error.strerror or error}") from error
        click.echo(f"serving http://{host}:{server.server_port}/metrics", err=True)
        _refresh_until_stopped(refresh, gauges, every, context.find_object(Run) or Run())
        server.shutdown()
        server.server_close()
        thread.join()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5) or int(port) > 65535:
        raise click.UsageError(f"--serve must be PORT or HOST:PORT, such as 9464 or 127.0.0.1:9464, got {text!r}.")
    return (host.strip("[]") if colon else "127.0.0.1"), int(port)


def _refresh_until_stopped(refresh: Callable[[], None], gauges: StateGauges, every: float, run: Run) -> None:
    """Until SIGINT or SIGTERM. While the store does not answer, no gauges are shown."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(every):
        try:
            refresh()
        except Exception as error:
            gauges.show(())
            click.echo(printable(run.redacted(f"the store does not answer: {error}")), err=True)
