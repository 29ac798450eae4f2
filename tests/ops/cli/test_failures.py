"""Stores that are away, that do not fit, or that answer with errors: a message and an exit code, and no secrets."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis
from click.testing import CliRunner

from raceproof import Lifecycle
from raceproof.declare import spec_of
from raceproof.ops.cli.program import program
from raceproof.testing import Proxy
from tests.ddl import script
from tests.ops.cli.conftest import APP, UUID, Cli
from tests.ops.cli.declared import Command

SECRET = "hunter-2-%40"
CLOSED = [
    pytest.param(f"postgresql://ann:{SECRET}@127.0.0.1:1/shop", id="postgres"),
    pytest.param(f"redis://:{SECRET}@127.0.0.1:1/0", id="redis"),
]


@pytest.mark.parametrize("url", CLOSED)
@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["plain", "debug"])
def test_an_unreachable_store_ends_with_5_and_its_password_is_never_shown(url: str, debug: tuple[str, ...]) -> None:
    """The message says which store, without its password, and so does the traceback of --debug."""
    for args in (["show", "Command", "c-1"], ["move", "Command", "ack", "c-1", "--yes"], ["verify"]):
        result = CliRunner().invoke(program, [*debug, *args, "--app", APP, "--url", url])
        assert result.exit_code == 5
        assert "cannot reach" in result.stderr
        assert "127.0.0.1:1" in result.stderr
        assert ("Traceback" in result.stderr) == bool(debug)
        assert "hunter" not in result.output


@pytest.mark.parametrize("password", ["hunter/2", "77#hunter", "77?hunter", "[hunter"])
def test_a_url_that_cannot_be_read_is_not_repeated(cli: Cli, password: str) -> None:
    """A password with a bare special character breaks the URL; the message says so without a piece of it."""
    result = cli("verify", "--app", APP, env={"DATABASE_URL": f"postgresql://ann:{password}@db:5432/shop"})
    assert result.exit_code == 2
    assert "percent-encoded" in result.stderr
    assert "DATABASE_URL" in result.stderr
    assert "hunter" not in result.output
    assert "77" not in result.output


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://db:99999/shop", "the port must be a number from 0 to 65535"),
        ("postgresql://ann:hunter2@db:x5432/shop", "the port must be a number from 0 to 65535"),
        ("redis://127.0.0.1:abc/0", "the port must be a number from 0 to 65535"),
        ("redis://[::1/0", "an IPv6 address must be in brackets"),
    ],
)
def test_a_password_is_not_blamed_for_a_port(cli: Cli, url: str, said: str) -> None:
    """What is wrong is said without a piece of the URL."""
    result = cli("verify", "--app", APP, "--url", url)
    assert (result.exit_code, said in result.stderr, "percent-encoded" in result.stderr) == (2, True, False)
    assert not any(piece in result.output for piece in ("hunter", "99999", "abc", "x5432"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://:hunter2@127.0.0.1:1/0?foo=bar", "unknown setting 'foo'"),
        ("valkey://127.0.0.1:1/0?foo=bar", "unknown setting 'foo'"),
        ("redis://127.0.0.1:1/0?socket_timeout=abc", "Invalid value for 'socket_timeout'"),
        ("postgresql://ann:hunter2@127.0.0.1:1/x?foo=bar", 'invalid URI query parameter: "foo"'),
    ],
)
def test_a_setting_that_the_driver_does_not_know_is_a_wrong_call(cli: Cli, url: str, said: str) -> None:
    """Nothing is asked of a server, and nothing is said to be broken."""
    result = cli("show", "--app", APP, "Command", "c-1", "--url", url)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert "should not happen" not in result.stderr
    assert "hunter" not in result.output


def test_what_is_no_url_is_not_repeated(cli: Cli) -> None:
    """A connection string in another form may hold a password too."""
    result = cli("verify", "--app", APP, env={"DATABASE_URL": "host=db user=ann password=hunter2 dbname=shop"})
    assert (result.exit_code, "not a URL" in result.stderr) == (2, True)
    assert "hunter" not in result.output


def test_raceproof_url_comes_before_database_url(cli: Cli, sqlite_url: str) -> None:
    """Of both variables the library's own counts, and an option before both."""
    env = {"RACEPROOF_URL": sqlite_url, "DATABASE_URL": "redis://127.0.0.1:1"}
    assert cli("show", "--app", APP, "Command", "c-1", env=env).exit_code == 0
    assert cli("show", "--app", APP, "Command", "c-1", "--url", "redis://127.0.0.1:1", env=env).exit_code == 5
    env["RACEPROOF_URL"] = ""
    assert cli("show", "--app", APP, "Command", "c-1", env=env).exit_code == 5


