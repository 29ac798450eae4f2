"""The way of a request through an endpoint, without a server."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raceproof.inbox.arrival import Arrival
from raceproof.kernel.errors import DeclarationError
from raceproof.webhooks import (
    Endpoint,
    Headers,
    Hmac,
    Rejected,
    Reply,
    Scheme,
    StandardWebhooks,
    TelegramSecret,
    Unsigned,
    Verified,
)
from tests.integrations.intake.fix_served import Inbox
from tests.integrations.intake.fix_unhurried import unhurried
from tests.integrations.intake.test_signatures import (
    KNOWN,
    STANDARD,
    STANDARD_BODY,
    STANDARD_SECRET,
    STANDARD_TIME,
    TELEGRAM,
    TELEGRAM_SECRET,
)


def endpoint(inbox: Inbox, scheme: Scheme | None = None, **options: Any) -> Endpoint:
    return Endpoint("github", scheme or Unsigned(), inbox.receive, on_reply=inbox.on_reply, **options)


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_an_event_is_received_and_answered_with_200(inbox: Inbox) -> None:
    """With the id that its signature covers."""
    way = endpoint(inbox, StandardWebhooks(STANDARD_SECRET), clock=lambda: STANDARD_TIME)
    assert await way.answer(STANDARD, STANDARD_BODY) == Reply(200)
    assert inbox.arrivals == [Arrival("github", STANDARD["webhook-id"], STANDARD_BODY)]
    assert inbox.told == [("github", 200, "received")]


async def test_nobody_hears_200_before_the_receiver_has_returned(inbox: Inbox) -> None:
    """P8: the answer waits for the commit."""
    committed = asyncio.Event()
    entered = asyncio.Event()

    async def slow(arrival: Arrival) -> None:
        entered.set()
        await committed.wait()

    answer = asyncio.create_task(Endpoint("s", Unsigned(), slow, on_reply=inbox.on_reply).answer({}, b"{}"))
    await entered.wait()
    assert not answer.done()
    assert inbox.told == []
    committed.set()
    assert (await answer).status == 200


class _Failure(Exception):
    sqlstate = "53300"


async def test_a_receiver_that_raises_gets_503_and_a_line_without_the_message(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    """The kind of error, its code and its place are logged; a message may have a DSN or a row in it."""

    async def broken(arrival: Arrival) -> None:
        raise _Failure("postgresql://user:hunter2@host/db is down")

    reply = await Endpoint("s", Unsigned(), broken, on_reply=inbox.on_reply).answer({}, b"{}")
    assert (reply.status, dict(reply.headers)["retry-after"]) == (503, "5")
    assert inbox.told == [("s", 503, "failed")]
    assert "hunter2" not in caplog.text
    assert "[INTAKE_FAILED] s 'sha256:" in caplog.text
    assert "_Failure sqlstate=53300 at test_endpoint.py:" in caplog.text


async def test_a_receiver_that_raises_before_it_waits_is_503_too(inbox: Inbox) -> None:
    def broken(arrival: Arrival) -> Awaitable[None]:
        raise OSError(111, "refused")

    assert (await Endpoint("s", Unsigned(), broken, on_reply=inbox.on_reply).answer({}, b"{}")).status == 503
    assert inbox.reasons == ["failed"]


@dataclass
class _Answer:
    outcome: ClassVar[str] = "duplicate"
    reached: bool = True

    def __bool__(self) -> bool:
        raise TypeError("an answer is neither true nor false")


async def test_a_duplicate_is_answered_with_200_and_counted_as_one(inbox: Inbox) -> None:
    """The word is the answer's own outcome."""

    async def receive(arrival: Arrival) -> _Answer:
        return _Answer()

    assert (await Endpoint("s", Unsigned(), receive, on_reply=inbox.on_reply).answer({}, b"{}")).status == 200
    assert inbox.reasons == ["duplicate"]


async def test_an_answer_that_did_not_reach_its_end_is_503(inbox: Inbox) -> None:
    """Losing is a value in this library, and a value must not be taken for a commit."""

    async def receive(arrival: Arrival) -> _Answer:
        return _Answer(reached=False)

    assert (await Endpoint("s", Unsigned(), receive, on_reply=inbox.on_reply).answer({}, b"{}")).status == 503
    assert inbox.reasons == ["failed"]


