"""Reading a feed from an address that a stranger gave: https only, and never an address inside.

The name is resolved once, every address must be a public one, and the connection goes to the address that was checked, so
a name that answers differently the second time gains nothing. No redirects, no proxy, bounded in time and size, before
anything is unpacked and after.
"""

import asyncio
import errno
import ipaddress
import socket
from urllib.parse import urlsplit

import httpx

from outreach.bounded import TooLarge, read_bounded

_NO_NETWORK = (errno.ENETUNREACH, errno.ENETDOWN)


class NotFetched(Exception):
    """The feed could not be had; the message says why."""


class NoNetwork(NotFetched):
    """This machine reaches no network, or no name service: every other feed could not be had either."""


class Fetcher:
    """Gets feeds. `allowed` are hosts that are reached without these rules, for a simulator on this machine."""

    def __init__(self, seconds: float, most_bytes: int, allowed: frozenset[str] = frozenset()) -> None:
        self._seconds = seconds
        self._most = most_bytes
        self._allowed = allowed

    async def get(self, url: str) -> bytes:
        """The document, or `NotFetched`."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._get(url)
        except TimeoutError:
            raise NotFetched(f"no answer within {self._seconds:g} s") from None
        except TooLarge as error:
            raise NotFetched(str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            kind = NoNetwork if _is_no_network(error) else NotFetched
            raise kind(f"{type(error).__name__}: {error}"[:300]) from None

    async def _get(self, url: str) -> bytes:
        target, host = await self._checked(url)
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=self._seconds) as client,
            client.stream(
                "GET",
                target,
                headers={
                    "Host": host,
                    "Accept": "application/rss+xml, application/xml, */*;q=0.1",
                    "Accept-Encoding": "gzip",
                },
                extensions={"sni_hostname": host.partition(":")[0]},
            ) as answer,
        ):
            if answer.is_redirect:
                raise NotFetched("it redirects; give the address that it leads to")
            if answer.status_code != 200:
                raise NotFetched(f"the server answered {answer.status_code}")
            return await read_bounded(answer, self._most)

    async def _checked(self, url: str) -> tuple[httpx.URL, str]:
        """The URL with the address in the place of the name, and the name."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise NotFetched("it is not a URL") from None
        host = parts.hostname or ""
        if f"{host}:{port}" in self._allowed and parts.scheme == "http":
            return httpx.URL(url), f"{host}:{port}"
        if parts.scheme != "https" or not host or parts.username is not None or parts.password is not None:
            raise NotFetched("a feed is read from https://…, without a login in it")
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port or 443, type=socket.SOCK_STREAM)
        addresses = [str(one[4][0]) for one in found]
        for address in addresses:
            if not _public(address):
                raise NotFetched("its name leads to an address that is not public")
        return httpx.URL(url).copy_with(host=addresses[0]), host if port in (None, 443) else f"{host}:{port}"


def _is_no_network(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, socket.gaierror):
            return error.errno == socket.EAI_AGAIN
        if isinstance(error, OSError) and error.errno in _NO_NETWORK:
            return True
        error = error.__cause__ or error.__context__
    return False


def _public(address: str) -> bool:
    one = ipaddress.ip_address(address.partition("%")[0])
    inner = one.ipv4_mapped if isinstance(one, ipaddress.IPv6Address) else None
    return (inner or one).is_global and not (inner or one).is_multicast
