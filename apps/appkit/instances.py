"""Which instance this process is: a name of its own, also if nothing was set.

Without a setting the name is that of the machine and a number: the first process of a folder is `host-1`, the next `host-2`.
After a restart the same number is free again, so that a broker's session and rows in the database find their owner. A name
that was set is refused while another process of the same folder uses it.
"""

import re
import socket
import sys
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import click

from appkit.commands import USAGE

if sys.platform != "win32":
    import fcntl

_held: list[Any] = []
"""Open files: the system releases their locks when the process ends, however it ends."""

Told = TypeVar("Told", bound=Any)


def named(told: Told, role: str, field: str = "instance") -> Told:
    """The settings with a name that no other process of this folder has in this role, or an exit that says so."""
    folder = Path(told.folder) / "instances"
    folder.mkdir(parents=True, exist_ok=True)
    if field in told.model_fields_set:
        name = str(getattr(told, field))
        if not _take(folder / f"{role}-{name}"):
            setting = type(told).model_fields[field].alias or f"{type(told).model_config['env_prefix']}{field}".upper()
            click.echo(
                f"another process runs as {name!r} in {told.folder}: give each its own {setting}, or set none",
                err=True,
            )
            sys.exit(USAGE)
    else:
        name = next(name for name in _names() if _take(folder / f"{role}-{name}"))
    click.echo(f"instance {name}", err=True)
    return told.model_copy(update={field: name})  # type: ignore[no-any-return]


def _names() -> Any:
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:30] or "host"
    return (f"{host}-{number}" for number in count(1))


def _take(path: Path) -> bool:
    if sys.platform == "win32":
        return True
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _held.append(file)
    return True
