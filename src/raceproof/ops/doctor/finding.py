"""What the doctor says: problems, each with the rows that show it and with a repair that works when it is pasted."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from raceproof.attempts import Attempts
from raceproof.declare.lifecycle import Lifecycle
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.leases import Lease
from raceproof.ops.doctor.quoting import shell_word

Thing = type[Lifecycle[Any]] | Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox
Level = Literal["warning", "error"]
Way = Literal["sql", "redis", "command", "advice"]
Row = Mapping[str, Any]

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_:./@+{}-]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """A declared thing, and how a command finds it: by its name, and by options such as `--app shop.models`."""

    thing: Thing
    name: str
    options: str = ""

    def command(self, verb: str, *words: str, name: str | None = None, tenant: str | None = None) -> str:
        """A command of ours about it, or about the rows of one tenant, as it is typed into a shell."""
        if "\0" in "".join((*words, tenant or "")):
            return f"# raceproof {verb}: no shell can pass on the NUL character in the key of this row"
        whose = "" if tenant is None else f"--tenant {shell_word(tenant)}"
        given = [self.options, whose, shell_word(name or self.name), *map(shell_word, words)]
        return " ".join(("raceproof", verb, *filter(None, given)))


@dataclass(frozen=True, slots=True)
class Repair:
    """What to do: SQL for psql or sqlite3, lines for redis-cli, our own commands; or, where none helps, advice."""

    way: Way
    text: str
    safe: bool = False
    """`--fix` may do it: it loses nothing, refuses nobody, and can be done again."""
    steps: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    """The same one by one: SQL statements, or the words of each command for Redis."""
    sweeps: Thing | None = field(default=None, repr=False)
    """What `raceproof.ops.sweep` mends."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    check: str
    """Which check found it, as `stuck.claim`."""
    level: Level
    target: str
    """The declared thing that it is about, or `store`."""
    what: str
    evidence: tuple[Row, ...] = ()
    more: bool = False
    """There are, or may be, more rows than the evidence shows."""
    repair: Repair | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A check that was made of a target; `note` says why it was left out, or how far it looked."""

    check: str
    target: str
    problems: int
    note: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was looked at, and what is wrong; the worst first."""

    problems: tuple[Problem, ...]
    checked: tuple[Checked, ...]

    @property
    def healthy(self) -> bool:
        return not self.problems


def sql(*statements: str, safe: bool = False) -> Repair:
    """A repair for psql or sqlite3."""
    return Repair("sql", "\n".join(statements), safe, tuple((one,) for one in statements))


def redis(*commands: tuple[str, ...], safe: bool = False) -> Repair:
    """A repair for redis-cli."""
    return Repair("redis", "\n".join(" ".join(map(_word, one)) for one in commands), safe, commands)


def _word(text: str) -> str:
    """A word as redis-cli reads it: between double quotes, what is not plain ASCII as the number of its byte."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    return '"' + "".join(map(_byte, text.encode())) + '"'


def _byte(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"


def command(*lines: str, safe: bool = False, sweeps: Thing | None = None) -> Repair:
    """A repair by our own command line."""
    return Repair("command", "\n".join(lines), safe, (), sweeps)


def advice(text: str) -> Repair:
    return Repair("advice", text)
