"""Buttons for a page without a phone: they scan its code, as a phone would."""

import zlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel

from appkit.access import same_origin
from qrlogin.identity import SessionId
from qrlogin.seeing import code_url
from qrlogin.service import Service
from qrlogin.simulated.client import Line
from qrlogin.simulated.phone import Phone, ScanRefused

PASSWORD = "swordfish"
"""Of every simulated account that has one."""


class Scan(BaseModel):
    """Which phone scans: the user's, without a password or with the known one, or that of another account."""

    account: Literal["plain", "password", "other"] = "plain"


def phone_routes(service: Service, enter: Callable[..., SessionId], line: Line) -> APIRouter:
    api = APIRouter(tags=["simulated"], prefix="/logins/{session_id}")

    @api.post("/simulated-scan")
    async def scan(session_id: Annotated[SessionId, Depends(enter)], wanted: Scan, request: Request) -> dict[str, Any]:
        """Scan the code that is shown now."""
        if not same_origin(request):
            raise HTTPException(403, "a page of another origin may not change anything here")
        url = await code_url(service.places, session_id)
        if url is None:
            raise HTTPException(404, "there is no code to scan now")
        user = session_id.user_id
        account = int(user) % 2**52 if user.isascii() and user.isdigit() else zlib.crc32(user.encode())
        account = (account or 1) + (wanted.account == "other")
        phone = Phone(line, account, user, PASSWORD if wanted.account == "password" else None)
        try:
            await phone.scan(url)
        except ScanRefused as refused:
            raise HTTPException(409, str(refused)) from None
        return {"account_id": account}

    return api
