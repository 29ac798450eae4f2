"""The way of a saved session into the application that uses it: for the backend with the token, and no one else."""

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, StringConstraints

from qrlogin.door import Door
from qrlogin.identity import USER_ID
from qrlogin.leaving import end_session
from qrlogin.saving import Current
from qrlogin.service import Service

log = logging.getLogger("qrlogin.sessions")
UserId = Annotated[str, StringConstraints(pattern=f"^{USER_ID}$")]


class CurrentSession(BaseModel):
    """A full credential: whoever has `session` is logged in as the account."""

    user_id: str
    session_id: str
    account_id: str
    session: str


class Revoked(BaseModel):
    session_id: str
    logged_out: bool
    """Whether Telegram has answered; if not, the session may still be good there."""


def session_routes(service: Service, door: Door, problem: type[BaseModel]) -> APIRouter:
    responses: dict[int | str, dict[str, Any]] = {code: {"model": problem} for code in (401, 404, 422, 503)}
    api = APIRouter(tags=["sessions"], prefix="/users/{user_id}/session", responses=responses)

    def backend(request: Request) -> None:
        if not door.vouched(request):
            raise HTTPException(401, "QRLOGIN_TOKEN is needed, as a bearer token")

    async def current(user_id: str) -> Current:
        found = await service.places.saving.current(user_id)
        if found is None:
            raise HTTPException(404, "this user has no current session")
        return found

    @api.get("", dependencies=[Depends(backend)])
    async def one(user_id: UserId, request: Request, response: Response) -> CurrentSession:
        """The current session of a user, as Telethon's StringSession takes it. Use it in one process only."""
        found = await current(user_id)
        log.info("the session %s was handed to %s", found.session_id, _address(request))
        response.headers["Cache-Control"] = "no-store"
        return CurrentSession(
            user_id=user_id, session_id=found.session_id, account_id=found.account_id, session=found.session
        )

    @api.delete("", dependencies=[Depends(backend)])
    async def revoke(
        user_id: UserId, request: Request, reason: Annotated[str, Query(max_length=200)] = "revoked"
    ) -> Revoked:
        """Mark the current session as not to be used any more, and log it out at Telegram."""
        found = await current(user_id)
        await service.places.saving.revoke(found.session_id, reason, "api")
        logged_out = service.clients is not None and await end_session(service.clients(found.session))
        log.info("the session %s was revoked by %s", found.session_id, _address(request))
        return Revoked(session_id=found.session_id, logged_out=logged_out)

    return api


def _address(request: Request) -> str:
    return request.client.host if request.client else "an unknown address"
