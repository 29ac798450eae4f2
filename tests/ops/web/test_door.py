"""The door of `raceproof web`: guesses are slowed down and counted, sessions end, and a name must be this machine's own."""

import asyncio
import logging

import httpx
import pytest

from raceproof.ops.web import Access, Dashboard, dashboard
from raceproof.ops.web.guesses import IN_ALL, PER_CLIENT, WINDOW, Guesses
from raceproof.ops.web.server import impatient
from raceproof.ops.web.sessions import Sessions
from raceproof.ops.web.token import COOKIE, TokenAccess
from tests.ops.web import shop
from tests.ops.web.fix_shop import Shop, item, served
from tests.ops.web.test_access import OURS

TOKEN = "a long enough token"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": "Bearer a long enough tokem"}


class Clock:
    """A clock that stands still unless it is moved; who sleeps on it says so and goes on."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def door(clock: Clock) -> TokenAccess:
    return TokenAccess(TOKEN, "ann", True, sessions=Sessions(3600, clock), guesses=Guesses(clock, clock.sleep))


@pytest.fixture
def board(small_shop: Shop, door: TokenAccess) -> Dashboard:
    made = dashboard(small_shop.store, shop, authorize=door, hosts=["shop.test"])
    small_shop.boards.append(made)
    return made


def came_from(board: Dashboard, address: str) -> httpx.AsyncClient:
    """A visitor with an address."""
    transport = httpx.ASGITransport(board, client=(address, 40000))
    return httpx.AsyncClient(transport=transport, base_url="http://shop.test")


async def test_wrong_bearer_tokens_are_late_counted_and_then_not_compared(
    board: Dashboard, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the right one is not compared then; after a minute it is."""
    caplog.set_level(logging.WARNING, "raceproof")
    async with came_from(board, "192.0.2.1") as mallory:
        codes = [(await mallory.get("/", headers=WRONG)).status_code for _ in range(PER_CLIENT + 5)]
        assert codes == [401] * PER_CLIENT + [429] * 5
        assert clock.slept == [1.0] * PER_CLIENT
        refused = await mallory.get("/", headers=RIGHT)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= WINDOW + 1
        clock.now += WINDOW + 1
        assert (await mallory.get("/", headers=RIGHT)).status_code == 200
    told = [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()]
    assert len(told) == PER_CLIENT
    assert "192.0.2.1" in told[0]
    assert "no more are compared" in told[-1]
    assert "tokem" not in caplog.text


