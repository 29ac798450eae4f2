"""Known answers from elsewhere, and what each scheme must refuse."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raceproof.kernel.errors import DeclarationError
from raceproof.webhooks import (
    Hmac,
    Reason,
    Rejected,
    Scheme,
    Secret,
    StandardWebhooks,
    TelegramSecret,
    Unsigned,
    Verified,
)
from tests.integrations.intake.fix_unhurried import unhurried

NOW = 1700000000.0

# The example of the specification of Standard Webhooks.
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_TIME = 1614265330
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(STANDARD_TIME),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}

# printf 'task-42.1700000000' | openssl dgst -sha256 -hmac "$KEY" -binary | openssl base64
PART_SECRET = "key-of-the-webhook-0123456789"
PART_BODY = b'{"code":200,"data":{"taskId":"task-42","state":"success"}}'
PART = {
    "x-webhook-timestamp": "1700000000",
    "x-webhook-signature": "8txw3/v2pVzNIVZt/NvNSnkZJ8doQWC475ln+Nc3WJQ=",
}


def a_part(*secrets: Any) -> Hmac:
    """A scheme that signs one value of the body, and the time."""

    def part(body: bytes, timestamp: str) -> bytes | None:
        found = re.search(rb'"taskId":"([a-z0-9-]+)"', body)
        return found[1] + b"." + timestamp.encode() if found else None

    return Hmac(
        *secrets,
        header="X-Webhook-Signature",
        encoding="base64",
        timestamp_header="X-Webhook-Timestamp",
        signed=part,
    )


TELEGRAM_SECRET = "telegram_Secret-0123456789"
TELEGRAM = {"x-telegram-bot-api-secret-token": TELEGRAM_SECRET}

SECRET = "another-secret-0123456789"
OTHER = "one-that-is-not-used-0123456789"
OTHER_STANDARD = "whsec_" + base64.b64encode(b"some other 24 bytes long").decode()

GITHUB = Hmac("It's a Secret to Everybody", header="X-Hub-Signature-256", prefix="sha256=")
GITHUB_HEADERS = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
STRIPE = Hmac("stripe-like-secret-0123456789", header="Stripe-Signature", signature_field="v1", timestamp_field="t")
STRIPE_HEX = "fd1283dd268a985d9da1f40a760e65381b0ce799750984d3afe3d89e9bd2f6eb"
STRIPE_BODY = b'{"id":"evt_1"}'

# scheme · headers · body · now · the event id that is verified
KNOWN: dict[str, tuple[Scheme, dict[str, str], bytes, float, str | None]] = {
    "Standard Webhooks": (
        StandardWebhooks(STANDARD_SECRET),
        STANDARD,
        STANDARD_BODY,
        STANDARD_TIME,
        STANDARD["webhook-id"],
    ),
    "Telegram": (TelegramSecret(TELEGRAM_SECRET), TELEGRAM, b"{}", NOW, None),
    "a part": (a_part(PART_SECRET), PART, PART_BODY, NOW, None),
    # the example of GitHub's documentation
    "GitHub": (GITHUB, GITHUB_HEADERS, b"Hello, World!", NOW, None),
    # the rest by openssl dgst -hmac
    "Stripe": (STRIPE, {"stripe-signature": f"t=1700000000,v1={STRIPE_HEX},v0=00"}, STRIPE_BODY, NOW, None),
    "Shopify": (
        Hmac("shopify-like-secret-0123456789", header="X-Shopify-Hmac-Sha256", encoding="base64"),
        {"x-shopify-hmac-sha256": "6GotUF/0+o5Z8M5mnOd5U9VLMd9y4+XgHJMJhDPNjWU="},
        b'{"order":1}',
        NOW,
        None,
    ),
    "Slack": (
        Hmac(
            "slack-like-secret-0123456789",
            header="X-Slack-Signature",
            prefix="v0=",
            timestamp_header="X-Slack-Request-Timestamp",
            signed="v0:{timestamp}:{body}",
        ),
        {
            "x-slack-signature": "v0=d860c45e32128e971d1df1bc22d036cba3ef2f95906c21f02dec4e56939c0e01",
            "x-slack-request-timestamp": "1700000000",
        },
        b"token=1",
        NOW,
        None,
    ),
    "SHA-512": (
        Hmac(SECRET, header="X-Signature", algorithm="sha512"),
        {
            "x-signature": "acedd749cab5f093bb9b153ec8d84d2d3d1d0faaa8722c6cddd35693cfb67dcb"
            "2710981e6e7a46ec714de36e4d5c7f538aabe25b3c285c8e0cbc97738b9dd4d8"
        },
        b'{"a":1}',
        NOW,
        None,
    ),
}
SIGNS_THE_BODY = [name for name in KNOWN if name not in ("Telegram", "a part")]
HAS_A_TIMESTAMP = [name for name in KNOWN if name in ("Standard Webhooks", "a part", "Stripe", "Slack")]


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_answer_is_verified(name: str) -> None:
    """As published, or as openssl computes it."""
    scheme, headers, body, now, event_id = KNOWN[name]
    assert scheme.verify(headers, body, now) == Verified(event_id)


@pytest.mark.parametrize("name", SIGNS_THE_BODY)
def test_a_changed_body_is_rejected(name: str) -> None:
    """One byte more will do."""
    scheme, headers, body, now, _ = KNOWN[name]
    assert scheme.verify(headers, body + b" ", now) == Rejected(Reason.SIGNATURE_MISMATCH)


@pytest.mark.parametrize("name", KNOWN)
def test_a_request_without_one_of_its_headers_is_rejected(name: str) -> None:
    """Each of them in turn, and an empty one is as good as none."""
    scheme, headers, body, now, _ = KNOWN[name]
    for missing in headers:
        without = {other: value for other, value in headers.items() if other != missing}
        assert scheme.verify(without, body, now) == Rejected(Reason.SIGNATURE_MISSING)
        assert scheme.verify({**headers, missing: ""}, body, now) == Rejected(Reason.SIGNATURE_MISSING)


@pytest.mark.parametrize("name", HAS_A_TIMESTAMP)
@pytest.mark.parametrize("away", [300, -300])
def test_a_timestamp_at_the_border_is_accepted(name: str, away: int) -> None:
    """300 seconds, either way."""
    scheme, headers, body, now, event_id = KNOWN[name]
    assert scheme.verify(headers, body, now + away) == Verified(event_id)


@pytest.mark.parametrize("name", HAS_A_TIMESTAMP)
@pytest.mark.parametrize("away", [300.5, -300.5, 10**9])
def test_a_timestamp_too_far_away_is_rejected(name: str, away: float) -> None:
    """Old ones may be replays, and new ones may be kept for later."""
    scheme, headers, body, now, _ = KNOWN[name]
    assert scheme.verify(headers, body, now + away) == Rejected(Reason.SIGNATURE_STALE)


@pytest.mark.parametrize("timestamp", ["1e9", "-1", "1700000000.0", " 1700000000", "+1700000000", "١٢٣", "9" * 13])
def test_a_timestamp_in_another_form_is_rejected(timestamp: str) -> None:
    """There is one form, so that what is compared is what was signed."""
    headers = {**PART, "x-webhook-timestamp": timestamp}
    assert a_part(PART_SECRET).verify(headers, PART_BODY, NOW) == Rejected(Reason.SIGNATURE_MALFORMED)


ROTATING: dict[str, Callable[..., Scheme]] = {
    "Standard Webhooks": StandardWebhooks,
    "Telegram": TelegramSecret,
    "a part": a_part,
}


@pytest.mark.parametrize("name", ROTATING)
def test_every_secret_is_tried(name: str) -> None:
    """The old one, the new one, in either order; and one that is not listed does not count."""
    right = {"Standard Webhooks": STANDARD_SECRET, "Telegram": TELEGRAM_SECRET, "a part": PART_SECRET}[name]
    other = OTHER_STANDARD if name == "Standard Webhooks" else OTHER
    _, headers, body, now, event_id = KNOWN[name]
    assert ROTATING[name](other, right).verify(headers, body, now) == Verified(event_id)
    assert ROTATING[name](Secret(right), Secret(other)).verify(headers, body, now) == Verified(event_id)
    assert ROTATING[name](other).verify(headers, body, now) == Rejected(Reason.SIGNATURE_MISMATCH)


@pytest.mark.parametrize(
    "listed",
    [
        "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v1a,AAAA v2,BBBB v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,CCCC",
    ],
)
def test_every_signature_that_is_listed_is_tried(listed: str) -> None:
    """A sender that rotates signs with both."""
    headers = {**STANDARD, "webhook-signature": listed}
    assert isinstance(StandardWebhooks(STANDARD_SECRET).verify(headers, STANDARD_BODY, STANDARD_TIME), Verified)


def test_hmac_tries_every_secret_and_every_signature_too() -> None:
    """With commas between, and among the fields of Stripe's kind."""
    good = GITHUB_HEADERS["x-hub-signature-256"]
    both = Hmac(OTHER, "It's a Secret to Everybody", header="X-Hub-Signature-256", prefix="sha256=")
    for listed in (f"sha256=00, {good}", f"{good},sha256=00", good.replace("757107ea", "757107EA")):
        assert both.verify({"x-hub-signature-256": listed}, b"Hello, World!", NOW) == Verified()
    listed = f"t=1700000000,v1=00,v1={STRIPE_HEX}"
    assert STRIPE.verify({"stripe-signature": listed}, STRIPE_BODY, NOW) == Verified()


