"""Stripe webhooks in a Starlette application: each event is stored before Stripe gets its 200."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route

from raceproof import Inbox, connect
from raceproof.webhooks import Endpoint, Hmac, Secret
from raceproof.webhooks.asgi import asgi_app

inbox = Inbox()


def shop(database_url: str, stripe_secret: Secret) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with connect(database_url) as db:
            app.state.receive = db.receiver(inbox)
            yield

    stripe = Endpoint(
        "stripe",
        Hmac(stripe_secret, header="Stripe-Signature", signature_field="v1", timestamp_field="t"),
        lambda arrival: app.state.receive(arrival),  # the store is open once the lifespan has begun
        event_id=lambda event: event["id"],
    )
    paths = ("/webhooks/stripe", "/webhooks/stripe/")
    app = Starlette(lifespan=lifespan, routes=[Route(path, asgi_app(stripe)) for path in paths])
    return app
