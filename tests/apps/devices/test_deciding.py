"""A person decides about a command that may have arrived: it waits for that, and the decision has an effect."""

from collections.abc import Callable
from typing import Any

from prometheus_client import Gauge
from prometheus_client.samples import Sample
from sqlalchemy import Column, LargeBinary, MetaData, String, Table, insert, update

from appkit.database import Moment
from devices.doctor import findings
from devices.metrics import Metrics
from devices.settings import Settings
from devices.tables import commands
from devices.upkeep import Upkeep
from tests.apps.devices.conftest import NODE, PlayedNode, Running, eventually, played, started
from tests.apps.devices.test_memory import MEMORY, PUBACK, before, presence, quiet, tried

inbox = Table(
    "responses",
    MetaData(),
    *(Column(name, String) for name in ("source", "event_id", "ordering_key", "headers", "status", "claimed_by")),
    Column("body", LargeBinary),
    *(Column(name, Moment()) for name in ("received_at", "claimed_until")),
)
TOLD = {"by": "ann", "reason": "the tank is as full as before"}


async def _expire(service: Running, cmd_id: str, ago: float = 1.0) -> None:
    async with service.service.database.transaction() as (connection, _):
        mine = update(commands).where(commands.c.cmd_id == cmd_id)
        await connection.execute(mine.values(valid_until=await before(connection, ago)))


async def _upkeep(service: Running) -> None:
    await Upkeep(service.service.database, service.settings, Metrics()).time_out()


async def _ask(service: Running, cmd_id: str, what: str) -> tuple[int, str]:
    answer = await service.client.post(f"/commands/{cmd_id}/{what}", json=TOLD)
    return answer.status_code, answer.json().get("detail", "")


async def test_a_command_that_may_have_arrived_is_held_when_it_expires_and_goes_by_the_word_of_a_person(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of(memory=MEMORY, puback=PUBACK)) as (service, node):
        await tried(service, "c-1", MEMORY)
        await _expire(service, "c-1")
        await _upkeep(service)
        held = await service.show("c-1")
        assert (held["status"], held["permit"], held["ended"]) == ("QUEUED", "WITHDRAWN", False)
        listed = (await service.client.get("/commands", params={"person": True})).json()["commands"]
        assert [one["cmd_id"] for one in listed] == ["c-1"]
        assert (await _ask(service, "c-1", "resend"))[0] == 200
        await _upkeep(service)
        await presence(service, "heartbeat")
        assert (await node.next())["cmd_id"] == "c-1"
        await service.reaches("c-1", "SENT")


async def test_a_failed_send_goes_again_after_it_has_expired_if_a_person_says_so(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of()) as (service, node):
        await service.submit("c-1")
        assert (await _ask(service, "c-1", "cancel"))[0] == 200
        await _expire(service, "c-1", 3600)
        assert (await _ask(service, "c-1", "resend"))[0] == 200
        await _upkeep(service)
        await presence(service, "heartbeat")
        assert (await node.next())["cmd_id"] == "c-1"


async def test_without_a_decision_it_ends_when_it_was_held_long_enough(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of(hold=60.0)) as (service, _):
        await tried(service, "c-1", MEMORY)
        await _expire(service, "c-1", 50)
        await _upkeep(service)
        await _upkeep(service)
        assert (await service.show("c-1"))["status"] == "QUEUED"
        await _expire(service, "c-1", 70)
        await _upkeep(service)
        assert (await service.show("c-1"))["status"] == "TIMEOUT"


async def test_to_cancel_what_may_have_arrived_ends_it_without_calling_it_unsent(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of()) as (service, _):
        await tried(service, "c-1", 20)
        assert (await _ask(service, "c-1", "cancel"))[0] == 200
        found = await service.show("c-1")
        assert (found["status"], found["permit"], found["ended"]) == ("TIMEOUT", "WITHDRAWN", True)


