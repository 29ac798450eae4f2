"""Marker secrets go in everywhere, and come out nowhere: not in logs, reprs, errors, tracebacks, replies or arrivals."""

import base64
import copy
import io
import logging
import pickle
import traceback
from collections.abc import Callable

import pytest
from aiohttp import web

from raceproof.inbox.arrival import Arrival
from raceproof.kernel.errors import DeclarationError
from raceproof.webhooks import Endpoint, Hmac, Scheme, Secret, StandardWebhooks, TelegramSecret
from tests.integrations.intake.fix_served import (
    Inbox,
    Serve,
    by_aiohttp,
    connection,
    post,
)

CANARY = "canary-0123456789-canary"
IN_BASE64 = base64.b64encode(CANARY.encode()).decode()
MARKS = (CANARY, IN_BASE64, CANARY.encode().hex())

SCHEMES: dict[str, Callable[[], Scheme]] = {
    "standard": lambda: StandardWebhooks(Secret("whsec_" + IN_BASE64)),
    "telegram": lambda: TelegramSecret(Secret(CANARY)),
    "part": lambda: Hmac(
        Secret(CANARY),
        header="X-Webhook-Signature",
        encoding="base64",
        timestamp_header="X-Webhook-Timestamp",
        signed=lambda body, timestamp: body[:1] + timestamp.encode(),
    ),
    "hmac": lambda: Hmac(Secret(CANARY), header="X-Proof", timestamp_header="X-Webhook-Timestamp"),
}


def clean(text: str) -> bool:
    return not any(mark in text for mark in MARKS)


def test_a_secret_does_not_show_itself() -> None:
    """However it is written out."""
    secret = Secret(CANARY)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        "{}".format(secret),  # noqa: UP032
        repr([secret]),
        ascii(secret),
    ]
    assert all("redacted" in text and clean(text) for text in shown)
    assert not hasattr(secret, "__dict__")


def test_a_secret_is_given_to_whoever_asks_for_it_by_name() -> None:
    """As text or as bytes; bytes that are no text are not put into an error."""
    assert Secret(CANARY).reveal() == CANARY
    assert Secret(CANARY).reveal_bytes() == Secret(CANARY.encode()).reveal_bytes() == CANARY.encode()
    with pytest.raises(ValueError, match="not a text") as caught:
        Secret(b"\xff" + CANARY.encode()).reveal()
    assert clean("".join(traceback.format_exception(caught.value)))


def test_a_secret_is_compared_and_copied_but_not_pickled() -> None:
    """What is pickled ends up in files."""
    secret = Secret(CANARY)
    assert secret == Secret(CANARY) != Secret("another")
    assert len({secret, Secret(CANARY)}) == 1
    assert secret != CANARY
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


@pytest.mark.parametrize("name", SCHEMES)
def test_neither_a_scheme_nor_its_endpoint_shows_a_secret(name: str, inbox: Inbox) -> None:
    """Nor do the things inside of them."""
    scheme = SCHEMES[name]()
    endpoint = Endpoint("s", scheme, inbox.receive)
    for thing in (scheme, endpoint):
        assert clean(repr(thing))
        assert clean(repr(vars(thing)))


@pytest.mark.parametrize(
    "construct",
    [
        lambda secret: StandardWebhooks(secret),
        lambda secret: StandardWebhooks(Secret("whsec_" + IN_BASE64), secret),
        lambda secret: TelegramSecret(secret),
        lambda secret: Hmac(secret, header=""),
        lambda secret: Hmac(secret, header="X", algorithm="md5"),  # type: ignore[arg-type]
    ],
    ids=["not base64", "the second one", "not for Telegram", "no header", "unknown algorithm"],
)
def test_an_error_of_a_constructor_does_not_show_the_secret(construct: Callable[[Secret], Scheme]) -> None:
    """Not even in a traceback with all local variables."""
    with pytest.raises(DeclarationError) as caught:
        construct(Secret(CANARY + " é!"))
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert clean("".join(shown.format()))


class _Everything(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.out = io.StringIO()
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.out.write(self.format(record) + repr(record.__dict__) + "\n")


MALFORMED = {
    "a NUL": f"X-Telegram-Bot-Api-Secret-Token: {CANARY}\0",
    "a space": f"X-Telegram-Bot-Api-Secret-Token : {CANARY}",
    "a lone line feed": f"X-Telegram-Bot-Api-Secret-Token: {CANARY}\nX: y",
}


@pytest.mark.parametrize("line", MALFORMED)
async def test_a_secret_in_a_line_that_is_no_header_is_not_logged(
    line: str, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    """What kind of error it was is."""
    way = Endpoint("s", SCHEMES["telegram"](), inbox.receive)
    with caplog.at_level(logging.DEBUG):
        async with by_aiohttp(way) as port, connection(port) as client:
            await client.send(post(b"{}", MALFORMED[line]))
            assert (await client.reply())[0] == 400
    assert clean(caplog.text + repr([vars(record) for record in caplog.records]))
    assert "Error handling request from 127.0.0.1: " in caplog.text


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("receives", ["stores", "raises"])
async def test_no_secret_comes_out_of_a_server(
    name: str, receives: str, serve: Serve, inbox: Inbox, capfd: pytest.CaptureFixture[str]
) -> None:
    """Good and bad requests with marks in every private header, all loggers on, and a receiver that tells all it has."""
    everything = _Everything()
    root = logging.getLogger()
    before = root.level
    root.addHandler(everything)
    root.setLevel(logging.DEBUG)

    async def receive(arrival: Arrival) -> None:
        inbox.arrivals.append(arrival)
        if receives == "raises":
            raise RuntimeError(f"postgresql://user:{CANARY}@host/db")

    bodies = (b"{}", b"{", b'{"data":{"taskId":"t"}}')
    headers = [
        f"Authorization: Bearer {CANARY}",
        f"Cookie: session={CANARY}",
        f"X-Telegram-Bot-Api-Secret-Token: {CANARY}",
        f"Webhook-Signature: v1,{IN_BASE64}",
        f"X-Webhook-Signature: {IN_BASE64}",
        f"X-Proof: {CANARY}",
        "Webhook-Id: 1",
        "Webhook-Timestamp: 1700000000",
        "X-Webhook-Timestamp: 1700000000",
    ]
    replies = b""
    way = Endpoint(
        "s",
        SCHEMES[name](),
        receive,
        keep=("content-type", "webhook-id"),
        on_reply=inbox.on_reply,
        clock=lambda: 1700000000,
    )
    try:
        async with serve(way) as port:
            for body in bodies:
                async with connection(port) as client:
                    await client.send(post(body, *headers, "Connection: close"))
                    replies += await client.reader.read()
    finally:
        root.removeHandler(everything)
        root.setLevel(before)
    printed = capfd.readouterr()
    assert replies.count(b"HTTP/1.1 ") == len(bodies)
    assert clean(replies.decode("latin-1"))
    assert clean(everything.out.getvalue())
    assert clean(printed.out + printed.err)
    assert clean(repr(inbox.arrivals) + repr([(one.headers, one.event_id) for one in inbox.arrivals]))
    assert clean(repr(inbox.told))
    assert bool(inbox.arrivals) == (name == "telegram")


def test_the_canary_would_be_found() -> None:
    """A naive scheme that keeps its secret in plain sight is caught by the same search."""

    class Naive:
        def __init__(self, secret: str) -> None:
            self.secret = secret

    assert not clean(repr(vars(Naive(CANARY))))
    assert not clean(web.Response(text=CANARY).text or "")
