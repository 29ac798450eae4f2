"""A question that is not answered costs no lead: it is given up in time for another one (L11)."""

import asyncio
from typing import Any

from raceproof import Leader, LeaseGranted, connect
from raceproof.run import Role
from raceproof.testing import PostgresServer
from tests.fix_waiting import DEADLINE
from tests.library.leader.fix_leading import prepared
from tests.library.leader.fix_middle_box import MiddleBox
from tests.promises.race.places import Place, PostgresPlace

LEASE = 3.0
"""Long enough for a busy machine to be in time with the second question."""


async def test_one_renewal_that_hangs_costs_no_lead(place: Place) -> None:
    """With the times that are used if none are given."""
    lease, _ = prepared(place, LEASE)
    calls: list[str] = []
    answers: asyncio.Queue[Any] = asyncio.Queue()
    async with connect(place.url) as db:
        renew_lease = db.renew_lease

        async def first_hangs(*given: Any, **options: Any) -> Any:
            db.renew_lease = then  # type: ignore[method-assign]
            await asyncio.Event().wait()

        async def then(*given: Any, **options: Any) -> Any:
            answer = await renew_lease(*given, **options)
            answers.put_nowait(answer)
            return answer

        db.renew_lease = first_hangs  # type: ignore[method-assign]
        async with Leader(db, lease, on_passive=lambda _: calls.append("passive")) as leader:
            await leader.wait_for(Role.ACTIVE)
            epoch = leader.epoch
            async with asyncio.timeout(DEADLINE):
                assert isinstance(await answers.get(), LeaseGranted)
            assert calls == []
            assert leader.epoch == epoch


async def test_a_connection_that_went_silent_costs_no_lead(postgres_server: PostgresServer) -> None:
    """A firewall has forgotten it: the renewal on it is given up, and the next one has a connection that answers."""
    lease, _ = prepared(PostgresPlace(postgres_server.url), LEASE)
    calls: list[str] = []
    async with (
        connect(postgres_server.url) as beside,
        MiddleBox(postgres_server.url).opened() as box,
        connect(box.url) as db,
    ):
        async with Leader(db, lease, on_passive=lambda _: calls.append("passive")) as leader:
            await leader.wait_for(Role.ACTIVE)
            epoch, began = leader.epoch, await beside.lease_holder(lease)
            box.forget()
            try:
                async with asyncio.timeout(DEADLINE):
                    while (await beside.lease_holder(lease)).until == began.until:
                        pass
                assert calls == []
                assert leader.epoch == epoch
            finally:
                box.hang_up()
