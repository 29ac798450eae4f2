"""Headers in every form that web frameworks have them: a valid signature is valid in each of them."""

from collections.abc import Iterator
from email.message import Message
from typing import Any

import httpx
import pytest
from django.http.request import HttpHeaders
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict
from starlette.datastructures import Headers as StarletteHeaders

from raceproof.kernel.errors import CallError
from raceproof.webhooks import Endpoint, Headers, Hmac, TelegramSecret, Unsigned, Verified
from tests.integrations.intake.fix_served import Inbox
from tests.integrations.intake.test_signatures import KNOWN, TELEGRAM_SECRET

TOKEN = "X-Telegram-Bot-Api-Secret-Token"


class Asked:
    """Only `get` by lower-case names, as `raceproof.webhooks.Headers` asks for."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = {name.lower(): value for name, value in headers.items()}

    def get(self, name: str, /) -> str | None:
        return self._headers.get(name)


def message(headers: dict[str, str]) -> Message:
    made = Message()
    for name, value in headers.items():
        made[name] = value
    return made


def pairs_once(headers: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from headers.items()


FORMS: dict[str, Any] = {
    "dict as sent": dict,
    "dict in lower case": lambda headers: {name.lower(): value for name, value in headers.items()},
    "dict in upper case": lambda headers: {name.upper(): value for name, value in headers.items()},
    "dict of bytes": lambda headers: {name.encode(): value.encode() for name, value in headers.items()},
    "list of pairs": lambda headers: list(headers.items()),
    "list of lists": lambda headers: [list(pair) for pair in headers.items()],
    "list of pairs of bytes": lambda headers: [(n.title().encode(), v.encode()) for n, v in headers.items()],
    "generator of pairs": pairs_once,
    "items": lambda headers: headers.items(),
    "starlette": StarletteHeaders,
    "multidict": MultiDict,
    "case-insensitive multidict": lambda headers: CIMultiDictProxy(CIMultiDict(headers)),
    "httpx": httpx.Headers,
    "django": lambda headers: HttpHeaders(
        {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}
    ),
    "standard library": message,
    "get only": Asked,
}


@pytest.mark.parametrize("scheme", KNOWN)
@pytest.mark.parametrize("form", FORMS)
async def test_a_valid_signature_is_valid_in_every_form_of_headers(inbox: Inbox, form: str, scheme: str) -> None:
    """With names as the sender writes them."""
    verifier, headers, body, now, _ = KNOWN[scheme]
    given = {name.title(): value for name, value in headers.items()}
    way = Endpoint("s", verifier, inbox.receive, json=False, clock=lambda: now)
    assert (await way.answer(FORMS[form](given), body)).status == 200
    assert [arrival.body for arrival in inbox.arrivals] == [body]
    assert isinstance(verifier.verify(FORMS[form](given), body, now), Verified)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "get only"])
async def test_kept_headers_and_limits_are_found_in_every_form(inbox: Inbox, form: str) -> None:
    """Not only the signature is asked for."""
    way = Endpoint("s", Unsigned(), inbox.receive, keep=("X-Event",), max_body=10, on_reply=inbox.on_reply)
    await way.answer(FORMS[form]({"X-Event": "push", "Content-Length": "2"}), b"{}")
    await way.answer(FORMS[form]({"X-Event": "push", "Content-Length": "11"}), b"{}")
    await way.answer(FORMS[form]({"X-Event": "push", "Content-Encoding": "gzip"}), b"{}")
    assert inbox.arrivals[0].headers == {"x-event": "push"}
    assert inbox.reasons == ["received", "too_big", "encoded"]


@pytest.mark.parametrize("form", ["list", "starlette", "multidict", "two spellings"])
async def test_of_a_header_that_comes_twice_the_first_counts(inbox: Inbox, form: str) -> None:
    """As behind every server."""
    way = Endpoint("s", TelegramSecret(TELEGRAM_SECRET), inbox.receive)
    for values, status in (((TELEGRAM_SECRET, "wrong"), 200), (("wrong", TELEGRAM_SECRET), 401)):
        pairs = [(TOKEN, values[0]), (TOKEN.lower(), values[1])]
        forms: dict[str, Any] = {
            "list": pairs,
            "starlette": StarletteHeaders(raw=[(n.lower().encode(), v.encode()) for n, v in pairs]),
            "multidict": CIMultiDict(pairs),
            "two spellings": dict(pairs),
        }
        assert (await way.answer(forms[form], b"{}")).status == status


async def test_every_content_encoding_counts(inbox: Inbox) -> None:
    """Each was applied to the body, whichever was named first."""
    way = Endpoint("s", Unsigned(), inbox.receive)
    for encodings in (("identity", "gzip"), ("gzip", "identity")):
        pairs = [("Content-Encoding", one) for one in encodings]
        assert (await way.answer(pairs, b"{}")).status == 415
    assert (await way.answer([("Content-Encoding", "identity")], b"{}")).status == 200


async def test_a_name_in_another_alphabet_is_another_header(inbox: Inbox) -> None:
    """The Kelvin sign in lower case is a k, but not in HTTP."""
    way = Endpoint("s", Hmac("0123456789abcdef", header="X-Key"), inbox.receive, on_reply=inbox.on_reply)
    assert (await way.answer({"X-\u212aey": "00"}, b"{}")).status == 401
    assert inbox.reasons == ["signature_missing"]


BAD: dict[str, tuple[Any, str]] = {
    "text": ("Authorization: hunter2", "headers must not be one str: pass a mapping"),
    "bytes": (b"Authorization: hunter2", "headers must not be one bytes: pass a mapping"),
    "nothing": (None, "headers must not be a NoneType: pass a mapping"),
    "number": (7, "headers must not be a int: pass a mapping"),
    "list of texts": (["hunter2"], "headers contain a str that is not a .name, value. pair"),
    "triples": ([("a", "hunter2", "c")], "headers contain a tuple that is not a .name, value. pair"),
    "numbers": ([7], "headers contain a int that is not a .name, value. pair"),
    "list of values": ({"X-A": ["hunter2"]}, "the value of the header X-A must be str or bytes, got list"),
    "no value": ({"X-A": None}, "the value of the header X-A must be str or bytes, got NoneType"),
    "no name": ([(None, "hunter2")], "the name of a header must be str or bytes, got NoneType"),
}


@pytest.mark.parametrize("case", BAD)
async def test_headers_of_another_type_are_an_error_that_says_what_to_pass(inbox: Inbox, case: str) -> None:
    """The program is wrong, not the sender: neither 401 nor 503; and no value is shown, it may be a secret."""
    headers, expected = BAD[case]
    way = Endpoint("s", Unsigned(), inbox.receive)
    with pytest.raises(CallError, match=expected) as caught:
        await way.answer(headers, b"{}")
    assert "hunter2" not in str(caught.value)
    assert inbox.arrivals == []


async def test_headers_of_a_wrong_type_take_no_place_in_flight(inbox: Inbox) -> None:
    """The next request is answered."""
    wrong: Any = None
    way = Endpoint("s", Unsigned(), inbox.receive, in_flight=1)
    with pytest.raises(CallError):
        await way.answer(wrong, b"{}")
    assert (await way.answer({}, b"{}")).status == 200


@pytest.mark.parametrize("body", ["{}", None, {}, [b"{}"]], ids=lambda body: type(body).__name__)
async def test_a_body_that_is_not_bytes_is_an_error_too(inbox: Inbox, body: Any) -> None:
    """A text has lost the bytes that were signed; it was answered with 400, as if the sender had broken off."""
    with pytest.raises(CallError, match="the body must be bytes or an async iterable of bytes, as it arrived"):
        await Endpoint("s", Unsigned(), inbox.receive).answer({}, body)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_other_kinds_of_bytes_are_bytes(inbox: Inbox, kind: Any) -> None:
    """An arrival has them as bytes, which nothing can change any more."""
    assert (await Endpoint("s", Unsigned(), inbox.receive).answer({}, kind(b"{}"))).status == 200
    assert inbox.arrivals[0].body == b"{}"
    assert type(inbox.arrivals[0].body) is bytes


async def test_a_scheme_of_one_s_own_still_asks_by_lower_case_names(inbox: Inbox) -> None:
    """Whatever form the caller has."""

    class Own:
        private: frozenset[str] = frozenset()

        def verify(self, headers: Headers, body: bytes, now: float) -> Verified:
            assert headers.get("x-mine") == "yes"
            return Verified("e-1")

    way = Endpoint("s", Own(), inbox.receive)
    for headers in ([("X-Mine", "yes")], {"X-MINE": "yes"}, [(b"x-mine", b"yes")]):
        assert (await way.answer(headers, b"{}")).status == 200
