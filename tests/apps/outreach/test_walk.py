"""Every route, asked for what nobody should ask for."""

from appkit.loops import Loops
from outreach.api import outreach_app
from outreach.discovery import add_campaign
from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.service import prepared
from outreach.settings import Settings
from tests.apps.walking import walk_hosts, walk_oddities

LIVE = ("/changes",)
KNOWN = {
    "key": "1",
    "campaign": "1",
    "task": "1",
    "verdict": "approve",
    "stage": "vetting",
    "action": "pause",
}


async def test_no_route_answers_to_the_name_of_another_and_none_fails_on_odd_input(url: str) -> None:
    """DNS rebinding, `isdigit` tricks, numbers that fit no column, forms and JSON that are neither."""
    async with prepared(Settings(database=url), Metrics(), Purpose.MIGRATE) as service:
        await add_campaign(service.database, "Startups", ["startup"], "Founders.")
        app = outreach_app(service, Loops(), Metrics())
        assert await walk_hosts(app, KNOWN) > 15
        assert await walk_oddities(app, KNOWN, live=LIVE) > 200
        app.state.stop_counting()
