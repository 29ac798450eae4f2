"""`show`, `explain` and `move` on rows in each kind of store: the same words and the same exit codes everywhere."""

import json
import re

import pytest

from tests.ops.cli.conftest import APP, UUID, Cli

KEYS = [
    pytest.param("Command", "c-1", "send", (), id="text"),
    pytest.param("Job", "42", "start", (), id="int"),
    pytest.param("Ticket", UUID, "start", (), id="uuid"),
    pytest.param("Line", "7,2", "start", ("--tenant", "acme"), id="composite"),
]


@pytest.mark.parametrize(("lifecycle", "key", "move", "options"), KEYS)
def test_keys_of_every_kind_are_typed_as_text(
    cli: Cli, store_url: str, lifecycle: str, key: str, move: str, options: tuple[str, ...]
) -> None:
    """A row with a text, int, uuid or composite key is moved and then shown by the text of its key."""
    target = ("--app", APP, "--url", store_url, *options)
    moved = cli("move", *target, lifecycle, move, key, "--yes", "-o", "json")
    assert moved.exit_code == 0, moved.output
    assert [line["outcome"] for line in json.loads(moved.stdout)] == ["moved"]
    shown = json.loads(cli("show", *target, lifecycle, key, "-o", "json").stdout)
    assert shown["status"] == json.loads(moved.stdout)[0]["status"]


@pytest.mark.parametrize(("lifecycle", "key", "move", "options"), KEYS)
def test_several_keys_of_every_kind_are_moved_together(
    cli: Cli, store_url: str, lifecycle: str, key: str, move: str, options: tuple[str, ...]
) -> None:
    """A bulk takes the same texts for keys as a single move does, and a key named twice is answered twice."""
    result = cli("move", "--app", APP, "--url", store_url, *options, lifecycle, move, key, key, "--yes", "-o", "jsonl")
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["outcome"] for line in result.stdout.splitlines()] == ["moved", "already"]


def test_a_moved_row_shows_who_moved_it_and_why(cli: Cli, store_url: str) -> None:
    """The actor and the reason given on the command line stand in the history, newest first."""
    target = ("--app", APP, "--url", store_url)
    cli("move", *target, "Command", "send", "c-1", "--by", "node-7", "--reason", "by hand", "--yes")
    cli("move", *target, "Command", "ack", "c-1", "--by", "node-8", "--yes")
    history = json.loads(cli("show", *target, "Command", "c-1", "-o", "json").stdout)["history"]
    assert [(entry["move"], entry["actor"], entry["reason"]) for entry in history] == [
        ("ack", "node-8", None),
        ("send", "node-7", "by hand"),
    ]
    assert "node-7" in cli("show", *target, "Command", "c-1").stdout


def test_a_move_sets_and_clears_columns(cli: Cli, store_url: str) -> None:
    """Values given with --set arrive in the types of the columns, and --clear empties one."""
    target = ("--app", APP, "--url", store_url)
    result = cli("move", *target, "Command", "finish", "c-1", "--set", "duration_ms=42", "--set", "note=a=b", "--yes")
    assert result.exit_code == 0, result.output
    row = json.loads(cli("show", *target, "Command", "c-1", "-o", "json").stdout)["row"]
    assert (int(row["duration_ms"]), row["note"]) == (42, "a=b")
    cli(
        "move",
        *target,
        "Command",
        "finish",
        "c-2",
        "c-3",
        "--set",
        "duration_ms=7",
        "--clear",
        "note",
        "--yes",
    )
    row = json.loads(cli("show", *target, "Command", "c-3", "-o", "json").stdout)["row"]
    assert (int(row["duration_ms"]), row.get("note")) == (7, None)


def test_a_refused_move_ends_with_3_and_says_what_is_allowed(cli: Cli, store_url: str) -> None:
    """The message names the row, the status found, and the moves that lead on from there."""
    target = ("--app", APP, "--url", store_url)
    cli("move", *target, "Command", "ack", "c-1", "--by", "node-7", "--yes")
    result = cli("move", *target, "Command", "send", "c-1", "--yes")
    assert result.exit_code == 3
    assert "'c-1': it is at ACK (by node-7); allowed there: finish" in result.stderr


