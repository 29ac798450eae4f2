"""Repairs as they are pasted: from what the command prints, into a shell of the database, after the rows have changed."""

import codecs
import re
import shlex
import sqlite3
from contextlib import closing, suppress
from typing import Any

import pytest

from raceproof import Lifecycle, move
from raceproof.declare import spec_of
from raceproof.ops.doctor import diagnose
from raceproof.ops.doctor.quoting import sqlite_constant
from raceproof.testing import PostgresServer
from tests.ddl import script
from tests.ops.doctor.conftest import APP, Ill
from tests.ops.doctor.declared import Job, Stage
from tests.ops.doctor.test_rows import plant, without_guards

ODD = [
    "line\nfeed",
    "\x1b[31mred",
    "tab\there",
    "no\xa0break",
    "nul\0inside",
    "\u2028",
    'it\'s \\ "odd"; --\r\n',
    "🐟\x7f",
    "trailing ",
    "",
]


def printed_repairs(ill: Ill, *args: str) -> list[str]:
    """What a person copies: all between the line `repair …:` and the next empty line."""
    output = ill.cli("doctor", "--app", APP, "--url", ill.url, *args).stdout
    return re.findall(r"^    repair[^\n]*:\n(.*?)\n\n", output, re.DOTALL | re.MULTILINE)


def into_sqlite3(raw: sqlite3.Connection, text: str) -> list[str]:
    """As the sqlite3 shell does it: statement by statement, going on after an error; returns what failed."""
    failed, statement = [], ""
    for line in text.split("\n"):
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            try:
                raw.execute(statement)
            except sqlite3.Error as error:
                failed.append(str(error))
            statement = ""
    assert not statement.strip()
    return failed


def guarded_again(ill: Ill) -> None:
    ill.raw.executescript(script(spec_of(Job), dialect="sqlite", only="guards"))


def is_guarded(ill: Ill) -> None:
    """No override is left, and no undeclared change gets through."""
    if ill.dialect == "sqlite":
        assert ill.run("SELECT * FROM raceproof_override").fetchall() == []
    ill.put("ill_jobs", id="innocent", status="QUEUED", made_at=1)
    with pytest.raises(Exception, match="Job may not"):
        ill.run("UPDATE ill_jobs SET status = 'DONE' WHERE id = 'innocent'")


@pytest.fixture
def three(ill_sqlite: Ill) -> Ill:
    """Three rows at an undeclared status, behind guards."""
    for key in ("a", "b", "c"):
        plant(ill_sqlite, Job, id=key, status="WEIRD", made_at=1)
    guarded_again(ill_sqlite)
    return ill_sqlite


def statuses(ill: Ill) -> dict[str, Any]:
    return dict(ill.run("SELECT id, status FROM ill_jobs").fetchall())


@pytest.mark.parametrize(
    ("meanwhile", "mended"),
    [
        ("SELECT 1", "abc"),
        ("DELETE FROM ill_jobs WHERE id = 'a'", "bc"),
        ("DELETE FROM ill_jobs", ""),
        ("UPDATE ill_jobs SET id = 'z' WHERE id = 'c'", "ab"),
    ],
)
def test_a_repair_pasted_after_the_rows_changed_leaves_no_override(three: Ill, meanwhile: str, mended: str) -> None:
    """An override whose update matches no row would let the next illegal write through."""
    (text,) = printed_repairs(three)
    three.run(meanwhile)
    assert into_sqlite3(three.raw, text) == []
    assert {key for key, status in statuses(three).items() if status == "QUEUED"} == set(mended)
    is_guarded(three)


