"""Every route, asked for what nobody should ask for."""

from collections.abc import Callable

from appkit.loops import Loops
from devices.api import device_app
from devices.metrics import Metrics
from devices.reading import Follower
from devices.settings import Settings
from tests.apps.devices.conftest import started
from tests.apps.walking import walk_hosts, walk_oddities

LIVE = ("/changes",)


async def test_no_route_answers_to_the_name_of_another_and_none_fails_on_odd_input(
    settings_of: Callable[..., Settings],
) -> None:
    """DNS rebinding, `isdigit` tricks, numbers that fit no column, forms and JSON that are neither."""
    async with started(settings_of()) as running:
        assert (await running.submit("c-1")).status_code == 201
        metrics = Metrics()
        app = device_app(running.service, Loops(), metrics, Follower(running.service.database), None)
        assert await walk_hosts(app, {"cmd_id": "c-1"}) > 12
        assert await walk_oddities(app, {"cmd_id": "c-1"}, live=LIVE) > 200
        app.state.stop_counting()
