"""The outcome of a change, for the page after it; never taken from a URL, which could be forged."""

import secrets
from collections import OrderedDict
from typing import NamedTuple

_KEPT = 200


class Notice(NamedTuple):
    actor: str
    outcome: str
    text: str


class Notices:
    """The last notices, by an unguessable id."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Notice] = OrderedDict()

    def keep(self, actor: str, outcome: str, text: str) -> str:
        number = secrets.token_urlsafe(9)
        self._known[number] = Notice(actor, outcome, text)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return number

    def find(self, number: str | None, actor: str) -> Notice | None:
        found = self._known.get(number or "")
        return found if found and found.actor == actor else None