async def test_guesses_sent_at_once_are_counted_before_any_is_answered(board: Dashboard, clock: Clock) -> None:
    async with came_from(board, "192.0.2.1") as mallory:
        answers = await asyncio.gather(*(mallory.get("/", headers=WRONG) for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [401] * PER_CLIENT + [429] * (50 - PER_CLIENT)


async def test_the_form_and_the_header_are_counted_together(board: Dashboard) -> None:
    async with came_from(board, "192.0.2.1") as mallory:
        for _ in range(PER_CLIENT // 2):
            assert (await mallory.get("/", headers=WRONG)).status_code == 401
            assert (await mallory.post("/login", data={"token": "no"}, headers=OURS)).status_code == 401
        assert (await mallory.post("/login", data={"token": TOKEN}, headers=OURS)).status_code == 429


async def test_many_addresses_together_guess_no_faster_and_keep_out_only_strangers(board: Dashboard) -> None:
    """Who has given the right token before, or has a session, goes on as always."""
    async with came_from(board, "198.51.100.7") as ann, came_from(board, "198.51.100.8") as bob:
        assert (await ann.get("/", headers=RIGHT)).status_code == 200
        assert (await bob.post("/login", data={"token": TOKEN}, headers=OURS)).status_code == 303
        codes = []
        for number in range(IN_ALL + 10):
            async with came_from(board, f"203.0.113.{number}") as one:
                codes.append((await one.get("/", headers=WRONG)).status_code)
        assert codes == [401] * IN_ALL + [429] * 10
        async with came_from(board, "203.0.113.200") as stranger:
            assert (await stranger.get("/", headers=RIGHT)).status_code == 429
        assert (await ann.get("/", headers=RIGHT)).status_code == 200
        assert (await bob.get("/")).status_code == 200


async def test_addresses_of_one_ipv6_network_are_one_client(board: Dashboard) -> None:
    codes = []
    for number in range(PER_CLIENT + 1):
        async with came_from(board, f"2001:db8:0:1::{number:x}") as one:
            codes.append((await one.get("/", headers=WRONG)).status_code)
    assert codes == [401] * PER_CLIENT + [429]


async def test_each_login_has_a_random_session_that_ends(board: Dashboard, door: TokenAccess, clock: Clock) -> None:
    """By itself after its time, and for nobody else before."""
    async with came_from(board, "192.0.2.1") as ann, came_from(board, "192.0.2.2") as bob:
        cookies = []
        for one in (ann, bob):
            answer = await one.post("/login", data={"token": TOKEN}, headers=OURS)
            assert "max-age=3600" in answer.headers["set-cookie"].lower()
            cookies.append(one.cookies[COOKIE])
        assert len(set(cookies)) == 2
        assert all(len(cookie) >= 43 for cookie in cookies)
        clock.now += 3599
        assert (await ann.get("/")).status_code == 200
        clock.now += 2
        assert (await ann.get("/")).status_code == 401
        assert (await bob.get("/")).status_code == 401
    other = TokenAccess(TOKEN, "ann", True)
    assert not other.sessions.knows(cookies[0])


async def test_logging_out_ends_the_session_for_whoever_kept_the_cookie(board: Dashboard) -> None:
    async with came_from(board, "192.0.2.1") as ann, came_from(board, "192.0.2.2") as thief:
        await ann.post("/login", data={"token": TOKEN}, headers=OURS)
        thief.cookies.update(ann.cookies)
        assert (await thief.get("/")).status_code == 200
        assert "Log out" in (await ann.get("/")).text
        assert (await ann.post("/logout", headers={"Origin": "http://evil.test"})).status_code == 403
        assert (await ann.get("/")).status_code == 200
        left = await ann.post("/logout", headers=OURS)
        assert left.status_code == 303
        assert COOKIE not in ann.cookies
        assert (await thief.get("/")).status_code == 401


async def test_a_new_login_ends_the_session_before_it(board: Dashboard) -> None:
    async with came_from(board, "192.0.2.1") as ann, came_from(board, "192.0.2.1") as old:
        await ann.post("/login", data={"token": TOKEN}, headers=OURS)
        old.cookies.update(ann.cookies)
        await ann.post("/login", data={"token": TOKEN}, headers=OURS)
        assert (await ann.get("/")).status_code == 200
        assert (await old.get("/")).status_code == 401


HOSTS = {
    "127.0.0.1": True, "127.0.0.1:8765": True, "LOCALHOST": True, "localhost.": True, "[::1]:80": True,
    "evil.test": False, "127.0.0.1.evil.test": False, "evil.test:8765": False, "[::2]": False,
}  # fmt: skip


@pytest.mark.parametrize(("host", "ours"), HOSTS.items())
async def test_without_authorize_only_names_of_this_machine_are_answered(
    small_shop: Shop, host: str, ours: bool
) -> None:
    """A page elsewhere can point its own name at 127.0.0.1 and read what it answers: DNS rebinding."""
    board = dashboard(small_shop.store, shop)
    small_shop.boards.append(board)
    async with came_from(board, "127.0.0.1") as client:
        for path in ("/", item("Order", 5), "/static/dashboard.css"):
            answer = await client.get(path, headers={"Host": host})
            assert answer.status_code == (200 if ours else 421), path
            assert ours or "hosts=" in answer.text


async def test_hosts_say_which_names_are_answered(small_shop: Shop) -> None:
    """With authorize any name is, unless hosts= says otherwise; an asterisk is any name."""
    who = Access("ann")
    cases = (
        (dashboard(small_shop.store, shop, hosts=["ops.test"]), {"ops.test": 200, "evil.test": 421, "localhost": 421}),
        (dashboard(small_shop.store, shop, hosts=["*"]), {"ops.test": 200, "evil.test": 200}),
        (dashboard(small_shop.store, shop, authorize=lambda _: who), {"ops.test": 200}),
        (
            dashboard(small_shop.store, shop, authorize=lambda _: who, hosts=["ops.test"]),
            {"ops.test": 200, "evil.test": 421},
        ),
    )  # fmt: skip
    for board, expected in cases:
        small_shop.boards.append(board)
        async with came_from(board, "127.0.0.1") as client:
            for host, code in expected.items():
                assert (await client.get("/", headers={"Host": host})).status_code == code


HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


async def half_open(base: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has sent half of a request's head."""
    url = httpx.URL(base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(HALF)
    await writer.drain()
    return reader, writer


async def test_a_connection_without_a_whole_request_is_closed_in_time(small_shop: Shop) -> None:
    """Also if bytes keep trickling in, and also after a first request that was whole."""
    async with served(small_shop.board(), http=impatient(seconds=0.2)) as base:
        reader, writer = await half_open(base)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()

        reader, writer = await half_open(base)
        async with asyncio.timeout(20):
            while not reader.at_eof():
                try:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.wait_for(reader.read(1), 0.01)
                except (TimeoutError, ConnectionError):
                    continue
        writer.close()

        url = httpx.URL(base)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + HALF)
        async with asyncio.timeout(20):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.count(b"HTTP/1.1 ") == 1
        writer.close()


async def test_half_open_connections_keep_nobody_out(small_shop: Shop) -> None:
    """Far more than may wait at once, long before their time is over; those that are answered are not closed."""
    protocol = impatient(seconds=600, most=20)
    async with served(small_shop.board(), http=protocol, limit_concurrency=40) as base:
        async with httpx.AsyncClient(base_url=base) as client, client.stream("GET", "/live") as live:
            words = live.aiter_text()
            assert "retry" in await anext(words)
            opened = [await half_open(base) for _ in range(100)]
            async with httpx.AsyncClient(base_url=base) as another:
                assert (await another.get("/")).status_code == 200
            assert "changed" in await anext(words)
            first, last = opened[0][0], opened[-1][0]
            async with asyncio.timeout(20):
                assert await first.read() == b""
            assert not last.at_eof()
            for _, writer in opened:
                writer.close()


async def test_slow_senders_of_the_form_take_only_the_places_of_the_form(small_shop: Shop, door: TokenAccess) -> None:
    """A body that never ends holds a place for logging in, and no page."""
    board = dashboard(small_shop.store, shop, authorize=door, hosts=["127.0.0.1"])
    small_shop.boards.append(board)
    head = (
        "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 10\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n\r\nt"
    )
    async with served(board, http=impatient()) as base:
        url = httpx.URL(base)
        slow = []
        answers = []
        for _ in range(30):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(head.encode())
            slow.append((reader, writer))
        async with asyncio.timeout(20):
            for reader, _ in slow[20:]:
                answers.append(await reader.readuntil(b"\r\n"))
        assert answers == [b"HTTP/1.1 429 Too Many Requests\r\n"] * 10
        async with httpx.AsyncClient(base_url=base) as client:
            assert (await client.get("/", headers=RIGHT)).status_code == 200
        for _, writer in slow:
            writer.close()
