"""The seven pages of `kb/` (note 001) say what the code does: every name in them exists, and nothing is left out."""

import re
from pathlib import Path

import pytest
import yaml

import imagebot
from imagebot import lifecycle
from imagebot.cli import main
from imagebot.handlers.menu import COMMANDS
from imagebot.metrics import Metrics
from imagebot.settings import Settings

HERE = Path(imagebot.__file__).parent
TRUTH = yaml.safe_load((HERE / "product" / "truth.yaml").read_text())
PAGES = ("project", "architecture", "patterns", "features", "database", "deployment", "monitoring")
SOURCES = {
    path: path.read_text()
    for path in sorted(HERE.rglob("*.py"))
    if not {"simulators", "measure"} & set(path.relative_to(HERE).parts)
}
SOURCE = "\n".join(SOURCES.values())

SETTINGS = {(field.alias or name).upper() for name, field in Settings.model_fields.items()}
COMMAND = re.compile(r'Command\("(\w+)"\)')
TAG = re.compile(r"\[([A-Z]{2,}(?:_[A-Z]+)*)\]")
TAGS = {
    tag
    for tag in (*TAG.findall(re.sub(r"\w\[[A-Z_]+\]", "", SOURCE)), *TRUTH["delivery"]["log_tags"])
    if tag != "NOT_BEING_SENT"
} | {"DB_UNAVAILABLE", "START_FAILED", "TASK_CREATED", "TASK_NOT_NEEDED"}
METRICS = set(re.findall(r'"(imagebot_\w+)"', (HERE / "metrics.py").read_text()))
BOT_COMMANDS = {*COMMAND.findall(SOURCE), *COMMANDS, "language", "topup"}


def page(name: str) -> str:
    return (HERE / "kb" / f"{name}.md").read_text()


def names(name: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`\n]+)`", page(name))


def test_there_are_the_seven_pages_of_the_note() -> None:
    assert sorted(path.stem for path in (HERE / "kb").glob("*")) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_file_setting_tag_metric_and_command_that_a_page_names_exists(name: str) -> None:
    unknown = []
    for one in names(name):
        words = one.split()
        if re.fullmatch(r"[\w/]+\.(py|sql|yaml|md)", one):
            exists = (HERE / one).is_file()
        elif re.fullmatch(r"[A-Z]{2,}(_[A-Z]+)*", one):
            exists = one in SETTINGS | TAGS
        elif one.startswith("imagebot_"):
            exists = one in METRICS
        elif words[0] == "imagebot":
            exists = words[1] in main.commands
        elif re.fullmatch(r"(GET|POST) /\S+", one):
            exists = one in TRUTH["routes"]
        elif one.startswith("/"):
            exists = words[0][1:] in BOT_COMMANDS or f"GET {one}" in TRUTH["routes"]
        else:
            exists = words[0].strip("*") in SOURCE or one in SOURCE or one.startswith("from module")
        unknown += [] if exists else [one]
    assert unknown == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deployment", SETTINGS),
        ("monitoring", TAGS | METRICS),
        (
            "database",
            {*TRUTH["database"]["tables"], *(f"migrations/{one}" for one in TRUTH["database"]["migrations"])},
        ),
        ("features", {str(status) for status in lifecycle.Status}),
        ("architecture", {str(path.relative_to(HERE)) for path in SOURCES if not path.name.startswith("__")}),
        ("architecture", set(TRUTH["routes"])),
    ],
)
def test_a_page_leaves_nothing_out(name: str, expected: set[str]) -> None:
    assert expected - set(names(name)) == set()


def test_every_command_of_the_bot_is_on_the_page_of_features() -> None:
    named = {one.split()[0][1:] for one in names("features") if one.startswith("/")}
    assert named == BOT_COMMANDS


def test_the_figures_on_the_pages_are_those_of_truth_yaml() -> None:
    queue, lock = TRUTH["queue"], TRUTH["lock"]
    for words in (
        f"at most {queue['capacity']} updates",
        f"works on {queue['workers']} at once",
        f"within {queue['fast_ack_milliseconds']} ms",
        f"silent for {lock['takeover_seconds']} s",
        f"every {lock['heartbeat_seconds']} s",
        f"after {TRUTH['delivery']['stale_seconds']} s",
    ):
        assert words in " ".join(page("architecture").split()), words
    for metric in queue["metrics"]:
        assert metric in page("monitoring")
    assert f"within {TRUTH['database']['connect_timeout_seconds']} s" in " ".join(page("deployment").split())
    assert set(Metrics().registry._names_to_collectors) >= METRICS
