"""Who may come in: a token on every route but `/health`, and changes from pages of our own only."""

import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse


def ask_for(app: FastAPI, token: str) -> None:
    """Ask for a token, as a bearer token or as the password of a browser's own login."""

    @app.middleware("http")
    async def ask(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.url.path != "/health" and not _has(request, token):
            challenge = {"WWW-Authenticate": f'Basic realm="{app.title}"'}
            return JSONResponse({"error": "a token is needed"}, 401, headers=challenge)
        return await proceed(request)


def check_origin(request: Request) -> None:
    """Raises 403 unless a change comes from a page of ours, or from no page at all."""
    if not same_origin(request):
        raise HTTPException(403, "a page of another origin may not change anything here")


def same_origin(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.split("://", 1)[-1] == request.headers.get("host")


def _has(request: Request, token: str) -> bool:
    kind, _, told = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            told = base64.b64decode(told, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    return secrets.compare_digest(told.encode(), token.encode())