@pytest.mark.parametrize("name", list(KNOWN))
async def test_every_refusal_of_a_signature_looks_the_same(inbox: Inbox, name: str) -> None:
    """Nothing there, nonsense, too late or just wrong: one reply, byte for byte; the reasons differ in the counter."""
    scheme, headers, body, now, _ = KNOWN[name]
    bad = [
        {},
        dict.fromkeys(headers, "é"),
        dict.fromkeys(headers, "0"),
        {**headers, next(iter(headers)): "x"},
    ]
    replies = [await endpoint(inbox, scheme, clock=lambda: now, json=False).answer(one, body) for one in bad]
    late = endpoint(inbox, scheme, clock=lambda: now + 10_000, json=False)
    if name in ("Standard Webhooks", "KIE", "Stripe", "Slack"):
        replies.append(await late.answer(headers, body))
        assert inbox.reasons[-1] == "signature_stale"
    assert {(reply.status, reply.body, reply.headers, reply.close) for reply in replies} == {
        (401, b"not authorized\n", (("content-type", "text/plain; charset=utf-8"),), False)
    }
    assert len(set(inbox.reasons)) >= 3
    assert inbox.arrivals == []


async def test_a_bad_signature_is_refused_before_the_body_is_parsed(inbox: Inbox) -> None:
    """401, not 400, for a body that is no JSON."""
    assert (await endpoint(inbox, TelegramSecret(TELEGRAM_SECRET)).answer({}, b"{")).status == 401
    assert (await endpoint(inbox, TelegramSecret(TELEGRAM_SECRET)).answer(TELEGRAM, b"{")).status == 400
    assert inbox.reasons == ["signature_missing", "bad_json"]


class _Nonsense:
    private: frozenset[str] = frozenset()

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def verify(self, headers: Headers, body: bytes, now: float) -> Verified | Rejected:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "yes",
        Verified,
        Rejected("of its own"),
        Rejected("received"),
        Rejected("busy"),
        Rejected(["a", "list"]),  # type: ignore[arg-type]
    ],
    ids=str,
)
async def test_a_scheme_that_answers_anything_but_verified_lets_nobody_in(inbox: Inbox, answer: object) -> None:
    """Not even by mistake, and not with the name of another reason of ours; it is a text in the counter."""
    assert (await endpoint(inbox, _Nonsense(answer)).answer({}, b"{}")).status == 401
    assert inbox.arrivals == []
    assert inbox.reasons == [str(getattr(answer, "reason", "signature_malformed"))]


async def test_a_scheme_that_raises_is_our_fault(inbox: Inbox) -> None:
    """503, so that the sender tries again."""
    assert (await endpoint(inbox, _Nonsense(RuntimeError("no"))).answer({}, b"{}")).status == 503
    assert inbox.arrivals == []


# Ids


async def test_an_id_comes_from_the_body_if_the_endpoint_says_so(inbox: Inbox) -> None:
    """And then before the one of the scheme. A number will do."""
    way = endpoint(
        inbox,
        StandardWebhooks(STANDARD_SECRET),
        clock=lambda: STANDARD_TIME,
        event_id=lambda body: body["test"],
        ordering_key=lambda body: f"n{body['test'] % 7}",
    )
    await way.answer(STANDARD, STANDARD_BODY)
    assert [(one.event_id, one.ordering_key) for one in inbox.arrivals] == [("2432232314", f"n{2432232314 % 7}")]


async def test_without_any_id_it_is_the_hash_of_the_body(inbox: Inbox) -> None:
    """So the same body is the same event."""
    await endpoint(inbox).answer({}, b"{}")
    await endpoint(inbox, json=False).answer({}, b"\xff")
    expected = [f"sha256:{hashlib.sha256(body).hexdigest()}" for body in (b"{}", b"\xff")]
    assert [one.event_id for one in inbox.arrivals] == expected


@pytest.mark.parametrize(
    "found",
    ["", None, True, 1.5, [], {}, b"id", "x" * 513, "a\0b", "\ud800"],
    ids=lambda found: ascii(found)[:12],
)
async def test_what_cannot_be_an_id_is_400(inbox: Inbox, found: object) -> None:
    """Neither an empty one nor one that no store would take."""
    assert (await endpoint(inbox, event_id=lambda body: found).answer({}, b"{}")).status == 400
    assert inbox.reasons == ["no_event_id"]


@pytest.mark.parametrize("body", [b"{}", b"[]", b"[1]", b"null", b"1", b'"text"', b'{"data": 1}', b'{"data": {}}'])
async def test_a_body_of_another_shape_is_400(inbox: Inbox, body: bytes) -> None:
    """The callable may just reach into it."""
    assert (await endpoint(inbox, event_id=lambda body: body["data"]["id"]).answer({}, body)).status == 400
    assert (await endpoint(inbox, ordering_key=lambda body: body["data"]["id"]).answer({}, body)).status == 400
    assert inbox.reasons == ["no_event_id", "no_ordering_key"]


