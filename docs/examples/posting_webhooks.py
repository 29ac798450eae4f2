"""Stripe posts to the application in webhooks.py, with and without a slash at the end."""

import asyncio
import hmac
import sqlite3
import tempfile
import time
from contextlib import closing

import httpx

from raceproof import Inbox, ddl
from raceproof.webhooks import Secret
from webhooks import shop

SECRET = Secret("whsec_0123456789abcdef")
BODY = b'{"id": "evt_1", "type": "invoice.paid"}'


def signed(body: bytes) -> dict[str, str]:
    """What Stripe would send along."""
    now = int(time.time())
    digest = hmac.digest(SECRET.reveal_bytes(), b"%d.%b" % (now, body), "sha256").hex()
    return {"Stripe-Signature": f"t={now},v1={digest}"}


async def main(database: str) -> None:
    app = shop(f"sqlite:///{database}", SECRET)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop.example") as stripe,
    ):
        for path in ("/webhooks/stripe", "/webhooks/stripe/"):
            reply = await stripe.post(path, content=BODY, headers=signed(BODY))
            print(f"POST {path:18} {reply.status_code}")
        reply = await stripe.post("/webhooks/stripe", content=BODY, headers=signed(b"something else"))
        print(f"with another body       {reply.status_code}")


with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("\n".join(ddl(Inbox(), dialect="sqlite")))
        asyncio.run(main(path))
        print("events in the inbox:", *connection.execute("SELECT event_id FROM raceproof_inbox").fetchone())
