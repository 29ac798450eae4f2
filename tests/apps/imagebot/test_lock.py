"""Who is ACTIVE, as others see it (A5): `lock_heartbeat`, and a transaction pooler in front of the database."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from tests.apps.imagebot.conftest import World, until

SSL_REQUEST = 8


async def roles(world: World) -> dict[str, str]:
    """The rows of `lock_heartbeat`, by the name of the instance."""
    async with world.opened() as database, database.transaction() as (connection, _):
        found = await connection.execute(text("SELECT instance, role FROM lock_heartbeat"))
        return {row.instance: row.role for row in found}


async def test_two_instances_with_one_name_have_a_row_each_and_one_is_active(world: World) -> None:
    """On two machines that were given the same environment."""
    await world.start("one", IMAGEBOT_FOLDER=str(world.folder / "here"))
    await world.start("one", first=False, IMAGEBOT_FOLDER=str(world.folder / "there"))

    async def both() -> bool:
        return sorted((await roles(world)).values()) == ["ACTIVE", "PASSIVE"]

    await until(both, "both rows")
    assert all(name.startswith("one-") for name in await roles(world))


async def test_an_instance_that_has_ended_or_died_is_not_active_in_lock_heartbeat(world: World) -> None:
    one = await world.start("one", HEARTBEAT="0.3")

    async def told(*expected: str) -> bool:
        return sorted((await roles(world)).values()) == sorted(expected)

    await until(lambda: told("ACTIVE"), "the first")
    await asyncio.to_thread(one.stop)
    assert await told("STOPPED")
    two = await world.start("two", first=True, HEARTBEAT="0.3")
    await until(lambda: told("STOPPED", "ACTIVE"), "the second")
    two.kill()
    await world.start("three", first=True, HEARTBEAT="0.3")

    async def only_the_third() -> bool:
        found = {name.partition("-")[0]: role for name, role in (await roles(world)).items()}
        return found["three"] == "ACTIVE" and found["two"] in ("REPLACED", "SILENT")

    await until(only_the_third, "the third, alone")


async def test_health_names_the_run_and_its_epoch(world: World) -> None:
    one = await world.start("one")
    health = await one.health()
    assert health["instance"].startswith("one-")
    assert health["epoch"] >= 1


@asynccontextmanager
async def pooler(url: str) -> AsyncIterator[str]:
    """What a transaction pooler shows a client: a process id that is not the server's own."""
    server = urlsplit(url)

    async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()

    async def greet(server_side: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Everything until ReadyForQuery, with another process id in BackendKeyData."""
        while True:
            kind, size = struct.unpack("!cI", await server_side.readexactly(5))
            body = await server_side.readexactly(size - 4)
            if kind == b"K":
                body = struct.pack("!I", 4242) + body[4:]
            client.write(kind + struct.pack("!I", size) + body)
            if kind in b"ZE":
                break
        await forward(server_side, client)

    async def connected(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        head = await client.readexactly(4)
        (size,) = struct.unpack("!I", head)
        if size == SSL_REQUEST:
            await client.readexactly(4)
            back.write(b"N")
            head = await client.readexactly(4)
        reader, writer = await asyncio.open_connection(server.hostname, server.port)
        writer.write(head)
        await asyncio.gather(forward(client, writer), greet(reader, back), return_exceptions=True)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield server._replace(netloc=f"{server.username}@127.0.0.1:{port}").geturl()
    finally:
        listening.close()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_behind_a_transaction_pooler_it_works_and_says_what_is_different(world: World) -> None:
    direct = world.database
    async with pooler(direct) as url:
        world.database = url
        one = await world.start("one")
        assert "DIRECT_DATABASE_URL" in one.lines("POOLER")[0]
        two = await world.start("two", first=False)
        one.kill()
        two.kill()
        await world.start("three", first=True, DIRECT_DATABASE_URL=direct)
        await world.say("/start")
        await until(lambda: world.texts(), "the menu")
    world.database = direct


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_start_that_fails_says_why_without_the_password(world: World) -> None:
    server = urlsplit(world.database)
    world.database = server._replace(
        netloc=f"nobody_here:canary-password-12ab@{server.hostname}:{server.port}"
    ).geturl()
    one = await world.start("one", up=False)
    await until(lambda: one.lines("START_FAILED"), "the reason")
    assert "nobody_here" in one.lines("START_FAILED")[0]


def test_a_database_of_another_kind_is_refused_at_start() -> None:
    from imagebot.settings import Settings

    with pytest.raises(ValueError, match="DATABASE_URL must begin with"):
        Settings(database_url="mysql://somewhere/imagebot")
