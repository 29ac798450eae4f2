"""`raceproof diagram`: a lifecycle as a picture."""

from pathlib import Path

import click

from raceproof.ops import diagram as pictures
from raceproof.ops.cli.completing import complete_lifecycle
from raceproof.ops.cli.ends import Failure
from raceproof.ops.cli.options import app_option, debug_option
from raceproof.ops.cli.target import find_lifecycles

_FORMATS = {"ascii": pictures.ascii_diagram, "mermaid": pictures.mermaid, "svg": pictures.svg}


@click.command(
    epilog="""\b
Examples:
  raceproof diagram --app shop.models Order
  raceproof diagram --app shop.models --format mermaid >> README.md
  raceproof diagram --app order.toml --format svg --output order.svg"""
)
@click.argument("names", metavar="[LIFECYCLE]...", nargs=-1, shell_complete=complete_lifecycle)
@app_option
@click.option(
    "--format", "form", type=click.Choice(list(_FORMATS)), default="ascii", show_default=True, help="What to draw."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@debug_option
def diagram(names: tuple[str, ...], apps: tuple[str, ...], form: str, output: Path | None) -> None:
    """Draw lifecycles: all of them, or those that you name. Needs no database.

    ascii is for a terminal, mermaid for documents, svg for pages: one file without anything from elsewhere, readable in
    light and dark and on a phone. An svg shows one lifecycle.
    """
    specs = find_lifecycles(apps, names)
    if form == "svg" and len(specs) > 1:
        raise click.UsageError(f"an svg shows one lifecycle; name one of {', '.join(map(str, specs))}.")
    text = "\n".join(_FORMATS[form](spec) for spec in specs)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {output}", err=True)