def test_a_missing_file_is_not_created(cli: Cli, tmp_path: Path) -> None:
    """SQLite would make an empty database of a typing error; the command line does not."""
    result = cli("show", "--app", APP, "Command", "c-1", "--url", f"sqlite:///{tmp_path}/typo.db")
    assert (result.exit_code, "no such file:" in result.stderr) == (5, True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_ends_with_5(cli: Cli, tmp_path: Path) -> None:
    """A file of something else is told as what it is, and stays as it was."""
    path = tmp_path / "state.db"
    path.write_text("this is not a database, but it is long enough to be taken for one" * 20)
    before = path.read_bytes()
    result = cli("show", "--app", APP, "Command", "c-1", "--url", f"sqlite:///{path}")
    assert (result.exit_code, "not a database" in result.stderr) == (5, True)
    assert path.read_bytes() == before


def test_looking_does_not_change_the_journal_of_a_database(cli: Cli, sqlite_url: str) -> None:
    """The file of somebody's own application keeps its journal mode."""
    path = sqlite_url.removeprefix("sqlite:///")
    assert cli("show", "--app", APP, "Command", "c-1", "--url", sqlite_url).exit_code == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_missing_table_is_an_error_that_leads_to_verify(cli: Cli, sqlite_url: str, postgres_url: str) -> None:
    """Neither show nor move has a traceback; both name the table and the next command."""
    for url in (sqlite_url, postgres_url):
        _execute(url, "DROP TABLE commands")
        for args in (["show", "Command", "c-1"], ["move", "Command", "ack", "c-1", "c-2", "--yes"]):
            result = cli(*args, "--app", APP, "--url", url)
            assert (result.exit_code, result.stdout) == (1, "")
            assert "commands" in result.stderr
            assert "raceproof verify" in result.stderr


def test_a_key_of_the_wrong_type_is_an_error_or_a_missing_row(cli: Cli, sqlite_url: str, postgres_url: str) -> None:
    """PostgreSQL says that it is no integer, SQLite finds nothing; neither has a traceback."""
    for url, code in ((sqlite_url, 4), (postgres_url, 1)):
        for args in (
            ["show", "Job", "abc"],
            ["move", "Job", "start", "abc", "--yes"],
            ["move", "Job", "start", "42x", "abc", "--yes"],
        ):
            result = cli(*args, "--app", APP, "--url", url)
            assert result.exit_code == code
            assert "abc" in result.stderr or "42x" in result.stderr


@pytest.mark.parametrize("key", ["", " ", "'; DROP TABLE commands; --", "[red]", "é\u202e", "-" * 5000, "%s", "{0}"])
def test_any_text_is_a_key_and_nothing_more(cli: Cli, store_url: str, key: str) -> None:
    """Quotes, markup, placeholders and long texts find no row, and do nothing else."""
    result = cli("show", "--app", APP, "--url", store_url, "--", "Command", key)
    assert result.exit_code == 4
    assert cli("show", "--app", APP, "--url", store_url, "Command", "c-1").exit_code == 0


@pytest.mark.parametrize("garbage", [b"\xff\xfe\n", b"c-1\0c-2\n"], ids=["not UTF-8", "NUL"])
def test_garbage_on_stdin_moves_nothing(cli: Cli, sqlite_url: str, garbage: bytes) -> None:
    """Bytes that are no text are refused before the store is asked."""
    result = cli("move", "--app", APP, "--url", sqlite_url, "Command", "ack", "-", "--yes", input=garbage)
    assert (result.exit_code, result.stdout) == (2, "")


def test_no_keys_on_stdin_is_nothing_to_do(cli: Cli, sqlite_url: str) -> None:
    """An empty list is an empty answer, not an error."""
    result = cli("move", "--app", APP, "--url", sqlite_url, "Command", "ack", "-", "--yes", "-o", "json", input="")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])


def test_without_a_terminal_a_move_needs_a_yes(cli: Cli, sqlite_url: str) -> None:
    """Nobody can be asked, so nothing is moved, and the message says what to add."""
    result = cli("move", "--app", APP, "--url", sqlite_url, "Command", "ack", "c-1")
    assert (result.exit_code, "--yes" in result.stderr) == (2, True)
    assert '"QUEUED"' in cli("show", "--app", APP, "--url", sqlite_url, "Command", "c-1", "-o", "json").stdout


