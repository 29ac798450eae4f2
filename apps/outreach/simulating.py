"""What `serve --simulate` begins with: three campaigns on the feeds that ship with the application."""

from outreach.discovery import add_campaign, discover
from outreach.service import Service

CAMPAIGNS = (
    (
        "Pricing software",
        ["startup", "marketing", "pricing", "software", "customers"],
        "Interviews with founders of software startups about marketing, pricing, customers and growth.",
        ("shipped:subscriptions.opml", "shipped:search-startups.json"),
    ),
    (
        "A book about soil",
        ["soil", "farming", "climate", "food"],
        "Conversations about agriculture, soil, farming and food with scientists and farmers as guests.",
        ("shipped:subscriptions.opml", "shipped:the-slow-kitchen.xml", "shipped:orbit-notes.xml"),
    ),
    (
        "Reliable databases",
        ["databases", "engineers", "outage", "distributed", "software"],
        "Technical conversations with engineers about databases, outages and distributed systems.",
        ("shipped:subscriptions.opml", "shipped:search-startups.json"),
    ),
)


async def seed(service: Service) -> None:
    """The same campaigns each time; what is there already stays as it is."""
    for name, keywords, ideal, sources in CAMPAIGNS:
        campaign = await add_campaign(service.database, name, keywords, ideal)
        for source in sources:
            await discover(service.database, service.fetcher, campaign, source, keywords[0])