@pytest.mark.parametrize("version", ["v2,", "v1a,", "", "V1,"])
def test_a_signature_of_another_version_does_not_count(version: str) -> None:
    """Even if it is the right one."""
    signature = STANDARD["webhook-signature"].removeprefix("v1,")
    headers = {**STANDARD, "webhook-signature": version + signature}
    found = StandardWebhooks(STANDARD_SECRET).verify(headers, STANDARD_BODY, STANDARD_TIME)
    assert found == Rejected(Reason.SIGNATURE_MISMATCH)


def test_the_border_between_id_timestamp_and_body_cannot_be_moved() -> None:
    """`a` · time 1 · `2.x` and `a.1` · time 2 · `x` have the same signed bytes; an id with a dot is refused."""
    key = base64.b64decode(STANDARD_SECRET.removeprefix("whsec_"))
    message = b"a.1700000000.1700000001.x"
    signature = "v1," + base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()
    scheme = StandardWebhooks(STANDARD_SECRET)
    honest = {"webhook-id": "a", "webhook-timestamp": "1700000000", "webhook-signature": signature}
    moved = {"webhook-id": "a.1700000000", "webhook-timestamp": "1700000001", "webhook-signature": signature}
    assert scheme.verify(honest, b"1700000001.x", NOW) == Verified("a")
    assert scheme.verify(moved, b"x", NOW) == Rejected(Reason.SIGNATURE_MALFORMED)


