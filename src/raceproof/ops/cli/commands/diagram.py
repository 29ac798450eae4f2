"""`raceproof diagram`: draw a lifecycle."""

from pathlib import Path

import click

from raceproof.ops import diagram as pictures
from raceproof.ops.cli.exits import Failure
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.shell_completion import complete_lifecycle
from raceproof.ops.cli.targets import find_lifecycles

_FORMATS = {"ascii": pictures.ascii_diagram, "mermaid": pictures.mermaid, "svg": pictures.svg}


@click.command(
    epilog="""\b
Examples:
  raceproof diagram --app shop.models Order
  raceproof diagram --app shop.models --format mermaid >> README.md
  raceproof diagram --app order.toml --format svg --output order.svg"""
)
@click.argument("names", metavar="[LIFECYCLE]...", nargs=-1, shell_complete=complete_lifecycle)
@shared_options("app")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(_FORMATS)),
    default="ascii",
    show_default=True,
    help="The kind of diagram.",
)
@click.option("--output", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def diagram(options: Options, names: tuple[str, ...], form: str, file: Path | None) -> None:
    """Draw lifecycles: the named ones, or all. Needs no database.

    ascii is for terminals, mermaid for documents, svg for pages: a self-contained file, readable in light and dark mode
    and on a phone. An svg shows one lifecycle.
    """
    specs = find_lifecycles(options.apps, names)
    if form == "svg" and len(specs) > 1:
        raise click.UsageError(f"an svg shows one lifecycle; name one of {', '.join(map(str, specs))}.")
    text = "\n".join(_FORMATS[form](spec) for spec in specs)
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {file}", err=True)