def test_a_move_to_where_the_row_is_already_ends_well(cli: Cli, store_url: str) -> None:
    """Running the same command twice is no error: the second answer is `already`."""
    target = ("--app", APP, "--url", store_url)
    assert cli("move", *target, "Command", "ack", "c-1", "--yes").exit_code == 0
    again = cli("move", *target, "Command", "ack", "c-1", "--yes")
    assert again.exit_code == 0
    assert "already" in again.stdout


def test_an_unmet_guard_is_named(cli: Cli, store_url: str) -> None:
    """A guard of the declaration that does not hold refuses the move, and dry run and explain foretell it."""
    target = ("--app", APP, "--url", store_url)
    explained = cli("explain", *target, "Job", "43", "--to", "RUNNING")
    assert explained.exit_code == 3
    assert "✗ start requires attempts < 3, but attempts is" in explained.stdout
    foreseen = cli("move", *target, "Job", "start", "43", "--dry-run")
    assert (foreseen.exit_code, "would be refused" in foreseen.stdout) == (3, True)
    moved = cli("move", *target, "Job", "start", "43", "--yes")
    assert (moved.exit_code, "not attempts < 3" in moved.stderr) == (3, True)


def test_a_missing_row_ends_with_4(cli: Cli, store_url: str) -> None:
    """show, explain and move say that there is no such row, and where they looked."""
    target = ("--app", APP, "--url", store_url)
    for result in (
        cli("show", *target, "Command", "nobody"),
        cli("explain", *target, "Command", "nobody", "--to", "DONE"),
        cli("move", *target, "Command", "ack", "nobody", "--yes"),
        cli("move", *target, "Command", "ack", "nobody", "--dry-run"),
    ):
        assert result.exit_code == 4
        assert "nobody" in result.stderr
        assert not result.stdout.startswith("{")


def test_a_row_of_another_tenant_does_not_exist(cli: Cli, store_url: str) -> None:
    """With another tenant the same key finds nothing, and without one the command asks for it."""
    target = ("--app", APP, "--url", store_url)
    assert cli("show", *target, "--tenant", "other", "Line", "7,2").exit_code == 4
    unasked = cli("show", *target, "Line", "7,2")
    assert (unasked.exit_code, "--tenant" in unasked.stderr) == (2, True)


def test_a_bulk_that_is_partly_done_ends_with_7(cli: Cli, store_url: str) -> None:
    """Rows that moved and rows that did not are each answered, and the code says that it was not all of them."""
    target = ("--app", APP, "--url", store_url)
    cli("move", *target, "Command", "finish", "c-2", "--yes")
    result = cli("move", *target, "Command", "ack", "c-1", "c-2", "nobody", "--yes", "-o", "json")
    assert result.exit_code == 7
    assert [line["outcome"] for line in json.loads(result.stdout)] == ["moved", "refused", "missing"]
    assert "1 moved, 1 refused, 1 missing" in result.stderr


def test_a_bulk_of_which_nothing_is_done_has_the_code_of_its_rows(cli: Cli, store_url: str) -> None:
    """Several rows that are all missing end with 4, several that are all refused with 3."""
    target = ("--app", APP, "--url", store_url)
    assert cli("move", *target, "Command", "ack", "x", "y", "--yes").exit_code == 4
    cli("move", *target, "Command", "finish", "c-1", "c-2", "--yes")
    assert cli("move", *target, "Command", "ack", "c-1", "c-2", "--yes").exit_code == 3


def test_keys_come_from_stdin_and_ids_go_to_stdout(cli: Cli, store_url: str) -> None:
    """One move's ids are the next one's keys, blank lines and Windows line ends included."""
    target = ("--app", APP, "--url", store_url)
    first = cli("move", *target, "Command", "send", "-", "--yes", "-o", "ids", input="c-1\r\n\nc-2\nnobody\n")
    assert first.stdout.split() == ["c-1", "c-2"]
    assert first.exit_code == 7
    second = cli("move", *target, "Command", "ack", "-", "--yes", "-o", "ids", input=first.stdout)
    assert (second.exit_code, second.stdout.split()) == (0, ["c-1", "c-2"])


