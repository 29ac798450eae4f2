"""What lies beside the attempts on Redis and Valkey; every key has a time to live, and no command looks at all keys.

Attempts are found in the index that raceproof keeps for the claim. On a cluster it keeps none: there it is kept here, under
the same name. The index only proposes: attempts that have ended, or are gone, leave it when they are looked at.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from qrlogin.beside import Known
from qrlogin.identity import BadSessionId, SessionId
from qrlogin.lifecycle import ACTIVE_SECONDS, ENDED, ENDED_SECONDS, Attempt

HERE = Path(__file__).parent
INDEX = f"{Attempt.spec.table}/{Attempt.ingest.name}"
ANNOUNCE = (HERE / "announce.lua").read_text()
WAITING = (HERE / "waiting.lua").read_text()
SCANNED = 1000
"""Keys that are looked at together."""
FORGET = (HERE / "forget.lua").read_text()


class BesideRedis:
    """On a client of redis-py's, plain or of a cluster."""

    def __init__(self, client: "Redis | RedisCluster") -> None:
        self.client: Any = client
        self.cluster = isinstance(client, RedisCluster)

    def key(self, name: str, session_id: SessionId) -> str:
        """`tg:qr:<name>:<SESSION_ID>`; on a cluster the user is the hash tag."""
        user = f"{{{session_id.user_id}}}" if self.cluster else session_id.user_id
        return f"tg:qr:{name}:{user}:{session_id.unix}:{session_id.nonce}"

    def key_of_user(self, name: str, user_id: str) -> str:
        return f"tg:qr:{name}:{{{user_id}}}" if self.cluster else f"tg:qr:{name}:{user_id}"

    async def now(self) -> float:
        if self.cluster:
            told = await self.client.time(target_nodes=self.client.get_random_node())
        else:
            told = await self.client.time()
        seconds, micros = told if not isinstance(told, dict) else next(iter(told.values()))
        return float(seconds) + float(micros) / 1e6

    async def check_writes(self, by: str) -> None:
        await self.client.set(f"tg:qr:health:{by}", "1", ex=60)

    async def announce(self, session_id: SessionId, delay: float = 0.0) -> None:
        await self.postpone([session_id], delay)

    async def waiting(self, limit: int) -> list[SessionId]:
        found = await self.client.eval(WAITING, 1, INDEX, limit, ACTIVE_SECONDS)
        listed = []
        for member in found:
            try:
                listed.append(SessionId.parsed(member.decode()))
            except (BadSessionId, UnicodeDecodeError):  # written by another program
                await self.client.zrem(INDEX, member)
        return listed

    async def postpone(self, session_ids: Iterable[SessionId], seconds: float) -> None:
        named = [str(one) for one in session_ids]
        for start in range(0, len(named), 500):
            some = named[start : start + 500]
            await self.client.eval(ANNOUNCE, 1, INDEX, seconds, ACTIVE_SECONDS, *some)

    async def leave(self, session_ids: Sequence[SessionId]) -> None:
        if session_ids:
            await self.client.zrem(INDEX, *map(str, session_ids))

    async def count_open(self) -> int:
        return int(await self.client.zcard(INDEX))

    async def known(self, user_id: str) -> Known:
        pointer, owned = self.key_of_user("active", user_id), self.key_of_user("sessions_zset", user_id)
        known = Known(_text(await self.client.get(pointer)))
        members = [_text(one) or "" for one in await self.client.zrange(owned, 0, -1, desc=True)]
        keys = [pointer, owned]
        for name in dict.fromkeys([*([known.pointer] if known.pointer else []), *members]):
            try:
                row = self.key("session", SessionId.parsed(name))
            except BadSessionId:
                continue
            found = await self.client.hgetall(row)
            known.rows[name] = {field.decode(): _text(value) for field, value in found.items()}
            keys += [row, row.replace("session", "session/history", 1)]
        known.endless = [key for key in keys if await self.client.ttl(key) == -1]
        return known

    async def forget(self, session_id: SessionId) -> bool:
        user, row = session_id.user_id, self.key("session", session_id)
        keys = [self.key_of_user("active", user), self.key_of_user("sessions_zset", user), row]
        keys.append(row.replace("session", "session/history", 1))
        return bool(await self.client.eval(FORGET, 4, *keys, str(session_id), *ENDED))

    async def mend(self, known: Known) -> None:
        for key in known.endless:
            await self.client.expire(key, ENDED_SECONDS)

    async def endless(self) -> tuple[list[str], int]:
        """Keys of ours without a time to live, and how many keys there are; by SCAN, in small steps."""
        found, looked, some = [], 0, []
        async for key in self.client.scan_iter("tg:qr:*", count=SCANNED):
            some.append(key)
            if len(some) == SCANNED:
                found += await self._endless_of(some)
                looked, some = looked + len(some), []
        return found + await self._endless_of(some), looked + len(some)

    async def _endless_of(self, keys: list[bytes]) -> list[str]:
        if not keys:
            return []
        asking = self.client.pipeline() if self.cluster else self.client.pipeline(transaction=False)
        for key in keys:
            asking.ttl(key)
        return [_text(key) or "" for key, ttl in zip(keys, await asking.execute(), strict=True) if ttl == -1]

    async def evicts(self) -> str:
        """The policy by which the server may throw attempts away when it is full; empty if it does not."""
        if self.cluster:
            return ""
        told = await self.client.info("memory")
        policy = str(told.get("maxmemory_policy", "noeviction"))
        return policy if int(told.get("maxmemory", 0)) and policy != "noeviction" else ""

    async def show(self, session_id: SessionId, fence: int, sealed: str, seconds: float) -> None:
        await self.client.set(f"{self.key('shown', session_id)}:{fence}", sealed, ex=max(1, math.ceil(seconds)))

    async def shown(self, session_id: SessionId, fence: int) -> str | None:
        return _text(await self.client.get(f"{self.key('shown', session_id)}:{fence}"))

    async def put_password(self, session_id: SessionId, sealed: str, seconds: float) -> None:
        await self.client.set(self.key("password", session_id), sealed, ex=max(1, math.ceil(seconds)))

    async def take_password(self, session_id: SessionId) -> str | None:
        return _text(await self.client.getdel(self.key("password", session_id)))


def _text(found: bytes | None) -> str | None:
    return None if found is None else found.decode()
