"""The program `raceproof`: its commands, imported on first use, and the one place where a run ends."""

import importlib
import os
import sys
import traceback
from io import StringIO
from typing import Any, NoReturn

import click

from raceproof import RaceproofError, __version__
from raceproof.kernel.shown import did_you_mean
from raceproof.ops.cli.exits import ExitCode, Failure, is_unwritable
from raceproof.ops.cli.options import Run, debug_option

# name -> where its click command is
_NAMES = (
    *("demo", "lifecycles", "sql", "grants", "diagram", "verify", "explore", "show"),
    *("explain", "move", "claims", "stuck", "delivery", "attempts", "leader"),
    *("inbox", "sweep", "doctor", "web", "top", "metrics", "completion"),
)
COMMANDS = {name: f"raceproof.ops.cli.commands.{name}:{name}" for name in _NAMES}


_KEPT = "The command has done its work; only its output is lost."


class Program(click.Group):
    """Imports commands on first use, and turns every end of a run into an exit code."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = click.utils.make_str(args[0])
        if self.get_command(context, name) is None and not name.startswith("-"):
            hint = did_you_mean(name, self.list_commands(context)) or "; see `raceproof --help`."
            raise click.UsageError(f"there is no command {name!r}{hint}", context)
        return super().resolve_command(context, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        run = Run()
        _need_streams()
        for stream in (sys.stdout, sys.stderr):
            # a terminal without arrows shows them as \u2192, which is better than a traceback
            if reconfigure := getattr(stream, "reconfigure", None):
                reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False, "obj": run})
            sys.stdout.flush()
        except BrokenPipeError:
            # the reader of the pipe has seen enough
            _forget_stdout()
            code = ExitCode.ERROR
        except click.Abort:
            click.echo("interrupted", err=True)
            code = ExitCode.INTERRUPTED
        except click.ClickException as failure:
            said = StringIO()
            if run.debug:
                traceback.print_exc(file=said)
            failure.show(said)
            click.echo(run.redacted(said.getvalue()), err=True, nl=False)
            code = failure.code if isinstance(failure, Failure) else failure.exit_code
        except RaceproofError as error:
            code = _ended(error, run)
        except Exception as error:
            if is_unwritable(error):
                _forget_stdout()
                code = _ended(Failure(f"stdout cannot be written: {error}. {_KEPT}"), run)
            else:
                code = _ended(error, run, "This should not happen. `raceproof --debug …` shows where it comes from.")
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


def _need_streams() -> None:
    """A shell can close each stream; without stdout there would be no answer, so nothing starts."""
    # a new file would reuse the descriptor of a closed stream: take it
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    closed = sys.stdout is None
    if closed:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if closed:
        click.echo("Error: stdout is closed: there is nowhere to print to.", err=True)
        sys.exit(ExitCode.ERROR)


def _forget_stdout() -> None:
    """Keep Python from writing again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _ended(error: Exception, run: Run, advice: str = "") -> ExitCode:
    name = f"{type(error).__name__}: " if advice else ""
    if run.debug:
        click.echo(run.redacted(traceback.format_exc()), err=True)
    click.echo(run.redacted(f"Error: {name}{error}"), err=True)
    if advice and not run.debug:
        click.echo(advice, err=True)
    return ExitCode.ERROR


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Name the declarations with --app and the store with --url, or once and for all:
  export RACEPROOF_APP=shop.models RACEPROOF_URL=postgresql://localhost/shop
  raceproof verify
  raceproof explain Order 1042 --to SHIPPED

\b
Exit codes: 0 ok, 1 error, 2 usage, 3 refused by a guard (explore:
inconclusive), 4 not found, 5 store unreachable, 6 problems found, 7 partly done, 130 interrupted.""",
)
@click.version_option(__version__, message="raceproof %(version)s")
@debug_option
def program() -> None:
    """Race-proof state for the rows you already have.

    One declaration of a lifecycle gives you its SQL, its diagram, the guards in the database, and the answer to why a
    row cannot move.
    """
