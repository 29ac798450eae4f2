"""What the HTTP interface promises: once each, refusals with a reason, pages, events, and nobody else's requests."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from devices.settings import Settings
from tests.apps.devices.conftest import NODE, PlayedNode, Running, eventually, started


async def test_a_command_is_kept_once_however_often_it_is_submitted(service: Running) -> None:
    first = await service.submit("c-1")
    again = await asyncio.gather(*(service.submit("c-1") for _ in range(10)))
    assert (first.status_code, {one.status_code for one in again}) == (201, {200})
    other = await service.submit("c-1", params={"ml": 50})
    assert other.status_code == 409
    assert "another command" in other.json()["detail"]
    listed = (await service.client.get("/commands")).json()["commands"]
    assert [one["params"] for one in listed] == [{"ml": 5}]


async def test_many_at_once_with_one_id_make_one(service: Running) -> None:
    answers = await asyncio.gather(*(service.submit("c-1", params={"ml": number}) for number in range(12)))
    assert sorted(one.status_code for one in answers) == [201] + [409] * 11


BAD = [
    (b'{"node": "gh/z/n", "channel": "pump", "cmd": "dose", "params": {"ml": NaN}}', 400),
    (b'{"node": "gh/z/n", "node": "gh/z/m", "channel": "pump", "cmd": "dose"}', 400),
    (b'{"node": "gh/z/n", "channel": "pump", "cmd": "dose", "params": {"a": "\\u0000"}}', 400),
    (b'{"node": "gh/z/n", "channel": "pump"}', 422),
    (b'{"node": "gh/#/n", "channel": "pump", "cmd": "dose"}', 422),
    (b'{"node": "gh/z/n", "channel": "pump/+", "cmd": "dose"}', 422),
    (b'{"node": "gh/z/n", "channel": "pump", "cmd": "dose", "cmd_id": ""}', 422),
    (b'{"node": "gh/z/n", "channel": "pump", "cmd": "dose", "valid_for": -1}', 422),
    (b'{"node": "gh/z/n", "channel": "pump", "cmd": "dose", "surprise": 1}', 422),
    (b"[" * 5000, 400),
    (b"not json", 400),
    (b"x" * (1024 * 1024 + 1), 413),
]


async def test_bad_input_is_refused_with_a_reason_and_keeps_nothing(service: Running) -> None:
    headers = {"content-type": "application/json"}
    for body, code in BAD:
        answer = await service.client.post("/commands", content=body, headers=headers)
        assert answer.status_code == code, body[:100]
        assert answer.json()["error"]
    assert (await service.client.get("/commands")).json()["commands"] == []


async def test_pages_follow_on_each_other_whatever_is_added(service: Running) -> None:
    for number in range(7):
        await service.submit(f"c-{number}", node=f"gh-1/zone-1/node-{number % 2 + 5}")
    first = (await service.client.get("/commands", params={"limit": 3})).json()
    await service.submit("c-new")
    second = (await service.client.get("/commands", params={"limit": 3, "before": first["next"]})).json()
    third = (await service.client.get("/commands", params={"limit": 3, "before": second["next"]})).json()
    seen = [one["cmd_id"] for page in (first, second, third) for one in page["commands"]]
    assert seen == [f"c-{number}" for number in reversed(range(7))]
    assert third["next"] is None
    some = (await service.client.get("/commands", params={"node": "gh-1/zone-1/node-6"})).json()["commands"]
    assert {one["node"] for one in some} == {"gh-1/zone-1/node-6"}
    none = await service.client.get("/commands", params={"status": "DONE"})
    assert none.json() == {"commands": [], "next": None}
    assert (await service.client.get("/commands", params={"status": "WHAT"})).status_code == 422


async def test_a_command_is_followed_to_its_end(service: Running, node: PlayedNode) -> None:
    await service.submit("c-1")
    await node.next()
    await node.say("c-1", "ACK")
    await node.say("c-1", "DONE", details={"duration_ms": 12})
    happened = []
    async with service.client.stream("GET", "/commands/c-1/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                happened.append(json.loads(line[6:]))
    assert [one["after"] for one in happened if one["outcome"] == "moved"] == ["SENT", "ACK", "DONE"]
    last = str(happened[-2]["id"])
    async with service.client.stream("GET", "/commands/c-1/events", headers={"last-event-id": last}) as stream:
        rest = [line async for line in stream.aiter_lines() if line.startswith("data: ")]
    assert len(rest) == 1
    assert (await service.client.get("/commands/nobody/events")).status_code == 404


async def test_what_waits_can_be_cancelled_and_what_was_sent_cannot(service: Running, node: PlayedNode) -> None:
    told = {"by": "ann", "reason": "a mistake"}
    await node.about("lwt", b"offline")
    await eventually(lambda: _is(service, "OFFLINE"))
    await service.submit("c-1")
    cancelled = (await service.client.post("/commands/c-1/cancel", json=told)).json()
    assert (cancelled["status"], cancelled["permit"], cancelled["ended"]) == (
        "SEND_FAILED",
        "WITHDRAWN",
        True,
    )
    assert cancelled["why"] == "cancelled by ann: a mistake"
    again = await service.client.post("/commands/c-1/cancel", json=told)
    assert again.status_code == 409
    await node.about("heartbeat")
    await service.submit("c-2")
    assert (await node.next())["cmd_id"] == "c-2"
    await service.reaches("c-2", "SENT")
    late = await service.client.post("/commands/c-2/cancel", json=told)
    assert (late.status_code, "the broker has it" in late.json()["detail"]) == (409, True)
    assert (await service.client.post("/commands/nobody/cancel", json=told)).status_code == 404


async def _is(service: Running, state: str) -> bool:
    found = (await service.client.get("/nodes")).json()["nodes"]
    return any(one["path"] == NODE and one["state"] == state for one in found)


async def test_a_page_of_another_origin_changes_nothing(service: Running) -> None:
    body = {"node": NODE, "channel": "pump", "cmd": "dose"}
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://elsewhere"}):
        assert (await service.client.post("/commands", json=body, headers=headers)).status_code == 403
    ours = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert (await service.client.post("/commands", json=body, headers=ours)).status_code == 201


async def test_with_a_token_nobody_gets_in_without_it(settings_of: Callable[..., Settings]) -> None:
    async with started(settings_of(token="a token that is long")) as service:
        paths = [path for path in (await _paths(service)) if path != "/health"]
        assert len(paths) > 10
        for path in paths:
            refused = await service.client.get(path.replace("{cmd_id}", "c-1"))
            assert refused.status_code == 401, path
        assert (await service.client.get("/health")).status_code in (200, 503)
        headers = {"Authorization": "Bearer a token that is long"}
        assert (await service.client.get("/commands", headers=headers)).status_code == 200
        assert (await service.client.get("/commands", auth=("any", "a token that is long"))).status_code == 200
        assert (await service.client.get("/commands", auth=("any", "another"))).status_code == 401


async def _paths(service: Running) -> list[str]:
    app: Any = service.client._transport.app  # type: ignore[attr-defined]
    routers = [app, *(route.original_router for route in app.routes if hasattr(route, "original_router"))]
    return [route.path for router in routers for route in router.routes if hasattr(route, "path")]


async def test_every_page_has_its_headers_and_escapes_what_it_shows(service: Running) -> None:
    await service.submit("c-1", params={"text": "<script>alert(1)</script>"})
    for path in ("/", "/command/c-1", "/nodes.html", "/command/nobody"):
        page = await service.client.get(path)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script>alert" not in page.text
    assert (await service.client.get("/command/nobody")).status_code == 404
    assert "svg" in (await service.client.get("/lifecycle.svg")).text
    form = {"node": NODE, "channel": "pump", "cmd": "dose", "params": '{"ml": 1}'}
    made = await service.client.post("/new", data=form)
    assert made.status_code == 303
    assert (await service.client.post("/new", data={**form, "params": "{"})).status_code == 422


async def test_figures_are_for_prometheus(service: Running) -> None:
    await service.submit("c-1")
    text = (await service.client.get("/metrics")).text
    assert 'devices_submitted_total{outcome="created"} 1.0' in text
    assert "raceproof_" in text
