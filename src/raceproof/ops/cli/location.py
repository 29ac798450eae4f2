"""The URL of a store, checked before use and never shown with its secrets."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from raceproof.connect.url import SCHEMES
from raceproof.kernel.secrecy import is_secret


@dataclass(frozen=True, slots=True, repr=False)
class Location:
    """A store's URL."""

    url: str
    kind: str

    def __repr__(self) -> str:
        return f"Location({self})"

    def __str__(self) -> str:
        """The URL without password and parameters."""
        parts = urlsplit(self.url)
        userinfo, at, host = parts.netloc.rpartition("@")
        user, colon, _ = userinfo.partition(":")
        return f"{parts.scheme}://{user}{':***' if colon else ''}{at}{host}{parts.path}"

    @property
    def secrets(self) -> set[str]:
        """The texts that must not be shown, both percent-encoded and decoded."""
        parts = urlsplit(self.url)
        written = {parts.netloc.rpartition("@")[0].partition(":")[2]}
        written |= {value for name, value in parse_qsl(parts.query) if is_secret(name)}
        return {secret for one in written for secret in (one, unquote(one)) if secret}

    @property
    def path(self) -> Path:
        """The file of an SQLite store."""
        return Path(unquote(urlsplit(self.url).path).removeprefix("/"))


def parse_location(text: str) -> Location:
    """Parse a URL; error messages never repeat it."""
    before, slashes, _ = text.partition("://")
    # SQLAlchemy's way of naming a driver, postgresql+asyncpg, is common in DATABASE_URL
    scheme, plus, _ = before.partition("+")
    if not slashes or scheme not in SCHEMES:
        what = f"unknown scheme {scheme!r}" if slashes and scheme.isalnum() else "not a URL"
        raise click.BadParameter(f"{what}; use sqlite:///file.db, postgresql://… or redis://…")
    if scheme != "sqlite" and (problem := _problem(text)):
        raise click.BadParameter(f"cannot be parsed; {problem}")
    return Location(text.replace(before, scheme, 1) if plus else text, SCHEMES[scheme])


def _problem(text: str) -> str:
    """What is wrong with a URL, without quoting it; empty if it is fine."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = None
    if "@" in text and (parts is None or "@" not in parts.netloc):
        return "special characters in a password must be percent-encoded, such as %40 for @"
    if parts is None:
        return "an IPv6 address must be in brackets, such as [::1]"
    try:
        if "," not in parts.netloc:  # several hosts are for PostgreSQL's own library to read
            _ = parts.port
    except ValueError:
        return "the port must be a number from 0 to 65535"
    return ""
