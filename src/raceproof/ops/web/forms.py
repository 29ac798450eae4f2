"""Reading forms, with limits on size, time and fields."""

import asyncio
import re
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

LARGEST = 256 * 1024
_SECONDS = 10.0
_MOST_FIELDS = 200
_PLACE = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")

Form = dict[str, list[str]]


async def read_form(request: Request) -> Form:
    """The fields of a form, each with its values."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "a form must be sent as application/x-www-form-urlencoded")
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST:
                    raise HTTPException(413, "the form is too large")
    except TimeoutError as error:
        raise HTTPException(408, "the form did not arrive in time") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the form was cut short") from error
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise HTTPException(400, "the form is malformed") from error
    found: Form = {}
    for name, value in pairs:
        if "\0" in value:
            raise HTTPException(400, "the form must not contain NUL characters")
        found.setdefault(name, []).append(value)
    return found


def position(text: str | None) -> str | None:
    """Where a page begins, as a pager link has it: a number, or two joined by a hyphen on Redis."""
    if text is not None and not _PLACE.fullmatch(text):
        raise HTTPException(400, "before= must be a position from a pager link")
    return text


def one(form: Form, name: str, default: str = "") -> str:
    """The one value of a field."""
    return form.get(name, [default])[-1]
