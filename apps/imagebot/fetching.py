"""Pictures from addresses that others have given us: only what is public, only so much, only for so long."""

import ipaddress
import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

LARGEST = 50 * 1024 * 1024
PHOTO = 10 * 1024 * 1024

TRANSLATED = tuple(
    map(
        ipaddress.IPv6Network,
        ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"),
    )
)
"""IPv6 that has an IPv4 address inside: compatible, mapped, NAT64, 6to4, Teredo."""


class Gone(Exception):
    """The picture is not there any more."""


class NotFetched(Exception):
    """It could not be fetched now."""


class ForbiddenAddress(Exception):
    """Whoever gave us this address wants us to look where we must not."""


class GlobalOnly(AbstractResolver):
    """Resolves once, and refuses every address that is not public: the connection goes to the one that was checked."""

    def __init__(self) -> None:
        self._resolver = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if not found or not all(is_public(ipaddress.ip_address(one["host"])) for one in found):
            raise OSError(f"{host} is not a public address")
        return found

    async def close(self) -> None:
        await self._resolver.close()


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether a packet to this address leaves for the public internet, also if a gateway translates it to IPv4."""
    if not address.is_global or address.is_multicast:
        return False
    return isinstance(address, ipaddress.IPv4Address) or not any(address in one for one in TRANSLATED)


def check(text: str, loopback: bool = False) -> URL:
    """The address as it will be used: https, no login in it, nowhere that is not public; `loopback` is for simulators."""
    try:
        url = URL(text)
    except ValueError:
        raise ForbiddenAddress("a result must be at https://host/…") from None
    # its host as it is connected to: written in other digits, 127.0.0.1 looks like a name
    host = url.raw_host or ""
    if loopback and host == "127.0.0.1" and url.scheme in ("http", "https"):
        return url
    if url.scheme != "https" or not host or url.user is not None or url.password is not None:
        raise ForbiddenAddress("a result must be at https://host/…")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return url  # a name, which is looked at when it has been resolved
    if not is_public(address):
        raise ForbiddenAddress("a result must be at a public address")
    return url


async def fetch(url: str, loopback: bool = False, seconds: float = 60.0) -> bytes:
    """The bytes at this address."""
    checked = check(url, loopback)
    resolver: Any = None if loopback else GlobalOnly()
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=resolver),
                timeout=aiohttp.ClientTimeout(total=seconds),
                trust_env=False,
            ) as session,
            session.get(checked, allow_redirects=False) as response,
        ):
            if response.status in (403, 404, 410):
                raise Gone(f"HTTP {response.status}")
            if response.status != 200:
                raise NotFetched(f"HTTP {response.status}")
            body = await response.content.read(LARGEST + 1)
            while not response.content.at_eof() and len(body) <= LARGEST:
                body += await response.content.read(LARGEST + 1 - len(body))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise NotFetched(type(error).__name__) from error
    if len(body) > LARGEST:
        raise Gone("it is larger than anything that Telegram takes")
    return body
