"""Problems, each with the rows that show it and with a repair that works when pasted."""

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
    """A declaration, and how commands name it: by name, and by options such as `--app shop.models`."""

    thing: Thing
    name: str
    options: str = ""

    def command(self, verb: str, *words: str, name: str | None = None, tenant: str | None = None) -> str:
        """A raceproof command about it, as typed into a shell."""
        if "\0" in "".join((*words, tenant or "")):
            return f"# raceproof {verb}: the key of this row contains a NUL character, which no shell can pass"
        whose = "" if tenant is None else f"--tenant {shell_word(tenant)}"
        given = [self.options, whose, shell_word(name or self.name), *map(shell_word, words)]
        return " ".join(("raceproof", verb, *filter(None, given)))


@dataclass(frozen=True, slots=True)
class Repair:
    """SQL for psql or sqlite3, commands for redis-cli, raceproof commands, or advice."""

    way: Way
    text: str
    safe: bool = False
    """`--fix` may apply it: it loses nothing, blocks no one, and can be repeated."""
    steps: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    """The same one by one: SQL statements, or the words of each command for Redis."""
    sweeps: Thing | None = field(default=None, repr=False)
    """What a sweep repairs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem."""

    check: str
    """The check that found it, such as `stuck.claim`."""
    level: Level
    target: str
    """The declaration concerned, or `store`."""
    what: str
    evidence: tuple[Row, ...] = ()
    more: bool = False
    """There are, or may be, more rows than the evidence shows."""
    repair: Repair | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A check of a target; `note` says why it was skipped, or how much it read."""

    check: str
    target: str
    problems: int
    note: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The problems, worst first, and the checks that ran."""

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
    """A word as redis-cli reads it: quoted unless it is plain, with other than ASCII as bytes in hex."""
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
