"""`showcase`: everything at once, for people, or with `--assert` for machines."""

from pathlib import Path

import click

from appkit import commands as kit


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Where the page is.  [default: 8000, or any if that is taken]",
)
@click.option("--assert", "headless", is_flag=True, help="Nobody watches: cause every trouble, then check.")
@click.option(
    "--minutes",
    default=120.0,
    show_default=True,
    type=click.FloatRange(0.1, 1440),
    help="How long there is traffic; the page stays until Ctrl-C.",
)
@click.option("--keep", is_flag=True, help="Keep the databases and logs, and say where they are.")
@kit.output_option
@click.pass_context
def main(context: click.Context, port: int | None, headless: bool, minutes: float, keep: bool, output: str) -> None:
    """Four applications with several instances each, the usual code beside raceproof's, and buttons that cause trouble.

    Everything is on this machine and in a temporary folder. With --assert the exit code is 1 if anything that must
    hold does not.
    """
    if context.invoked_subcommand is not None:
        return
    from showcase.running import Told
    from showcase.serving import run

    kit.log_to_stderr("WARNING")
    kit.run(run(Told(port, headless, minutes, keep, output)))


@main.command(hidden=True)
@click.argument("port", type=int)
@click.argument("home")
@click.argument("stores", nargs=-1)
def dashboards(port: int, home: str, stores: tuple[str, ...]) -> None:
    """The dashboards, read-only; the showcase starts them."""
    from showcase.dashboards import serve

    kit.log_to_stderr("WARNING")
    kit.run(serve(port, home, dict(one.split("=", 1) for one in stores)))


@main.command(hidden=True)
@click.argument("side")
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path))
def twin(side: str, name: str, folder: Path) -> None:
    """A process of one side; the showcase starts it."""
    from showcase.twins.instance import run

    kit.log_to_stderr()
    kit.run(run(side, name, folder))
