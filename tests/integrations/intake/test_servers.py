"""An endpoint behind aiohttp and behind uvicorn, over real sockets, with senders that do not play by the rules."""

import asyncio
import gzip

import pytest

from raceproof.inbox.arrival import Arrival
from raceproof.webhooks import Endpoint, Hmac, StandardWebhooks, TelegramSecret, Unsigned
from tests.integrations.intake.fix_served import Inbox, Serve, by_uvicorn, connection, post
from tests.integrations.intake.test_signatures import (
    STANDARD,
    STANDARD_BODY,
    STANDARD_SECRET,
    STANDARD_TIME,
    TELEGRAM,
    TELEGRAM_SECRET,
)


def endpoint(inbox: Inbox, **options: object) -> Endpoint:
    return Endpoint("s", Unsigned(), inbox.receive, on_reply=inbox.on_reply, **options)  # type: ignore[arg-type]


async def test_an_event_goes_all_the_way(serve: Serve, inbox: Inbox) -> None:
    """Signed as in the specification, twice over one connection; and the names of headers may be in any case."""
    way = Endpoint(
        "s",
        StandardWebhooks(STANDARD_SECRET),
        inbox.receive,
        keep=("User-Agent",),
        clock=lambda: STANDARD_TIME,
    )
    headers = [f"{name.title()}: {value}" for name, value in STANDARD.items()]
    async with serve(way) as port, connection(port) as client:
        for _ in range(2):
            await client.send(post(STANDARD_BODY, *headers, "User-Agent: sender/1"))
            status, _, body = await client.reply()
            assert (status, body) == (200, b"")
    expected = Arrival("s", STANDARD["webhook-id"], STANDARD_BODY, {"user-agent": "sender/1"})
    assert inbox.arrivals == [expected, expected]


async def test_a_changed_body_is_401_and_the_connection_lives_on(serve: Serve, inbox: Inbox) -> None:
    """The next request on it may be good."""
    way = Endpoint("s", TelegramSecret(TELEGRAM_SECRET), inbox.receive)
    token = f"X-Telegram-Bot-Api-Secret-Token: {TELEGRAM_SECRET}"
    async with serve(way) as port, connection(port) as client:
        await client.send(post(b"{}", token + "x"))
        status, headers, body = await client.reply()
        assert (status, body, headers["content-type"]) == (
            401,
            b"not authorized\n",
            "text/plain; charset=utf-8",
        )
        await client.send(post(b"{}", token))
        assert (await client.reply())[0] == 200


async def test_headers_in_other_bytes_than_ascii_are_just_wrong(serve: Serve, inbox: Inbox) -> None:
    """401, whatever the server makes of them; and one that is kept can be stored."""
    signed = Endpoint("s", TelegramSecret(TELEGRAM_SECRET), inbox.receive)
    async with serve(signed) as port, connection(port) as client:
        await client.send(post(b"{}", "X-Telegram-Bot-Api-Secret-Token: \xff\xfe"))
        assert (await client.reply())[0] == 401
    async with serve(endpoint(inbox, keep=("X-Kept",))) as port, connection(port) as client:
        await client.send(post(b"{}", "X-Kept: \xff"))
        assert (await client.reply())[0] == 200
    assert inbox.arrivals[0].headers["x-kept"].isascii()


async def test_the_first_of_two_headers_counts(serve: Serve, inbox: Inbox) -> None:
    """The same behind both servers."""
    way = Endpoint("s", TelegramSecret(TELEGRAM_SECRET), inbox.receive)
    name = next(iter(TELEGRAM))
    async with serve(way) as port, connection(port) as client:
        await client.send(post(b"{}", f"{name}: wrong", f"{name}: {TELEGRAM_SECRET}"))
        assert (await client.reply())[0] == 401
        await client.send(post(b"{}", f"{name}: {TELEGRAM_SECRET}", f"{name}: wrong"))
        assert (await client.reply())[0] == 200


