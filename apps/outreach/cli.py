"""`outreach`: serve, work, migrate, campaigns, discover, reviews, stages, calls, active, stuck, doctor, storm."""

import click

from appkit import commands as kit
from outreach.cli_common import settings_or_exit
from outreach.cli_people import people
from outreach.cli_running import running_commands
from outreach.settings import Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """From podcast feeds to matches that a person reviews; nothing is described, vetted or paid for twice.

    \b
    Try it, on an embedded database with the feeds that ship with it and a simulated AI provider:
      outreach serve --simulate
      outreach reviews
      outreach match 1

    \b
    In production:
      OUTREACH_DATABASE=postgresql://… outreach migrate
      OUTREACH_DATABASE=postgresql://… OUTREACH_AI_URL=https://…/v1 OUTREACH_AI_KEY=… outreach serve

    Settings come from the environment: OUTREACH_DATABASE, _FORM (columns or marker), _RHYTHM (clock or continuous), _HOST,
    _PORT, _TOKEN, _INSTANCE, _FOLDER, _LIMITS, _AI_URL, _AI_KEY, _AI_MODEL, _AI_BUDGET and others: see `outreach settings`.
    """


for command in (*people, *running_commands):
    main.add_command(command)


@main.command()
@kit.output_option
def settings(output: str) -> None:
    """What can be set, and what is set; secrets are not shown."""
    told = settings_or_exit()
    rows = [
        {
            "setting": f"OUTREACH_{name.upper()}",
            "value": str(getattr(told, name)),
            "meaning": field.description or "",
        }
        for name, field in Settings.model_fields.items()
    ]
    kit.show(rows, output)
