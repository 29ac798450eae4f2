"""The way in for events of others: verify → strict JSON → event id → `receive`, and 200 only when `receive` has returned.

Nothing is answered with 2xx that `receive` has not taken: what it raises becomes 503, and so does an answer of this
library that did not reach its end. A body that was cut off, is too big or too slow never gets that far. Whether an event
is new is for `receive` to decide, in one write; a duplicate is answered with 200 like the first.

Not promised: protection from slow headers and from too many connections, which is the server's part.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from raceproof.inbox.arrival import NO_HEADERS, Arrival
from raceproof.kernel.errors import CallError, DeclarationError
from raceproof.kernel.secrecy import is_secret
from raceproof.webhooks.headers import AnyHeaders, Headers, headers_of
from raceproof.webhooks.reply import OK, REPLIES, UNAUTHORIZED, Reason, Reply
from raceproof.webhooks.scheme import Scheme, Verified
from raceproof.webhooks.strict_json import BadJson, parse

log = logging.getLogger("raceproof")

LONGEST_KEY = 512

_SHAPE_ERRORS = (LookupError, TypeError, ValueError, AttributeError)


Observer = Callable[[str, int, str], object]
"""Called with the source, the status and the reason of each reply."""


class Endpoint:
    """Where one source sends its events.

    `event_id` and `ordering_key` are asked with the parsed body (with `json=False`, with its bytes). Without `event_id`
    the id is the one that the scheme has verified, or else the hash of the body. `keep` names the headers that an
    `Arrival` carries.
    """

    def __init__(
        self,
        source: str,
        scheme: Scheme,
        receive: Callable[[Arrival], Awaitable[object]],
        *,
        event_id: Callable[[Any], object] | None = None,
        ordering_key: Callable[[Any], object] | None = None,
        json: bool = True,
        keep: Iterable[str] = (),
        max_body: int = 1024 * 1024,
        read_timeout: float = 10,
        in_flight: int = 128,
        on_reply: Observer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not source or not isinstance(source, str):
            raise DeclarationError("an endpoint needs a source: a name for who sends, part of every event's key")
        if not _is_scheme(scheme):
            raise DeclarationError(
                f"the endpoint of {source!r} has no signature scheme that we know; Unsigned() is one, if you mean it"
            )
        if not callable(receive):
            raise DeclarationError(f"receive= must be a coroutine function, got {receive!r}")
        if max_body < 1 or read_timeout <= 0 or in_flight < 1:
            raise DeclarationError(f"the endpoint of {source!r} has a limit that lets nothing through")
        self.source = source
        self._verify = scheme.verify
        self._receive = receive
        self._event_id = event_id
        self._ordering_key = ordering_key
        self._json = json
        self._keep = _kept(source, scheme, keep)
        self._max_body = max_body
        self._read_timeout = read_timeout
        self._most = in_flight
        self._in_flight = 0
        self._on_reply = on_reply
        self._clock = clock

    async def answer(self, headers: AnyHeaders, chunks: bytes | AsyncIterable[bytes]) -> Reply:
        """Answer one request, whose body is `chunks`: the whole of it, or the pieces as they arrive."""
        headers = headers_of(headers)
        if not isinstance(chunks, bytes | AsyncIterable):
            chunks = _whole(chunks)
        if self._in_flight >= self._most:
            return self._told(REPLIES[Reason.BUSY], Reason.BUSY)
        self._in_flight += 1
        try:
            length = self._length(headers)
            body = chunks if isinstance(chunks, bytes) else await self._read(chunks)
            arrival = self._admitted(headers, body, length)
            try:
                # P8: the event is the receiver's before anybody says 200
                answer = await self._receive(arrival)
            except Exception as error:
                raise self._failed(error, arrival.event_id) from None
            outcome = Reason.RECEIVED if answer is None else self._outcome(answer, arrival)
            return self._told(OK, outcome)
        except _Refused as refused:
            return self._told(refused.reply, refused.reason)
        finally:
            self._in_flight -= 1

    def _admitted(self, headers: Headers, body: bytes, length: int | None) -> Arrival:
        """The event of a request, if it is whole and from whom it should be."""
        if len(body) != length and length is not None:
            raise _Refused(Reason.UNREADABLE)
        if len(body) > self._max_body:
            raise _Refused(Reason.TOO_BIG)
        try:
            verified = self._verify(headers, body, self._clock())
        except Exception as error:
            raise self._failed(error, "-") from None
        if not isinstance(verified, Verified):
            # asked this way round, a scheme that answers nothing or nonsense lets no request in; a reason of its own may be
            # the name of any of ours, and is for the counter alone
            raise _Refused(str(getattr(verified, "reason", Reason.SIGNATURE_MALFORMED)), UNAUTHORIZED)
        return self._arrival(headers, body, verified.event_id)

    def _length(self, headers: Headers) -> int | None:
        """Before anything is read: what would be too big, and what would not be the bytes that were signed."""
        encoding = headers.get("content-encoding")
        if encoding is not None and encoding.lower() != "identity":
            raise _Refused(Reason.ENCODED)
        said = headers.get("content-length")
        if said is None:
            return None
        if not (said.isascii() and said.isdecimal()):
            raise _Refused(Reason.UNREADABLE)
        if len(said) > 18 or (length := int(said)) > self._max_body:
            raise _Refused(Reason.TOO_BIG)
        return length

    async def _read(self, chunks: AsyncIterable[bytes]) -> bytes:
        """All of the body, counted while it arrives, within the time for all of it."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._read_timeout):
                async for chunk in chunks:
                    body += chunk
                    if len(body) > self._max_body:
                        raise _Refused(Reason.TOO_BIG)
        except _Refused:
            raise
        except TimeoutError:
            raise _Refused(Reason.TOO_SLOW) from None
        except Exception:
            # the connection broke, or the chunks were badly framed: what came so far is not the event
            raise _Refused(Reason.UNREADABLE) from None
        return bytes(body)

    def _arrival(self, headers: Headers, body: bytes, verified_id: str | None) -> Arrival:
        value: Any = body
        if self._json:
            try:
                value = parse(body)
            except BadJson as bad:
                log.info("[INTAKE_BAD_JSON] %s: %s", self.source, bad)
                raise _Refused(Reason.BAD_JSON) from None
        if self._event_id is not None:
            event_id = self._ask(self._event_id, value, Reason.NO_EVENT_ID)
        else:
            event_id = verified_id or f"sha256:{hashlib.sha256(body).hexdigest()}"
        if event_id is None or not _storable(event_id):
            raise _Refused(Reason.NO_EVENT_ID)
        ordering_key = None
        if self._ordering_key is not None:
            ordering_key = self._ask(self._ordering_key, value, Reason.NO_ORDERING_KEY)
            if ordering_key is not None and not _storable(ordering_key):
                raise _Refused(Reason.NO_ORDERING_KEY)
        return Arrival(self.source, event_id, body, self._kept_of(headers), ordering_key)

    def _ask(self, key: Callable[[Any], object], value: Any, reason: Reason) -> str | None:
        """A key out of the body. A body of another shape is the sender's fault, any other error is ours."""
        try:
            found = key(value)
        except _SHAPE_ERRORS:
            raise _Refused(reason) from None
        except Exception as error:
            raise self._failed(error, "-") from None
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        if found is None or isinstance(found, str):
            return found
        raise _Refused(reason)

    def _kept_of(self, headers: Headers) -> Mapping[str, str]:
        if not self._keep:
            return NO_HEADERS
        found = ((name, headers.get(name)) for name in self._keep)
        return {name: _printable(value) for name, value in found if value is not None}

    def _outcome(self, answer: object, arrival: Arrival) -> str:
        """Losing is a value in this library: an answer that did not reach its end is no commit."""
        outcome = str(getattr(answer, "outcome", Reason.RECEIVED))
        if getattr(answer, "reached", True) is False:
            log.error("[INTAKE_FAILED] %s %r: the receiver answered %s", self.source, arrival.event_id, outcome)
            raise _Refused(Reason.FAILED)
        return outcome

    def _failed(self, error: BaseException, event_id: str) -> "_Refused":
        """Log what kind of error it was and where: its message may have a DSN, a row or a token in it."""
        log.error("[INTAKE_FAILED] %s %r: %s", self.source, event_id, _described(error))
        return _Refused(Reason.FAILED)

    def _told(self, reply: Reply, reason: str) -> Reply:
        if self._on_reply is not None:
            try:
                self._on_reply(self.source, reply.status, reason)
            except Exception as error:
                log.error("the on_reply of %s failed: %s", self.source, _described(error))
        return reply


