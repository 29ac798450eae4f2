"""Which names in the Host header are answered: those of this machine, addresses, and those that are configured.

A page of another site can let its own name lead to this machine (DNS rebinding); the browser then takes our answers for
that page's own. It sends the name that it was given, so that a name which is not ours is refused. A number cannot be led
elsewhere, so that addresses are fine: a health check by the address of a container works without configuration.
"""

import ipaddress
import re
from collections.abc import Iterable

MISDIRECTED = 421
_HEADER = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::[0-9]{1,5})?", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.IGNORECASE)


class Hosts:
    """The names that are answered: `Hosts("devices", ["devices.example.com"])`."""

    def __init__(self, application: str, names: Iterable[str] = ()) -> None:
        self._setting = f"{application.upper()}_HOSTS"
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    def refusal(self, told: Iterable[bytes]) -> str | None:
        """Why a request with these Host headers is refused; none if it is answered."""
        headers = [one.decode("latin-1") for one in told]
        if headers and all(map(self._known, headers)):
            return None
        shown = ", ".join(repr(one[:100]) for one in headers) or "missing"
        return (
            f"Host is {shown}, which is not a name of this application."
            f" To be reached by it, set {self._setting} to a list of its names."
        )

    def _known(self, header: str) -> bool:
        found = _HEADER.fullmatch(header)
        if found is None:
            return False
        name = found.group(1).lower()
        return name in self._names or _is_address(name)


def check_name(name: str) -> str:
    """A name as it is configured, without scheme and port."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a host: write names such as app.example.com, without port")
    return name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
