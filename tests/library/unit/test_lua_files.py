"""Every Lua file is Lua that the server compiles as it lies there, and a script is put together of whole functions."""

from pathlib import Path

import pytest
import redis

import raceproof
from raceproof.testing import ValkeyServer

PACKAGE = Path(raceproof.__file__).parent
FILES = sorted(PACKAGE.rglob("*.lua"))
ASSEMBLED = [path for path in FILES if "ops" not in path.parts]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_compiler_of_the_server_accepts_a_file(path: Path, valkey_server: ValkeyServer) -> None:
    with redis.Redis.from_url(valkey_server.url) as client:
        assert client.script_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", ASSEMBLED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_whole_functions_and_nothing_else(path: Path) -> None:
    """No template syntax, no statement outside of a function: what is left out for a declaration is a whole block."""
    outside = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith((" ", "--", "local function ", "local ", "end"))
    ]
    assert not outside


def test_there_are_files() -> None:
    assert len(FILES) >= 8