def test_a_guard_in_the_database_that_refuses_ends_with_3(cli: Cli, sqlite_url: str, postgres_url: str) -> None:
    """Triggers of an older declaration refuse a move that this one allows; the message is the trigger's."""
    older = spec_of(Command).to_dict()
    older["moves"]["ack"]["from"] = ["SENT"]
    for url, dialect in ((sqlite_url, "sqlite"), (postgres_url, "postgres")):
        _execute(url, script(Lifecycle.from_dict(older), dialect=dialect, only="guards"))
        result = cli("move", "--app", APP, "--url", url, "Command", "ack", "c-1", "--yes")
        assert (result.exit_code, "Command may not" in result.stderr) == (3, True)


def test_a_bulk_that_breaks_in_the_middle_tells_what_was_done(cli: Cli, sqlite_url: str) -> None:
    """The rows of the first statement have moved and are printed; the code says that it was not all."""
    _execute(
        sqlite_url,
        """
        INSERT INTO jobs WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 1599)
            SELECT i, 'NEW', 0 FROM n;
        CREATE TRIGGER full BEFORE UPDATE ON jobs WHEN NEW.id = 1550 BEGIN SELECT RAISE(ABORT, 'disk is full'); END;
        """,
    )
    keys = "\n".join(str(i) for i in range(1000, 1600))
    result = cli("move", "--app", APP, "--url", sqlite_url, "Job", "start", "-", "--yes", "-o", "ids", input=keys)
    assert result.exit_code == 7
    assert len(result.stdout.split()) == 500
    assert "after 500 of 600 rows: disk is full" in result.stderr


def test_a_redis_key_of_another_type_is_an_error(cli: Cli, valkey_url: str) -> None:
    """Where a string stands instead of a hash, the server's words are told."""
    with redis.Redis.from_url(valkey_url) as client:
        client.set("commands:text", "x")
    result = cli("show", "--app", APP, "--url", valkey_url, "Command", "text")
    assert (result.exit_code, "wrong kind of value" in result.stderr) == (1, True)


def test_what_a_row_contains_cannot_drive_the_terminal(cli: Cli, store_url: str) -> None:
    """Escape sequences and markup in a value are shown, not obeyed; in JSON they are data."""
    evil = "\x1b[31mred\x07 [bold]x[/bold]"
    target = ("--app", APP, "--url", store_url)
    cli("move", *target, "Command", "finish", "c-1", "--set", f"note={evil}", "--yes")
    shown = cli("show", *target, "Command", "c-1")
    assert (shown.exit_code, "\x1b" in shown.stdout) == (0, False)
    assert "[bold]x[/bold]" in shown.stdout
    assert json.loads(cli("show", *target, "Command", "c-1", "-o", "json").stdout)["row"]["note"] == evil


def _execute(url: str, text: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(text)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())


@pytest.mark.parametrize(("kind", "command"), [("postgres", "UPDATE"), ("valkey", "EVALSHA")])
def test_a_lost_acknowledgement_ends_with_5_and_the_same_call_again_is_safe(
    cli: Cli, request: pytest.FixtureRequest, kind: str, command: str
) -> None:
    """The row has moved and nobody was told: the message says that it is unknown, the second call says `already`."""
    url: str = request.getfixturevalue(f"{kind}_url")
    # a row that is not there: from now on Redis knows the script of this move
    nobody = UUID.translate(str.maketrans("0123456789", "9012345678"))
    cli("move", "--app", APP, "--url", url, "Ticket", "start", nobody, "--yes")
    call = ("move", "--app", APP, "Ticket", "start", UUID, "--yes", "--url")
    with Proxy(url) as proxy:
        proxy.cut_after_reply(command)
        cut = cli(*call, proxy.through(url))
        assert (cut.exit_code, proxy.cuts) == (5, 1)
        assert "unknown end" in cut.stderr
        again = cli(*call, proxy.through(url))
    assert (again.exit_code, "already" in again.stdout) == (0, True)


@pytest.mark.parametrize(("kind", "command"), [("postgres", None), ("valkey", "HGETALL")])
def test_a_connection_that_is_cut_while_looking_ends_with_5(
    cli: Cli, request: pytest.FixtureRequest, kind: str, command: str | None
) -> None:
    """A look that gets no answer is told as a store that cannot be reached."""
    url: str = request.getfixturevalue(f"{kind}_url")
    with Proxy(url) as proxy:
        proxy.cut_before_request(command)
        result = cli("show", "--app", APP, "Command", "c-1", "--url", proxy.through(url))
        assert (result.exit_code, proxy.cuts) == (5, 1)
    assert "cannot reach" in result.stderr