def test_a_second_timestamp_among_the_fields_is_rejected() -> None:
    """Or one could be fresh and the other one signed."""
    headers = {"stripe-signature": f"t=1700000000,t=1600000000,v1={STRIPE_HEX}"}
    assert STRIPE.verify(headers, STRIPE_BODY, NOW) == Rejected(Reason.SIGNATURE_MALFORMED)


def test_a_body_without_what_is_signed_is_malformed() -> None:
    """The function that makes the signed bytes says so by None."""
    assert a_part(PART_SECRET).verify(PART, b"{}", NOW) == Rejected(Reason.SIGNATURE_MALFORMED)


def test_unsigned_verifies_anything() -> None:
    """Which is why it has to be written out."""
    assert Unsigned().verify({}, b"", NOW) == Verified()


REFUSED: dict[str, Callable[[], object]] = {
    "no secret": lambda: StandardWebhooks(),
    "no secret of Telegram": lambda: TelegramSecret(),
    "no secret of Hmac": lambda: Hmac(header="X-Signature"),
    "an empty secret": lambda: Hmac("", header="X-Signature"),
    "an empty one among others": lambda: Hmac(SECRET, "", header="X-Signature"),
    "an empty Secret": lambda: a_part(Secret("")),
    "a short secret": lambda: a_part("fifteen-letters"),
    "a short secret of Telegram": lambda: TelegramSecret("abc"),
    "None": lambda: a_part(None),
    "only the prefix": lambda: StandardWebhooks("whsec_"),
    "too few bytes in base64": lambda: StandardWebhooks("whsec_" + base64.b64encode(b"x" * 23).decode()),
    "no base64": lambda: StandardWebhooks("whsec_this is not base64 at all, is it?"),
    "letters that Telegram refuses": lambda: TelegramSecret("with a space in the middle"),
    "an unknown algorithm": lambda: Hmac(SECRET, header="X-Signature", algorithm="md5"),  # type: ignore[arg-type]
    "an unknown encoding": lambda: Hmac(SECRET, header="X-Signature", encoding="rot13"),  # type: ignore[arg-type]
    "no header": lambda: Hmac(SECRET, header=""),
    "a header with a colon": lambda: Hmac(SECRET, header="X-Signature:"),
    "a timestamp that is not signed": lambda: Hmac(
        SECRET, header="X-Signature", timestamp_header="X-Time", signed="{body}"
    ),
    "a body that is not signed": lambda: Hmac(
        SECRET, header="X-Signature", timestamp_header="X-Time", signed="{timestamp}"
    ),
    "a signed timestamp that is not there": lambda: Hmac(SECRET, header="X-Signature", signed="{timestamp}.{body}"),
    "two timestamps": lambda: Hmac(
        SECRET, header="X-Signature", signature_field="v1", timestamp_field="t", timestamp_header="X-Time"
    ),
    "a field for the timestamp alone": lambda: Hmac(SECRET, header="X-Signature", timestamp_field="t"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_scheme_that_cannot_protect_is_not_constructed(why: str) -> None:
    """The program does not start; it is not open to all."""
    with pytest.raises(DeclarationError):
        REFUSED[why]()


ANY_TEXT = st.text(max_size=80) | st.sampled_from([*STANDARD.values(), *PART.values(), TELEGRAM_SECRET, "t=1,v1=00"])
NAMES = sorted({name for _, headers, _, _, _ in KNOWN.values() for name in headers})


@unhurried
@given(
    name=st.sampled_from(sorted(KNOWN)),
    headers=st.dictionaries(st.sampled_from(NAMES), ANY_TEXT),
    body=st.binary(max_size=200) | st.just(PART_BODY),
    now=st.floats(min_value=0, max_value=4e9),
)
def test_whatever_is_sent_the_answer_is_verified_or_rejected(
    name: str, headers: dict[str, str], body: bytes, now: float
) -> None:
    """Nothing is raised, and nothing is verified by chance: Telegram's token alone does not cover the body."""
    scheme = KNOWN[name][0]
    found = scheme.verify(headers, body, now)
    if name == "Telegram":
        assert isinstance(found, Verified) == (headers.get("x-telegram-bot-api-secret-token") == TELEGRAM_SECRET)
    elif name != "a part":
        assert isinstance(found, Rejected)


@unhurried
@given(
    body=st.binary(max_size=300),
    secret=st.binary(min_size=24, max_size=64),
    position=st.integers(min_value=0),
)
def test_what_a_sender_signs_is_verified_and_a_flipped_bit_is_not(body: bytes, secret: bytes, position: int) -> None:
    """Signed here by hand, with the standard library alone."""
    signature = base64.b64encode(hmac.new(secret, b"id-1.1700000000." + body, hashlib.sha256).digest()).decode()
    headers = {
        "webhook-id": "id-1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,{signature}",
    }
    scheme = StandardWebhooks(base64.b64encode(secret).decode())
    assert scheme.verify(headers, body, NOW) == Verified("id-1")
    if body:
        changed = bytearray(body)
        changed[position % len(body)] ^= 1
        assert scheme.verify(headers, bytes(changed), NOW) == Rejected(Reason.SIGNATURE_MISMATCH)