def test_a_repair_pasted_while_another_process_writes_leaves_no_override(three: Ill) -> None:
    """The shell goes on after `database is locked`: no line of the repair may commit by itself then."""
    (text,) = printed_repairs(three)
    path = three.url.removeprefix("sqlite:///")
    shell, other = (sqlite3.connect(path, timeout=0, isolation_level=None) for _ in range(2))
    with closing(shell), closing(other):
        other.execute("BEGIN IMMEDIATE")
        for number, line in enumerate(text.split(";\n")):
            into_sqlite3(shell, line.rstrip(";") + ";")
            if number == 0:
                other.execute("COMMIT")
            if number == 1:  # the first override is written, and its update is not
                with suppress(sqlite3.OperationalError):
                    other.execute("BEGIN IMMEDIATE")
        with suppress(sqlite3.OperationalError):
            other.execute("ROLLBACK")
    assert set(statuses(three).values()) == {"QUEUED"}
    is_guarded(three)


def test_a_repair_pasted_over_an_older_override_replaces_it(three: Ill) -> None:
    """The history names the doctor, and nothing is left of either."""
    (text,) = printed_repairs(three)
    three.run("INSERT INTO raceproof_override VALUES ('Job', 'ann', 'forgotten')")
    assert into_sqlite3(three.raw, text) == []
    assert [three.db.history(Job, key)[0].actor for key in "abc"] == ["doctor"] * 3
    is_guarded(three)


def test_a_value_of_a_row_cannot_print_a_repair_of_its_own(ill: Ill) -> None:
    """Whoever may write a row would have an operator paste what they like."""
    plant(ill, Job, id="a", status="x\n\n    repair (psql):\nDROP TABLE ill_jobs;\n\n", made_at=1)
    texts = printed_repairs(ill, "--ignore", "guard")
    assert texts
    assert not any(line.startswith("DROP TABLE") for text in texts for line in text.split("\n"))


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_values_that_cannot_be_printed_are_mended_as_pasted(ill_sqlite: Ill, odd: str) -> None:
    """Control characters in a key and in a status: the printed SQL names the row exactly."""
    plant(ill_sqlite, Job, id=odd, status=odd + "\x01", made_at=1)
    guarded_again(ill_sqlite)
    (text,) = printed_repairs(ill_sqlite)
    assert into_sqlite3(ill_sqlite.raw, text) == []
    assert statuses(ill_sqlite) == {odd: "QUEUED"}
    is_guarded(ill_sqlite)


@pytest.mark.parametrize(
    "value",
    [*ODD, None, 0, -(2**63), 2**63 - 1, 0.1, 1e300, float("inf"), -float("inf"), b"", b"\x00\xff"],
    ids=ascii,
)
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le"])
def test_a_constant_of_sqlite_is_the_value_and_its_type(value: Any, encoding: str) -> None:
    """Whatever the encoding of the database, from a text of printable characters."""
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA encoding = '{encoding}'")
    written = sqlite_constant(value)
    assert written is not None
    assert written.isprintable()
    (same, read) = connection.execute(f"SELECT {written} IS ?, {written}", (value,)).fetchone()
    connection.close()
    assert (same, read, type(read)) == (1, value, type(value))


def test_a_value_that_a_connection_has_converted_is_not_written() -> None:
    """A converter's object need not be equal to what is stored."""
    assert [sqlite_constant(value) for value in (True, object(), ("a",))] == [None] * 3


@pytest.mark.parametrize("odd", [one for one in ODD if one and "\0" not in one], ids=ascii)
def test_a_command_names_a_key_with_control_characters(ill: Ill, odd: str) -> None:
    """As a shell with `$'…'` reads it; on a terminal nothing of it is printed as it is."""
    ill.put("ill_parcels", shop=odd, number=1, status="QUEUED", attempts=2)
    if ill.dialect == "redis":
        ill.raw.zadd("ill_parcels/work", {f"{odd}:1": 1})
    (line,) = printed_repairs(ill, "Parcel")
    assert line.isprintable()
    command, _, _ = line.partition("  # or ")
    assert as_bash_reads(command.rsplit(" --yes ", 1)[1]) == f"{odd},1"


def as_bash_reads(word: str) -> str:
    if not word.startswith("$'"):
        return "".join(shlex.split(word))
    return codecs.escape_decode(word[2:-1].encode())[0].decode()


