"""The signature of KIE's callbacks, against an answer that openssl has computed."""

import pytest

from imagebot.kie_signature import kie_signature, task_id
from raceproof import DeclarationError
from raceproof.webhooks import Endpoint, Rejected, Secret, Verified
from tests.integrations.intake.fix_served import Inbox

NOW = 1700000000.0
# printf 'task-42.1700000000' | openssl dgst -sha256 -hmac "$KEY" -binary | openssl base64
KEY = "key-of-the-webhook-0123456789"
BODY = b'{"code":200,"data":{"taskId":"task-42","state":"success"}}'
HEADERS = {
    "x-webhook-timestamp": "1700000000",
    "x-webhook-signature": "8txw3/v2pVzNIVZt/NvNSnkZJ8doQWC475ln+Nc3WJQ=",
}


def test_a_callback_signed_with_our_key_is_verified() -> None:
    """Under either name of the task's id: some of KIE's pages say task_id."""
    scheme = kie_signature(Secret(KEY))
    assert scheme.verify(HEADERS, BODY, NOW) == Verified()
    assert scheme.verify(HEADERS, BODY.replace(b"taskId", b"task_id"), NOW) == Verified()


def test_an_old_and_a_new_key_are_both_tried() -> None:
    """So that the key can be replaced while callbacks arrive."""
    other = Secret("another-key-of-the-webhook")
    assert kie_signature(other, Secret(KEY)).verify(HEADERS, BODY, NOW) == Verified()
    assert kie_signature(other).verify(HEADERS, BODY, NOW) == Rejected("signature_mismatch")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"data":null}',
        b'{"data":{}}',
        b'{"data":{"taskId":42}}',
        b'{"data":{"taskId":""}}',
        b'{"data":{"taskId":"task-42","task_id":"task-43"}}',
        b'{"data":{"taskId":"task-43"},"data":{"taskId":"task-42"}}',
        b'{"data":{"taskId":"\\ud800"}}',
    ],
)
def test_a_body_without_one_clear_task_id_is_rejected(body: bytes) -> None:
    """What is signed must be what is read."""
    assert kie_signature(Secret(KEY)).verify(HEADERS, body, NOW) == Rejected("signature_malformed")


def test_another_task_or_another_time_is_a_mismatch() -> None:
    """Both are signed."""
    scheme = kie_signature(Secret(KEY))
    later = {**HEADERS, "x-webhook-timestamp": "1700000001"}
    assert scheme.verify(HEADERS, BODY.replace(b"42", b"43"), NOW) == Rejected("signature_mismatch")
    assert scheme.verify(later, BODY, NOW) == Rejected("signature_mismatch")
    assert scheme.verify(HEADERS, BODY, NOW + 301) == Rejected("signature_stale")


def test_a_key_that_is_missing_or_short_is_refused() -> None:
    """The program does not start; it is not open to all."""
    for keys in ((), (Secret(""),), (Secret("fifteen-letters"),)):
        with pytest.raises(DeclarationError):
            kie_signature(*keys)


async def test_the_event_of_a_callback_has_the_task_id() -> None:
    """As the endpoint of the application declares it."""
    inbox = Inbox()
    endpoint = Endpoint("kie", kie_signature(Secret(KEY)), inbox.receive, event_id=task_id, clock=lambda: NOW)
    assert (await endpoint.answer(HEADERS, BODY)).status == 200
    assert [arrival.event_id for arrival in inbox.arrivals] == ["task-42"]
