"""Repairs as commands for a shell: with the tenant, and a separator that no part of a key contains."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.targets import tenant_column
from raceproof.ops.doctor.quoting import key_words, shell_word


@dataclass(frozen=True, slots=True)
class RepairCommands:
    """Writes commands with the tenant and the separator that the caller used."""

    tenant: str | None = None
    separator: str = ","

    def command(self, name: str, target: Target[Any], *words: str) -> str:
        """A command about a target; further words are quoted for a shell already."""
        return " ".join(("raceproof", name, *self._at(target), shell_word(target.name), *words))

    def move(self, target: Target[Any], moves: Iterable[str], key: Any) -> str:
        """A move of a row; if several are possible, the operator chooses one."""
        spec = target.thing.lifecycle
        ways = "|".join(map(shell_word, moves)) or "(no move)"
        words = ("raceproof", "move", *self._at(target), shell_word(spec.name), ways)
        *separator, written = self._key(key)
        end_of_options = ("--",) if written.lstrip("$'").startswith("-") else ()
        return " ".join((*words, *separator, *end_of_options, written))

    def key_option(self, option: str, key: Any) -> str:
        """The option that names a row."""
        *separator, written = self._key(key)
        return " ".join((*separator, option, written))

    def _at(self, target: Target[Any]) -> Iterator[str]:
        yield from ("--app", shell_word(target.app))
        if self.tenant is not None and tenant_column(target.thing):
            yield from ("--tenant", shell_word(self.tenant))

    def _key(self, key: Any) -> Iterator[str]:
        yield from map(shell_word, key_words(key, self.separator))