def test_no_command_is_printed_for_a_key_that_no_shell_can_pass_on(ill_sqlite: Ill) -> None:
    """Cut off at its NUL, it would name another row."""
    ill_sqlite.put("ill_parcels", shop="nul\0inside", number=1, status="QUEUED", attempts=2)
    (line,) = printed_repairs(ill_sqlite, "Parcel")
    assert line.strip().startswith("# raceproof move: the key of this row contains a NUL")


def test_overrides_that_were_left_behind_are_found_and_removed(three: Ill) -> None:
    """Those who pasted an older repair have one, and the next illegal write would be excused by it."""
    into_sqlite3(three.raw, printed_repairs(three)[0])
    three.run("INSERT INTO raceproof_override VALUES ('Job', 'doctor', 'its status was not declared')")
    found = three.problem("guard")
    assert found.evidence == ({"actor": "doctor", "reason": "its status was not declared"},)
    assert found.repair is not None
    assert not found.repair.safe
    three.is_cured(found)
    is_guarded(three)


class Box(Lifecycle[Stage], table="ill_boxes", key="id", tenant="shop", history="ill_history"):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    bury = move(Stage.QUEUED, to=Stage.DEAD)


def test_an_override_is_not_shown_to_a_store_of_one_tenant(ill_sqlite: Ill) -> None:
    """It may have been meant for a row of another; that there is one is reported all the same."""
    ill_sqlite.run("CREATE TABLE ill_boxes (shop text, id text, status text, PRIMARY KEY (shop, id))")
    ill_sqlite.raw.executescript(script(spec_of(Box), dialect="sqlite", only="guards"))
    ill_sqlite.run("INSERT INTO raceproof_override VALUES ('Box', 'ann', 'of shop red')")
    for store, shown in ((ill_sqlite.db, 1), (ill_sqlite.db.for_tenant("blue"), 0)):
        (problem,) = diagnose(store, Box).problems
        assert (problem.check, len(problem.evidence)) == ("guard", shown)


def test_guards_pasted_from_the_screen_are_those_that_are_declared(
    ill_postgres: Ill, postgres_server: PostgresServer
) -> None:
    """An indentation would become part of the function, which then differs from the declaration."""
    without_guards(ill_postgres, Job)
    (text,) = printed_repairs(ill_postgres)
    postgres_server.psql(text, ill_postgres.url)
    assert ill_postgres.diagnose().problems == ()


@pytest.mark.parametrize("meanwhile", ["SELECT 1", "DELETE FROM ill_jobs", "UPDATE ill_jobs SET id = 'z'"])
def test_the_override_of_postgres_ends_with_the_pasted_transaction(ill_postgres: Ill, meanwhile: str) -> None:
    """Also in the session that it was pasted into, and whatever became of the rows."""
    plant(ill_postgres, Job, id="a", status="WEIRD", made_at=1)
    (text,) = printed_repairs(ill_postgres)
    ill_postgres.run(meanwhile)
    for statement in text.split(";\n"):
        ill_postgres.run(statement)
    assert "WEIRD" not in statuses(ill_postgres).values()
    is_guarded(ill_postgres)


def test_a_pasted_repair_of_postgres_that_fails_leaves_nothing(ill_postgres: Ill) -> None:
    """psql goes on after an error; the transaction does not."""
    plant(ill_postgres, Job, id="a", status="WEIRD", made_at=1)
    (text,) = printed_repairs(ill_postgres)
    ill_postgres.run("ALTER TABLE ill_jobs ADD CONSTRAINT broken CHECK (status = 'DONE') NOT VALID")
    failed = 0
    for statement in text.split(";\n"):
        try:
            ill_postgres.run(statement)
        except Exception:
            failed += 1
    assert failed == 1
    assert statuses(ill_postgres) == {"a": "WEIRD"}
    ill_postgres.run("ALTER TABLE ill_jobs DROP CONSTRAINT broken")
    is_guarded(ill_postgres)