async def test_a_command_whose_answer_is_stored_does_not_time_out_before_that_is_acted_on(
    settings_of: Callable[..., Settings],
) -> None:
    """After an outage answers wait in the inbox, and the clock has gone on."""
    async with started(settings_of(answer=60.0)) as service, played(service.settings) as node:
        await service.submit("c-1")
        await service.submit("c-2", channel="relay")
        for _ in range(2):
            await node.next()
        for cmd_id in ("c-1", "c-2"):
            await service.reaches(cmd_id, "SENT")
        async with service.service.database.transaction() as (connection, _):
            await connection.execute(update(commands).values(sent_at=await before(connection, 100)))
            await connection.execute(
                insert(inbox).values(
                    source="mqtt",
                    event_id="e-1",
                    ordering_key=f"{NODE}/pump",
                    body=b"{}",
                    headers="{}",
                    status="processing",
                    received_at=await before(connection, 1),
                    claimed_by="another",
                    claimed_until=await before(connection, -60),
                )
            )
        await _upkeep(service)
        assert [(await service.show(one))["status"] for one in ("c-1", "c-2")] == ["SENT", "TIMEOUT"]


async def test_a_refusal_says_why_in_words(service: Running, node: PlayedNode) -> None:
    await service.submit("c-1")
    await node.next()
    await service.reaches("c-1", "SENT")
    refusals = [await _ask(service, "c-1", "cancel"), await _ask(service, "c-1", "resend")]
    await node.say("c-1", "DONE")
    await service.reaches("c-1", "DONE")
    refusals += [await _ask(service, "c-1", "cancel"), await _ask(service, "c-1", "resend")]
    for code, why in refusals:
        assert code == 409
        assert why.startswith("it ")
        assert not {"CURRENT_TIMESTAMP", "Permit.", "t.claimed_until"} & set(why.split())
    assert (await _ask(service, "nobody", "resend"))[0] == 404


async def test_an_answer_after_a_failed_send_blocks_a_second_one_and_is_in_the_list(
    settings_of: Callable[..., Settings],
) -> None:
    async with quiet(settings_of()) as (service, node):
        await service.submit("c-1")
        await _ask(service, "c-1", "cancel")
        await node.say("c-1", "DONE")

        async def late() -> bool:
            listed = (await service.client.get("/commands", params={"person": True})).json()["commands"]
            return [(one["cmd_id"], one["late"]) for one in listed] == [("c-1", "DONE")]

        await eventually(late)
        assert "late DONE" in (await service.client.get("/?tab=person")).text
        code, why = await _ask(service, "c-1", "resend")
        assert (code, "said DONE" in why) == (409, True)


async def test_figures_and_doctor_count_only_commands_that_have_not_ended(
    settings_of: Callable[..., Settings],
) -> None:
    """A doubtful command that a person has ended was counted as one that waits for a decision."""
    async with quiet(settings_of()) as (service, _):
        await tried(service, "c-1", 20)
        await _expire(service, "c-1")
        await _upkeep(service)
        assert await _counted(service) == {"QUEUED": 1, "uncertain": 1, "doctor": "1"}
        assert (await _ask(service, "c-1", "cancel"))[0] == 200
        found = await service.show("c-1")
        assert (found["publish_state"], found["ended"]) == ("uncertain", True)
        assert await _counted(service) == {"uncertain": 0, "doctor": "none"}


async def _counted(service: Running) -> dict[str, Any]:
    metrics = Metrics()
    await Upkeep(service.service.database, service.settings, metrics).measure()
    figures = {one.labels["status"]: int(one.value) for one in _samples(metrics.commands) if one.value}
    [uncertain] = _samples(metrics.uncertain)
    found = {one["check"]: one["evidence"] async for one in findings(service.settings, fix=False)}
    return {**figures, "uncertain": int(uncertain.value), "doctor": found["uncertain commands"]}


def _samples(gauge: Gauge) -> list[Sample]:
    return [sample for metric in gauge.collect() for sample in metric.samples]
