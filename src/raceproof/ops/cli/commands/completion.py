"""`raceproof completion`: the tab key, in your shell."""

import click
from click.shell_completion import get_completion_class

from raceproof.ops.cli.options import debug_option

_PROGRAM = "raceproof"


@click.command(
    epilog="""\b
Examples:
  echo 'eval "$(raceproof completion bash)"' >> ~/.bashrc
  echo 'eval "$(raceproof completion zsh)"' >> ~/.zshrc
  raceproof completion fish > ~/.config/fish/completions/raceproof.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@debug_option
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    completing = get_completion_class(shell)
    if completing is None:
        raise click.UsageError(f"{shell} is not known.")
    root = context.find_root().command
    click.echo(completing(root, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
