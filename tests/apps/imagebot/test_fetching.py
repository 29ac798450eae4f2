"""Pictures are fetched from public addresses alone, however an address is written."""

import asyncio

import pytest

from imagebot.fetching import ForbiddenAddress, check, fetch

HOSTS = [
    "127.0.0.1",
    "[::1]",
    "[::1%25lo]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "１２７.0.0.1",
    "１２７．０．０．１",
    "①27.0.0.1",
    "⑫7.0.0.1",
    "127。0。0。1",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::a00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "224.0.0.1",
    "[ff0e::1]",
]


@pytest.mark.parametrize("host", HOSTS, ids=ascii)
async def test_this_machine_is_never_reached(host: str) -> None:
    """Not by digits of other scripts either, which become 127.0.0.1 on the way to the connection."""
    reached = []

    async def on_connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(host)
        writer.close()

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ForbiddenAddress, match="public address"):
            await fetch(f"https://{host}:{port}/latest/meta-data")
    assert reached == []


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/1.png",
        "https://user@example.com/1.png",
        "https://:secret@example.com/1.png",
        "https:///1.png",
        "https://example.com:99999/1.png",
        "https://example.com\\@127.0.0.1/1.png",
        "//example.com/1.png",
        "ftp://example.com/1.png",
        "1.png",
        "",
    ],
)
def test_what_is_no_address_of_a_picture_is_refused(url: str) -> None:
    with pytest.raises(ForbiddenAddress, match="https://host/"):
        check(url)


def test_a_name_in_another_script_is_the_one_that_is_asked_for() -> None:
    assert str(check("https://bücher.example/1.png")) == "https://xn--bcher-kva.example/1.png"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/1.png", "https://127.0.0.1/1.png"])
def test_a_simulator_on_this_machine_is_reached_where_that_is_wanted(url: str) -> None:
    check(url, loopback=True)
    with pytest.raises(ForbiddenAddress):
        check(url)