async def test_an_ordering_key_may_be_missing_if_the_callable_says_so(inbox: Inbox) -> None:
    """None is an answer; a key that no store would take is not."""
    assert (await endpoint(inbox, ordering_key=lambda body: None).answer({}, b"{}")).status == 200
    assert (await endpoint(inbox, ordering_key=lambda body: "").answer({}, b"{}")).status == 400
    assert [one.ordering_key for one in inbox.arrivals] == [None]


async def test_a_callable_with_a_bug_is_our_fault(inbox: Inbox) -> None:
    """503, so that the sender tries again and nothing is lost."""
    assert (await endpoint(inbox, event_id=lambda body: 1 // 0).answer({}, b"{}")).status == 503
    assert inbox.reasons == ["failed"]


# Bodies


async def test_a_body_in_pieces_is_put_together(inbox: Inbox) -> None:
    """Empty pieces too."""
    assert (await endpoint(inbox).answer({}, pieces(b'{"a"', b"", b":1}"))).status == 200
    assert inbox.arrivals[0].body == b'{"a":1}'


async def test_the_limit_of_a_body_is_exact_and_counted_while_reading(inbox: Inbox) -> None:
    """What is beyond it is not read."""
    read: list[int] = []

    async def long() -> AsyncIterator[bytes]:
        for _ in range(1000):
            read.append(1)
            yield b" "

    assert (await endpoint(inbox, max_body=4).answer({}, b"1234")).status == 200
    assert (await endpoint(inbox, max_body=4).answer({}, pieces(b"12", b"34"))).status == 200
    assert (await endpoint(inbox, max_body=4).answer({}, b"12345")).status == 413
    reply = await endpoint(inbox, max_body=4).answer({}, long())
    assert (reply.status, reply.close, len(read)) == (413, True, 5)


async def test_a_length_beyond_the_limit_is_refused_before_anything_is_read(inbox: Inbox) -> None:
    """However long its number is."""

    async def untouched() -> AsyncIterator[bytes]:
        raise AssertionError("this was read")
        yield b""

    for length in ("5", "9" * 18, "9" * 5000):
        reply = await endpoint(inbox, max_body=4).answer({"content-length": length}, untouched())
        assert reply.status == 413


@pytest.mark.parametrize("length", ["3", "1", "-2", "2.0", "two", "", "٢"])
async def test_a_body_that_is_not_as_long_as_it_says_is_refused(inbox: Inbox, length: str) -> None:
    """It was cut off, or badly framed: in neither case it is the event."""
    assert (await endpoint(inbox).answer({"content-length": length}, b"{}")).status == 400
    assert (await endpoint(inbox).answer({"content-length": length}, pieces(b"{}"))).status == 400
    assert inbox.reasons == ["unreadable"] * 2


async def test_a_body_that_breaks_off_is_not_received(inbox: Inbox) -> None:
    """Even if what came so far would do."""

    async def broken() -> AsyncIterator[bytes]:
        yield b"{}"
        raise ConnectionResetError("gone")

    assert (await endpoint(inbox).answer({}, broken())).status == 400
    assert (inbox.arrivals, inbox.reasons) == ([], ["unreadable"])


async def test_a_body_that_never_ends_is_408(inbox: Inbox) -> None:
    """And its place among those in flight is free again."""

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    way = endpoint(inbox, read_timeout=0.01, in_flight=1)
    assert (await way.answer({}, stuck())).status == 408
    assert (await way.answer({}, b"{}")).status == 200
    assert inbox.reasons == ["too_slow", "received"]


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity", "GZIP"])
async def test_a_body_with_an_encoding_is_415(inbox: Inbox, encoding: str) -> None:
    """The bytes that are signed are those that we would have, and there is no bomb to unpack."""
    assert (await endpoint(inbox).answer({"content-encoding": encoding}, b"{}")).status == 415
    assert (await endpoint(inbox).answer({"content-encoding": "Identity"}, b"{}")).status == 200


async def test_one_request_too_many_is_told_to_come_back(inbox: Inbox) -> None:
    """While the others are being answered; afterwards there is room again, also after a cancellation."""
    held = asyncio.Event()
    entered = asyncio.Queue[None]()

    inside: list[Arrival] = []

    async def receive(arrival: Arrival) -> None:
        assert len(inside) < 2
        inside.append(arrival)
        entered.put_nowait(None)
        try:
            await held.wait()
        finally:
            inside.pop()

    way = Endpoint("s", Unsigned(), receive, in_flight=2, on_reply=inbox.on_reply)
    tasks = [asyncio.create_task(way.answer({}, b"{}")) for _ in range(2)]
    for _ in tasks:
        await entered.get()
    reply = await way.answer({}, b"{}")
    assert (reply.status, dict(reply.headers)["retry-after"], reply.close) == (503, "1", True)
    tasks[0].cancel()
    await asyncio.gather(*tasks[:1], return_exceptions=True)
    tasks.append(asyncio.create_task(way.answer({}, b"{}")))
    await entered.get()
    held.set()
    assert [(await task).status for task in tasks[1:]] == [200, 200]
    # of one that was cancelled nobody hears, unless somebody is to be called
    assert [reason for reason in inbox.reasons if reason != "failed"] == ["busy", "received", "received"]


# What is kept, and who is told


async def test_only_the_headers_that_are_named_are_kept(inbox: Inbox) -> None:
    """In lower case, and with nothing in them that a store could not take."""
    way = endpoint(inbox, keep=("X-GitHub-Event", "X-Other", "X-Missing", "Idempotency-Key"))
    headers = {"x-github-event": "push", "x-other": "a\udcff\0", "authorization": "Bearer x", "x-not": "1"}
    await way.answer(headers, b"{}")
    assert inbox.arrivals[0].headers == {"x-github-event": "push", "x-other": "a\\udcff\\x00"}


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "proxy-authorization",
        "Cookie",
        "X-Api-Key",
        "X-Telegram-Bot-Api-Secret-Token",
        "x-hub-signature-256",
        "Stripe-Signature",
        "X-Auth",
        "X-Otp",
        "X-User-Pwd",
        "X-Session-Id",
        "X-Proof",
    ],
)
def test_a_header_that_proves_something_cannot_be_kept(inbox: Inbox, name: str) -> None:
    """By its name, or because the scheme says so."""
    with pytest.raises(DeclarationError, match="must not be stored"):
        endpoint(inbox, Hmac("0123456789abcdef", header="X-Proof"), keep=(name,))


