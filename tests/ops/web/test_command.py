"""`raceproof web`: on this machine alone and read-only, unless it is told otherwise."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from raceproof.ops.cli.program import program
from tests.ops.web.fix_shop import Shop, item
from tests.ops.web.test_access import form, token_of

ROOT = Path(__file__).parents[3]
TOKEN = "correct horse battery"


@asynccontextmanager
async def running(*arguments: str, **environment: str) -> AsyncIterator[tuple[str, list[str]]]:
    """The command in a process of its own: where it is, and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from raceproof.ops.cli import main; main()",
        "web", "--app", "tests.ops.web.shop", "--port", "0", *arguments,
        cwd=ROOT, env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said: list[str] = []
    try:
        while line := (await process.stderr.readline()).decode():
            said.append(line)
            if line.startswith("It shows"):
                break
        assert said, "it said nothing"
        found = re.search(r"http://[\d.:]+", said[0])
        assert found, "".join(said) + (await process.stderr.read()).decode()
        yield found.group(), said
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        assert await process.wait() in (0, 130, -2)


async def test_it_serves_what_is_declared_and_changes_nothing(small_shop: Shop) -> None:
    async with running("--url", small_shop.url) as (base, said), httpx.AsyncClient(base_url=base) as client:
        assert "read-only" in said[1]
        page = await client.get("/")
        assert page.status_code == 200
        assert "Order" in page.text
        assert (await client.get("/", headers={"Host": "evil.test"})).status_code == 421
        refused = await client.post("/do/move", data=form(""), headers={"Origin": base})
        assert refused.status_code == 403


async def test_with_a_token_it_changes_and_writes_who_did(small_shop: Shop) -> None:
    settings = ("--url", small_shop.url, "--allow-changes", "--by", "operator", "--prefix", "/ops")
    async with running(*settings, RACEPROOF_WEB_TOKEN=TOKEN) as (base, said):
        assert TOKEN not in "".join(said)
        async with httpx.AsyncClient(base_url=base) as client:
            assert (await client.get("/ops/")).status_code == 401
            ours = {"Origin": base}
            assert (await client.post("/ops/login", data={"token": TOKEN}, headers=ours)).status_code == 303
            token = await token_of(client, "/ops" + item("Order", 5))
            answer = await client.post("/ops/do/move", data=form(token, key="5"), headers=ours)
            assert answer.status_code == 303
            assert "operator" in (await client.get("/ops/audit")).text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "is reachable from other machines"),
        (["--host", "192.0.2.1"], 2, "is reachable from other machines"),
        (["--token", "short"], 2, "12 characters"),
        (["--url", "sqlite:///no/such/file.db"], 5, "no such file:"),
        (["--url", "postgresql://ann:very-secret@127.0.0.1:1/x"], 5, "cannot reach"),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_is_refused(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    url = [] if "--url" in arguments else ["--url", f"sqlite:///{tmp_path}/x.db"]
    result = CliRunner().invoke(program, ["web", "--app", "tests.ops.web.shop", "--port", "0", *url, *arguments])
    assert result.exit_code == code
    assert said in result.stderr
    assert "very-secret" not in result.output


def test_a_session_that_reads_backslashes_as_escapes_is_refused_with_the_way_out(empty_postgres: str) -> None:
    url = f"{empty_postgres}{'&' if '?' in empty_postgres else '?'}options=-c%20standard_conforming_strings%3Doff"
    result = CliRunner().invoke(program, ["web", "--app", "tests.ops.web.shop", "--port", "0", "--url", url])
    assert result.exit_code == 1
    assert "standard_conforming_strings = off" in result.stderr
    assert "ALTER ROLE" in result.stderr


def test_changes_without_an_audit_table_are_refused_with_the_table_to_create(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    arguments = [
        "web",
        "--app",
        "tests.ops.web.shop",
        "--url",
        f"sqlite:///{path}",
        "--port",
        "0",
        "--allow-changes",
    ]
    result = CliRunner().invoke(program, arguments)
    assert result.exit_code == 1
    assert 'CREATE TABLE IF NOT EXISTS "raceproof_audit"' in result.stderr