class _Refused(Exception):
    """Ends the way of a request, inside of this module."""

    def __init__(self, reason: str, reply: Reply | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.reply = REPLIES[reason] if reply is None else reply


def _is_scheme(given: object) -> bool:
    """The class of a scheme has all that a scheme has, except secrets."""
    return isinstance(given, Scheme) and not isinstance(given, type)


def _kept(source: str, scheme: Scheme, names: Iterable[str]) -> tuple[str, ...]:
    """The headers to keep, none of which may prove or open anything."""
    if isinstance(names, str):
        raise DeclarationError(f"keep={names!r} of {source!r} is one text; give the names in a tuple")
    keep = tuple(name.lower() for name in names)
    for name in keep:
        if name in scheme.private or is_secret(name):
            raise DeclarationError(f"the header {name} must not be stored; take it out of keep of {source!r}")
    return keep


def _whole(given: Any) -> bytes:
    """A body that is there already; a text has lost the bytes that were signed."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise CallError(f"the body must be bytes or an async iterable of bytes, as it arrived, got {type(given).__name__}")


def _storable(key: str) -> bool:
    """Can any store have it as a part of a key?"""
    if not 0 < len(key) <= LONGEST_KEY or "\0" in key:
        return False
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


def _printable(value: str) -> str:
    return value if value.isascii() and value.isprintable() else value.encode("unicode_escape").decode("ascii")


def _described(error: BaseException) -> str:
    """An error without its message: its type, its code, and the line that raised it."""
    codes = [
        f" {name}={code}" for name in ("errno", "sqlstate") if isinstance(code := getattr(error, name, None), int | str)
    ]
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f" at {PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame is not None else ""
    return f"{type(error).__name__}{''.join(codes)}{place}"
