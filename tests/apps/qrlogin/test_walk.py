"""Every route, asked for what nobody should ask for."""

from appkit.loops import Loops
from qrlogin.api import login_app
from qrlogin.identity import SessionId
from qrlogin.metrics import Metrics
from tests.apps.qrlogin.conftest import USER, World
from tests.apps.walking import walk_hosts, walk_oddities


async def test_no_route_answers_to_the_name_of_another_and_none_fails_on_odd_input(world: World) -> None:
    """DNS rebinding, `isdigit` tricks, numbers that fit no column, forms and JSON that are neither."""
    name = await world.service.manager.create_session(USER, 120)
    known = {"session_id": name, "user_id": USER, "kind": "svg"}
    mine = {"Authorization": f"Bearer {world.settings.signer().token(SessionId.parsed(name))}"}
    app = login_app(world.service, Loops(), Metrics(), world.settings, world.line)
    assert await walk_hosts(app, known) > 10
    assert await walk_oddities(app, known, mine) > 150
    app.state.stop_counting()