async def test_a_body_that_comes_later_and_in_pieces_is_put_together(serve: Serve, inbox: Inbox) -> None:
    """With a length, and in chunks without one."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        head, _, body = post(b'{"a": 1}').partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        for byte in body:
            await client.send(bytes([byte]))
        assert (await client.reply())[0] == 200
        await client.send(CHUNKED + b'4\r\n{"a"\r\n' + b"4\r\n: 2}\r\n" + b"0\r\n\r\n")
        assert (await client.reply())[0] == 200
    assert [one.body for one in inbox.arrivals] == [b'{"a": 1}', b'{"a": 2}']


CHUNKED = b"POST /events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_sender_that_waits_for_a_continue_gets_one(serve: Serve, inbox: Inbox) -> None:
    """curl does, with a body of some size."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        head, _, body = post(b"{}", "Expect: 100-continue").partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        await client.send(body)
        assert (await client.reply())[0] == 200


async def test_a_large_body_up_to_the_limit_is_taken_whole(serve: Serve, inbox: Inbox) -> None:
    """More than any buffer of a server."""
    body = b'"' + b"x" * (1024 * 1024 - 2) + b'"'
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(post(body))
        assert (await client.reply())[0] == 200
    assert inbox.arrivals[0].body == body


async def test_a_length_beyond_the_limit_is_413_before_anything_is_sent(serve: Serve, inbox: Inbox) -> None:
    """A lie or not: the body does not have to come."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(post(b"", length=1024 * 1024 + 1))
        status, headers, _ = await client.reply()
        assert (status, headers["connection"]) == (413, "close")
        assert await client.reader.read() == b""
    assert inbox.reasons == ["too_big"]


async def test_endless_chunks_are_413_and_then_nobody_listens(serve: Serve, inbox: Inbox) -> None:
    """Counted while they are read, since there is no length to look at."""
    async with serve(endpoint(inbox, max_body=100_000)) as port, connection(port) as client:
        await client.send(CHUNKED)
        for _ in range(101):
            await client.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        status, headers, _ = await client.reply()
        assert (status, headers["connection"]) == (413, "close")
    assert (inbox.arrivals, inbox.reasons) == ([], ["too_big"])


async def test_a_sender_that_drips_is_408(serve: Serve, inbox: Inbox) -> None:
    """The time is for the whole body: a byte now and then does not make it longer."""
    async with serve(endpoint(inbox, read_timeout=0.1)) as port, connection(port) as client:
        await client.send(post(b"{", length=1_000_000))

        async def drip() -> None:
            while True:
                await client.send(b" ")
                await asyncio.sleep(0)

        dripping = asyncio.create_task(drip())
        try:
            status, headers, _ = await client.reply()
        finally:
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
        assert (status, headers["connection"]) == (408, "close")
    assert (inbox.arrivals, inbox.reasons) == ([], ["too_slow"])


@pytest.mark.parametrize("request_bytes", [post(b"{}", length=3), CHUNKED + b"2\r\n{}\r\n"], ids=["length", "chunks"])
async def test_a_sender_that_stops_half_way_has_sent_nothing(serve: Serve, inbox: Inbox, request_bytes: bytes) -> None:
    """Its side is closed before the body is complete: what came is JSON, and is not the event."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(request_bytes)
        client.writer.write_eof()
        assert b" 200 " not in await client.reader.read()
    assert inbox.arrivals == []
    assert inbox.reasons in ([], ["unreadable"])


async def test_a_sender_that_closes_its_side_after_the_body_is_heard(serve: Serve, inbox: Inbox) -> None:
    """Whether it still gets the answer is the server's matter; received it is received."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(post(b"{}"))
        client.writer.write_eof()
        answer = await client.reader.read()
    assert answer.startswith(b"HTTP/1.1 200") or answer == b""
    assert len(inbox.arrivals) <= 1


async def test_a_length_that_is_too_short_leaves_no_event_with_more(serve: Serve, inbox: Inbox) -> None:
    """The event is what the length says, or there is none: what follows is another request, and not a good one."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(post(b"{}  and more", length=2))
        status, _, _ = await client.reply()
        assert b" 200 " not in await client.reader.read()
    assert [one.body for one in inbox.arrivals] == ([b"{}"] if status == 200 else [])


