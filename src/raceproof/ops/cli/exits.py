"""How a run ends: the exit codes, and an expected failure as a message instead of a traceback."""

import errno
from enum import IntEnum
from typing import IO, Any

import click


class ExitCode(IntEnum):
    """The exit codes that scripts can rely on."""

    OK = 0
    ERROR = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    PROBLEMS = 6
    PARTLY = 7
    INTERRUPTED = 130


class Failure(click.ClickException):
    """An expected failure: what happened, and what to do next."""

    def __init__(self, message: str, code: ExitCode = ExitCode.ERROR, advice: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.advice = advice

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Error: {self.message}", file=file, err=True)
        if self.advice:
            click.echo(self.advice, file=file, err=True)


_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def is_unwritable(error: Exception) -> bool:
    """Whether stdout cannot be written, for example because its file system is full."""
    return isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None
