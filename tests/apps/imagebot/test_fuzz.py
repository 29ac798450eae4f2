"""Whatever is sent to the doors: never 5xx, never 2xx without the secret, and 2xx means that a row is there."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from imagebot.measure.ground import message
from tests.apps.imagebot.conftest import SECRETS, WEBHOOK_SECRET, World

MANY = settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))

numbers = st.integers(1, 40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def wrong_in_one_place(draw: st.DrawFn, told: dict[str, Any]) -> Any:
    """What is sent usually, with one value, at any depth, replaced or left out."""
    places: list[tuple[Any, str]] = []

    def walk(part: Any) -> None:
        for name, inner in part.items():
            places.append((part, name))
            if isinstance(inner, dict):
                walk(inner)

    walk(told)
    part, name = draw(st.sampled_from(places))
    if draw(st.booleans()):
        part[name] = draw(values)
    else:
        del part[name]
    return told


def written(told: Any) -> bytes:
    return json.dumps(told).encode("utf-8", "surrogatepass")


updates = st.builds(message, numbers, numbers, st.text(max_size=10))
update_bodies = (
    st.binary(max_size=60)
    | values.map(written)
    | updates.map(written)
    | updates.flatmap(wrong_in_one_place).map(written)
)
paths = st.sampled_from([WEBHOOK_SECRET] * 4 + ["wrong", "%00", WEBHOOK_SECRET[:-1], WEBHOOK_SECRET + "x"])
headers = st.sampled_from([WEBHOOK_SECRET] * 4 + [None, "", "wrong", WEBHOOK_SECRET.upper(), WEBHOOK_SECRET[:-1]])


async def event_ids(world: World, table: str) -> list[str]:
    async with world.opened() as database, database.transaction() as (connection, _):
        return list((await connection.execute(text(f"SELECT event_id FROM {table}"))).scalars())


async def test_any_request_to_the_webhook_is_kept_or_refused(world: World) -> None:
    one = await world.start("one", first=False)
    kept: set[str] = set()

    @MANY
    @given(update_bodies, paths, headers)
    def send(body: bytes, path: str, header: str | None) -> None:
        told = {} if header is None else {"X-Telegram-Bot-Api-Secret-Token": header}
        answer = client.post(f"{one.url}/webhook/{path}", content=body, headers=told)
        assert answer.status_code in (200, 400, 401, 404, 413)
        if (path, header) != (WEBHOOK_SECRET, WEBHOOK_SECRET):
            assert answer.status_code in (401, 404)
        elif answer.status_code == 200:
            kept.add(str(json.loads(body)["update_id"]))

    with httpx.Client(trust_env=False, timeout=60) as client:
        await asyncio.to_thread(send)
    assert kept
    assert set(await event_ids(world, "telegram_updates")) == kept
    assert (await one.health())["healthy"]


def signed(task: str, moment: str, key: str) -> str:
    return base64.b64encode(hmac.digest(key.encode(), f"{task}.{moment}".encode(), hashlib.sha256)).decode()


callbacks = numbers.map(
    lambda number: {"code": 200, "msg": "", "data": {"taskId": f"task-{number}", "state": "success"}}
)
callback_bodies = (
    st.binary(max_size=60)
    | values.map(written)
    | callbacks.map(written)
    | callbacks.flatmap(wrong_in_one_place).map(written)
)


async def test_any_callback_is_kept_or_refused(world: World) -> None:
    one = await world.start("one", first=False)
    kept: set[str] = set()

    @MANY
    @given(callback_bodies, numbers, st.sampled_from([SECRETS.webhook_key] * 3 + ["another"]), st.integers(-1, 1))
    def send(body: bytes, number: int, key: str, hours: int) -> None:
        try:
            task = json.loads(body)["data"]["taskId"]
            assert isinstance(task, str)
        except (ValueError, LookupError, TypeError, AssertionError):
            task = f"task-{number}"
        moment = str(int(time.time()) + 3600 * hours)
        task = task.encode("utf-8", "replace").decode()
        told = {"X-Webhook-Timestamp": moment, "X-Webhook-Signature": signed(task, moment, key)}
        answer = client.post(f"{one.url}/kie-callback", content=body, headers=told)
        assert answer.status_code in (200, 400, 401, 413)
        if key == "another" or hours:
            assert answer.status_code in (400, 401)
        elif answer.status_code == 200:
            kept.add(f"{task}:{moment}")

    with httpx.Client(trust_env=False, timeout=60) as client:
        await asyncio.to_thread(send)
    assert kept
    assert len(await event_ids(world, "kie_callbacks")) == len(kept)
    assert (await one.health())["healthy"]