async def test_a_compressed_body_is_415(serve: Serve, inbox: Inbox) -> None:
    """Also behind a server that would unpack it for us."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(post(gzip.compress(b"{}"), "Content-Encoding: gzip"))
        assert (await client.reply())[0] == 415
    assert inbox.reasons == ["encoded"]


async def test_a_second_encoding_is_415_too(serve: Serve, inbox: Inbox) -> None:
    """The first one may say that there is none."""
    request = post(gzip.compress(b"{}"), "Content-Encoding: identity", "Content-Encoding: gzip")
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(request)
        assert (await client.reply())[0] == 415
    assert inbox.reasons == ["encoded"]


CONTENT_TYPES = (
    None,
    "",
    "application/json",
    "APPLICATION/json",
    "Application/JSON ; Charset=UTF-8",
    "application/json;charset=utf-16",
    "application/x+json",
    "application/cloudevents+json",
    "text/json",
    "text/plain",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "nonsense",
)
LOOSE_BODIES = (b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\\u0000"}', b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}')


async def test_no_spelling_of_a_content_type_goes_past_strict_json(serve: Serve, inbox: Inbox) -> None:
    """What the sender calls its body decides nothing: the endpoint was declared to read JSON."""
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        for kind in CONTENT_TYPES:
            headers = () if kind is None else (f"Content-Type: {kind}",)
            for body in LOOSE_BODIES:
                await client.send(post(body, *headers))
                assert (kind, body, (await client.reply())[0]) == (kind, body, 400)
            await client.send(post(b'{"a": 1}', *headers))
            assert (kind, (await client.reply())[0]) == (kind, 200)
    assert inbox.reasons == (["bad_json"] * len(LOOSE_BODIES) + ["received"]) * len(CONTENT_TYPES)


async def test_a_charset_is_not_believed(serve: Serve, inbox: Inbox) -> None:
    """JSON is UTF-8: another reader of the stored bytes would otherwise see another event."""
    body = '{"a": 1}'.encode("utf-16")
    async with serve(endpoint(inbox)) as port, connection(port) as client:
        await client.send(post(body, "Content-Type: application/json; charset=utf-16"))
        assert (await client.reply())[0] == 400
    assert inbox.reasons == ["bad_json"]


async def test_one_too_many_is_503_with_retry_after(serve: Serve) -> None:
    """While the first one is being stored."""
    held, entered = asyncio.Event(), asyncio.Event()

    async def receive(arrival: Arrival) -> None:
        assert not entered.is_set()
        entered.set()
        await held.wait()

    way = Endpoint("s", Unsigned(), receive, in_flight=1)
    async with serve(way) as port, connection(port) as first, connection(port) as second:
        await first.send(post(b"{}"))
        await entered.wait()
        await second.send(post(b"{}"))
        status, headers, _ = await second.reply()
        assert (status, headers["retry-after"]) == (503, "1")
        held.set()
        assert (await first.reply())[0] == 200


async def test_a_receiver_that_raises_is_503(serve: Serve) -> None:
    """Never 200 and lost."""

    async def broken(arrival: Arrival) -> None:
        raise OSError(111, "refused")

    async with serve(Endpoint("s", Unsigned(), broken)) as port, connection(port) as client:
        await client.send(post(b"{}"))
        status, headers, body = await client.reply()
        assert (status, headers["retry-after"], body) == (503, "5", b"not stored\n")


async def test_an_empty_body_is_signed_like_any_other(serve: Serve, inbox: Inbox) -> None:
    """Without one there is nothing to verify, and nothing to store."""
    way = Endpoint("s", Hmac("0123456789abcdef", header="X-Signature"), inbox.receive)
    async with serve(way) as port, connection(port) as client:
        await client.send(b"POST /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await client.reply())[0] == 401
    assert inbox.arrivals == []


async def test_another_method_than_post_is_405(inbox: Inbox) -> None:
    """With aiohttp that is the router's part."""
    async with by_uvicorn(endpoint(inbox)) as port, connection(port) as client:
        await client.send(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        status, headers, _ = await client.reply()
        assert (status, headers["allow"]) == (405, "POST")
