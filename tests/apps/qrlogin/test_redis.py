"""What redis-cli shows next to the application: the note's check commands, times to live, a cluster (C1, C4)."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from qrlogin.diagnose import cleanup_user, report
from qrlogin.lifecycle import ACTIVE_SECONDS, ENDED_SECONDS
from tests.apps.qrlogin.conftest import USER, World, opened


async def redis_cli(url: str, line: str) -> list[str]:
    """What redis-cli (or valkey-cli) prints; where there is none, the same line typed over a plain connection."""
    place = urlsplit(url)
    found = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if found:
        words = [found, "-h", str(place.hostname), "-p", str(place.port), *line.split()]
        told = await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, text=True)
        return told.stdout.splitlines()
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(f"{line}\r\n".encode())
        return await _printed(reader)
    finally:
        writer.close()
        await writer.wait_closed()


async def _printed(reader: asyncio.StreamReader) -> list[str]:
    """An answer as redis-cli prints it: a line for each text or number in it."""
    kind, rest = (head := (await reader.readline()).decode().rstrip())[:1], head[1:]
    if kind == "*":
        return [line for _ in range(int(rest)) for line in await _printed(reader)]
    if kind == "$":
        return [""] if rest == "-1" else [(await reader.readexactly(int(rest) + 2)).decode()[:-2]]
    assert kind in ":+", rest
    return [rest]


async def test_the_note_s_check_commands_answer_as_the_note_says(redis_store: str, tmp_path: Path) -> None:
    async with opened(redis_store, tmp_path) as world:
        assert await redis_cli(redis_store, f"GET tg:qr:active:{USER}") == [""]
        session_id = await world.start()
        await world.code(session_id)
        assert await redis_cli(redis_store, f"GET tg:qr:active:{USER}") == [str(session_id)]
        told = await redis_cli(redis_store, f"HGETALL tg:qr:session:{session_id}")
        row = dict(zip(told[::2], told[1::2], strict=True))
        assert (row["session_id"], row["status"]) == (str(session_id), "qr_rendered")
        assert abs(float(row["created_at"]) - int(session_id.unix)) < 2
        name, score = await redis_cli(redis_store, f"ZRANGE tg:qr:sessions_zset:{USER} 0 -1 WITHSCORES")
        # as numbers: a score is printed without the zeros at its end
        assert (name, float(score)) == (str(session_id), float(row["created_at"]))
        for key, most in (("active", ACTIVE_SECONDS), ("sessions_zset", ENDED_SECONDS)):
            [seconds] = await redis_cli(redis_store, f"TTL tg:qr:{key}:{USER}")
            assert 0 < int(seconds) <= most
        # the note's own clean-up of a user: the next start is not disturbed by what is left
        await redis_cli(redis_store, f"DEL tg:qr:active:{USER}")
        await world.log_in()


async def test_every_key_has_a_time_to_live_in_every_status(redis_store: str, tmp_path: Path) -> None:
    async with (
        opened(redis_store, tmp_path) as world,
        Redis.from_url(redis_store, decode_responses=True) as cli,
    ):
        shown = await world.start("ann")
        await world.code(shown)
        asked = await world.start("bob")
        await world.phone(2, "right").scan(await world.code(asked))
        await world.asks_for_password(asked)
        done = await world.log_in("carl", 3)
        replaced = await world.start("dora")
        await world.start("dora")
        await world.at(replaced, "superseded")
        seen = 0
        async for key in cli.scan_iter("*"):
            seen += 1
            assert await cli.ttl(key) > 0, key
        assert seen > 10
        assert await cli.ttl("tg:qr:active:ann") <= ACTIVE_SECONDS
        assert await cli.ttl(f"tg:qr:session:{shown}") <= ACTIVE_SECONDS
        for ended in (done, replaced):
            assert 3600 < await cli.ttl(f"tg:qr:session:{ended}") <= ENDED_SECONDS


async def test_no_command_looks_at_all_keys(redis_store: str, tmp_path: Path) -> None:
    """By the server's own count of commands, which has those in scripts too; the whole system is looked at by SCAN."""
    async with Redis.from_url(redis_store, decode_responses=True) as cli:
        await cli.config_resetstat()
        async with opened(redis_store, tmp_path) as world:
            asked = await world.start()
            await world.phone(2, "right").scan(await world.code(asked))
            await world.asks_for_password(asked)
            await world.log_in()
            await world.manager.check_session_health(USER)
            await cleanup_user(world.places, USER)
            used = await cli.info("commandstats")
            assert {"cmdstat_hgetall", "cmdstat_evalsha", "cmdstat_getdel"} <= set(used)
            assert not {"cmdstat_keys", "cmdstat_scan", "cmdstat_flushall"} & set(used)
            await report(world.settings, None, False, "json")
        used = await cli.info("commandstats")
        assert "cmdstat_scan" in used
        assert "cmdstat_keys" not in used


async def test_a_user_whose_id_is_part_of_another_s_is_a_stranger(redis_store: str, tmp_path: Path) -> None:
    async with opened(redis_store, tmp_path, ingest=False) as world:
        mine, theirs = await world.start("1398"), await world.start("139883458")
        await world.start("1398")
        assert await world.status(mine) == "superseded"
        assert await world.status(theirs) == "pending"


async def test_a_login_works_on_a_three_node_cluster_with_the_user_as_hash_tag(cluster: str, tmp_path: Path) -> None:
    async with opened(cluster, tmp_path) as world:
        started = [await world.start(f"user-{number}") for number in range(12)]
        for number, session_id in enumerate(started):
            await world.phone(number + 1).scan(await world.code(session_id))
        assert [await world.ended(one) for one in started] == ["done"] * 12
        first = await world.start("ann")
        second = await world.start("ann")
        assert await world.status(first) == "superseded"
        await world.phone(77, "right").scan(await world.code(second))
        await world.asks_for_password(second)
        await world.give_password(second, "right")
        assert await world.ended(second) == "done"
        await _check_cluster(cluster, world, str(second))


async def _check_cluster(url: str, world: World, session_id: str) -> None:
    client: Any = RedisCluster.from_url(
        url.replace("redis-cluster", "redis"), decode_responses=True, max_connections=1000
    )
    async with client:
        user, unix, nonce = session_id.split(":")
        assert await client.get(f"tg:qr:active:{{{user}}}") == session_id
        row = await client.hgetall(f"tg:qr:session:{{{user}}}:{unix}:{nonce}")
        assert row["status"] == "done"
        slots = set()
        async for key in client.scan_iter("tg:qr:*"):
            assert await client.ttl(key) > 0, key
            slots.add(client.keyslot(key) * 3 // 16384)
        assert slots == {0, 1, 2}  # the users are on all three nodes
    health = await world.manager.check_session_health("ann")
    assert health["healthy"], health["issues"]
