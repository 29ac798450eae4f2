"""Commands as they can be pasted into a shell: with the tenant, and a separator that no part of a key contains."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from raceproof.ops.cli.things import Target, tenant_column
from raceproof.ops.doctor.pasting import key_words, shell_word


@dataclass(frozen=True, slots=True)
class Pasting:
    """How whoever asked has named the rows."""

    tenant: str | None = None
    separator: str = ","

    def command(self, name: str, target: Target[Any], *words: str) -> str:
        """A command about a target, with further words that are written for a shell already."""
        return " ".join(("raceproof", name, *self._at(target), shell_word(target.name), *words))

    def move(self, target: Target[Any], moves: Iterable[str], key: Any) -> str:
        """A move of a row; where there are several, a person has to choose one."""
        spec = target.thing.lifecycle
        ways = "|".join(map(shell_word, moves)) or "(no move)"
        words = ("raceproof", "move", *self._at(target), shell_word(spec.name), ways)
        *separator, written = self._key(key)
        end_of_options = ("--",) if written.lstrip("$'").startswith("-") else ()
        return " ".join((*words, *separator, *end_of_options, written))

    def named(self, option: str, key: Any) -> str:
        """The option that names a row."""
        *separator, written = self._key(key)
        return " ".join((*separator, option, written))

    def _at(self, target: Target[Any]) -> Iterator[str]:
        yield from ("--app", shell_word(target.app))
        if self.tenant is not None and tenant_column(target.thing):
            yield from ("--tenant", shell_word(self.tenant))

    def _key(self, key: Any) -> Iterator[str]:
        yield from map(shell_word, key_words(key, self.separator))