def test_a_dry_run_writes_nothing(cli: Cli, store_url: str) -> None:
    """It says what would happen to each row and leaves row and history as they are."""
    target = ("--app", APP, "--url", store_url)
    before = cli("show", *target, "Command", "c-1", "-o", "json").stdout
    result = cli("move", *target, "Command", "ack", "c-1", "c-2", "--dry-run", "-o", "json")
    assert result.exit_code == 0
    assert [(line["outcome"], line["before"], line["status"]) for line in json.loads(result.stdout)] == [
        ("would move", "QUEUED", "ACK"),
        ("would move", "QUEUED", "ACK"),
    ]
    assert cli("show", *target, "Command", "c-1", "-o", "json").stdout == before


def test_explain_tells_the_way_round(cli: Cli, store_url: str) -> None:
    """From a status without a direct move, the shortest way of declared moves is told."""
    target = ("--app", APP, "--url", store_url)
    result = cli("explain", *target, "Job", "42", "--to", "ENDED")
    assert result.exit_code == 3
    assert "start → RUNNING, then end → ENDED" in result.stdout
    told = json.loads(cli("explain", *target, "Job", "42", "--to", "ENDED", "-o", "json").stdout)
    assert [step["move"] for step in told["path"]] == ["start", "end"]


def test_explain_ends_well_where_the_row_can_go(cli: Cli, store_url: str) -> None:
    """A row that can go there, and one that is there already, both give 0."""
    target = ("--app", APP, "--url", store_url)
    possible = cli("explain", *target, "Command", "c-1", "--move", "send")
    assert (possible.exit_code, "can move to SENT now" in possible.stdout) == (0, True)
    already = cli("explain", *target, "Command", "c-1", "--to", "QUEUED")
    assert (already.exit_code, "already" in already.stdout) == (0, True)


def test_the_key_alone_is_an_output_too(cli: Cli, store_url: str) -> None:
    """With -o ids a composite key is printed in the form in which it was given."""
    target = ("--app", APP, "--url", store_url, "--tenant", "acme", "--key-separator", "/")
    assert cli("show", *target, "Line", "7/2", "-o", "ids").stdout == "7/2\n"


def test_verify_finds_a_good_database_good(cli: Cli, store_url: str) -> None:
    """Without guards there may be warnings, but no problem."""
    result = cli("verify", "--app", APP, "--url", store_url, "-o", "jsonl")
    assert result.exit_code == 0, result.stdout
    assert all(json.loads(line)["level"] != "error" for line in result.stdout.splitlines())


def test_a_key_of_another_type_is_named_as_the_problem(cli: Cli, postgres_url: str) -> None:
    """And not the table, which is as it should be."""
    result = cli("show", "--app", APP, "--url", postgres_url, "Ticket", "not-a-uuid")
    assert result.exit_code == 1
    assert 'invalid input syntax for type uuid: "not-a-uuid"' in result.stderr
    assert "A value does not fit its column; the key of Ticket is id." in result.stderr
    assert "verify" not in result.stderr


def test_a_uuid_is_shown_by_its_digits(cli: Cli, postgres_url: str) -> None:
    """In what people read, and in what they paste."""
    run = ("--app", APP, "--url", postgres_url, "Ticket", UUID)
    told = cli("explain", *run, "--to", "ENDED").stdout
    assert told.startswith(f"Ticket {UUID} is at NEW and cannot move to ENDED now.")
    refused = cli("move", *run[:4], "Ticket", "end", UUID, "--yes").output
    assert UUID in refused
    assert "UUID(" not in told + refused


def test_the_history_is_shown_with_fractions_of_a_second(cli: Cli, sqlite_url: str) -> None:
    """Moves of a race are within one second."""
    run = ("--app", APP, "--url", sqlite_url)
    assert cli("move", *run, "Command", "send", "c-1", "--yes").exit_code == 0
    shown = cli("show", *run, "Command", "c-1").stdout
    assert re.search(r"\d\d:\d\d:\d\d\.\d{3} UTC", shown)
    explained = cli("explain", *run, "Command", "c-1", "--to", "QUEUED").stdout
    assert re.search(r"Last moved by .* at .*:\d\d\.\d{3} UTC", explained)