async def test_an_observer_that_raises_is_not_felt(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, without its message."""

    def broken(source: str, status: int, reason: str) -> None:
        raise RuntimeError("hunter2")

    async def receive(arrival: Arrival) -> None:
        pass

    assert (await Endpoint("s", Unsigned(), receive, on_reply=broken).answer({}, b"{}")).status == 200
    assert "on_reply of s failed: RuntimeError at test_endpoint.py:" in caplog.text
    assert "hunter2" not in caplog.text


async def test_bad_json_is_logged_with_what_and_where(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    """The sender is told that it is bad, and no more."""
    caplog.set_level(logging.INFO, "raceproof")
    reply = await endpoint(inbox).answer({}, b'{"a": 1, "a": 2}')
    assert (reply.status, reply.body) == (400, b"the body is not JSON that we accept\n")
    assert "[INTAKE_BAD_JSON] github: the key 'a' twice in one object" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": ""},
        {"scheme": None},
        {"scheme": "github"},
        {"scheme": TelegramSecret},
        {"receive": None},
        {"max_body": 0},
        {"read_timeout": 0},
        {"in_flight": 0},
        {"keep": "content-type"},
    ],
    ids=str,
)
def test_an_endpoint_that_cannot_work_is_not_constructed(inbox: Inbox, wrong: dict[str, Any]) -> None:
    """Above all one without a scheme."""
    with pytest.raises(DeclarationError):
        Endpoint(**{"source": "s", "scheme": Unsigned(), "receive": inbox.receive, **wrong})


@unhurried
@given(
    body=st.binary(max_size=100)
    | st.text(max_size=50).map(lambda text: f'{{"id": "{text}"}}'.encode("utf-8", "replace")),
    headers=st.dictionaries(st.sampled_from(["content-length", "content-encoding", "x-kept"]), st.text(max_size=12)),
    in_pieces=st.booleans(),
)
def test_whatever_arrives_200_means_received_and_nothing_is_500(
    body: bytes, headers: dict[str, str], in_pieces: bool
) -> None:
    """And an event that was received can be stored: it has a key that is text."""
    inbox = Inbox()
    way = endpoint(inbox, event_id=lambda body: body["id"], keep=("x-kept",), max_body=80)
    reply = asyncio.run(way.answer(headers, pieces(body) if in_pieces else body))
    assert reply.status in (200, 400, 413, 415)
    assert (reply.status == 200) == (len(inbox.arrivals) == 1)
    for arrival in inbox.arrivals:
        assert arrival.event_id.encode()
        assert all(value.isascii() for value in arrival.headers.values())
