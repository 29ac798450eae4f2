"""A request as Telegram sends it: a short message in a private chat, with an update number of its own."""

import json

PATH = "/webhook"
SECRET = "a-secret-of-the-benchmark"

_PLACE = 1_000_000_001
_UPDATE = {
    "update_id": _PLACE,
    "message": {
        "message_id": 4711,
        "from": {
            "id": 987654321,
            "is_bot": False,
            "first_name": "Ann",
            "last_name": "Example",
            "username": "ann_example",
            "language_code": "en",
        },
        "chat": {
            "id": 987654321,
            "first_name": "Ann",
            "last_name": "Example",
            "username": "ann_example",
            "type": "private",
        },
        "date": 1767225600,
        "text": "/start and a few words more, as people write them",
        "entities": [{"offset": 0, "length": 6, "type": "bot_command"}],
    },
}


def halves(port: int) -> tuple[bytes, bytes]:
    """What comes before the update's number of ten digits in a request, and what comes after it."""
    body = json.dumps(_UPDATE, separators=(",", ":")).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{port}\r\n"
        "Content-Type: application/json\r\n"
        f"X-Telegram-Bot-Api-Secret-Token: {SECRET}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    before, _, after = body.partition(b"%d" % _PLACE)
    return head + before, after
