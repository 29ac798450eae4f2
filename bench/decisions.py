"""What is decided about a row of Redis: each decision beside a script that makes that decision alone, written by hand.

Both go through the same client, the one by EVALSHA. What a call needs is put there between two calls, when no clock runs.
"""

from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import redis

from bench.claims import BATCH, GOAL, LEASE, Jobs, Status, jobs
from bench.measure import Side, interleave
from bench.result import Comparison, Result, Run, by_time
from bench.world import World
from raceproof import Attempts, Delivery, Lease, Lifecycle, bind, move

_numbers = count(1)


def comparisons(world: World) -> Iterator[Comparison]:
    for what, pair in _DECISIONS.items():
        name = f"{what} · Redis, redis-py · bind ÷ a script by hand"
        yield Comparison(name, _decided(world, name, pair))


Pair = Callable[[redis.Redis], list[Side]]


def _decided(world: World, name: str, pair: Pair) -> Run:
    async def run() -> list[Result]:
        scale = world.scale
        with redis.Redis.from_url(world.valkey.url) as client:
            alone = scale.alone if pair in _WITHOUT_PREPARATION else 0.0
            taken = await interleave(pair(client), scale.rounds, scale.permits, alone, world.valkey)
        mine, theirs = taken.medians
        return [by_time(name, mine, theirs, GOAL, taken.costs)]

    return run


_CLAIM_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local row = ARGV[2] .. id
  local seen = redis.call('HMGET', row, 'status', 'claimed_until')
  if (seen[1] == 'QUEUED' or seen[1] == 'RUNNING') and not (seen[2] and tonumber(seen[2]) > now) then
    local fence = redis.call('HINCRBY', row, 'fence', 1)
    local ends = string.format('%.6f', now + ARGV[4])
    redis.call('HSET', row, 'status', 'RUNNING', 'claimed_by', ARGV[3], 'claimed_until', ends)
    redis.call('ZADD', KEYS[1], ends, id)
    found[#found + 1] = {id, fence}
  elseif seen[1] == 'QUEUED' or seen[1] == 'RUNNING' then
    redis.call('ZADD', KEYS[1], seen[2], id)
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return found
"""
_FINISH_SCRIPT = """
local finished = 0
for i = 2, #KEYS do
  local seen = redis.call('HMGET', KEYS[i], 'status', 'fence')
  if seen[1] == 'RUNNING' and seen[2] == ARGV[i * 2 - 2] then
    redis.call('HSET', KEYS[i], 'status', 'DONE')
    redis.call('HDEL', KEYS[i], 'claimed_by', 'claimed_until')
    redis.call('ZREM', KEYS[1], ARGV[i * 2 - 3])
    finished = finished + 1
  end
end
return finished
"""


def _claim_and_finish(batch: int) -> Pair:
    def pair(client: redis.Redis) -> list[Side]:
        made, other = jobs(), jobs()
        db = bind(client)
        index = f"{other.table}/work"
        claiming, finishing = client.script_load(_CLAIM_SCRIPT), client.script_load(_FINISH_SCRIPT)

        def ours(step: int, key: Any) -> Any:
            claims = db.claim(made.work, batch, by="node-7")
            if batch == 1:
                return [db.move(made.finish, claims[0])]
            return db.move_many(made.finish, claims)

        def by_hand(step: int, key: Any) -> Any:
            found: Any = client.evalsha(claiming, 1, index, batch, f"{other.table}:", "node-7", LEASE)
            rows = [f"{other.table}:{one.decode()}" for one, _ in found]
            return client.evalsha(finishing, 1 + len(rows), index, *rows, *(part for row in found for part in row))

        return [
            Side(ours, _offered(client, made, batch), lambda found: _all_finished(found, batch)),
            Side(by_hand, _offered(client, other, batch), lambda found: bool(found == batch)),
        ]

    return pair


def _all_finished(answers: Any, batch: int) -> bool:
    return len(answers) == batch and all(answer.won for answer in answers)


def _offered(client: redis.Redis, made: Jobs, batch: int) -> Iterator[tuple[int, Any]]:
    """Before each call as many rows wait as it takes."""
    for start in count(10_000_000, batch):
        pipe = client.pipeline(transaction=False)
        for key in range(start, start + batch):
            pipe.hset(f"{made.table}:{key}", mapping={"id": key, "status": "QUEUED"})
            pipe.expire(f"{made.table}:{key}", 60)
            pipe.zadd(f"{made.table}/work", {str(key): 1})
        pipe.execute()
        yield 0, None


_TAKE_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local seen = redis.call('HMGET', KEYS[1], 'id', 'delivering_at', 'delivered_at')
if not seen[1] or seen[3] or (seen[2] and tonumber(seen[2]) + 300 > now) then return false end
local fence = string.format('%.6f', now)
redis.call('HSET', KEYS[1], 'delivering_at', fence)
return fence
"""
_MARK_SCRIPT = """
local seen = redis.call('HMGET', KEYS[1], 'delivering_at', 'delivered_at')
if seen[1] ~= ARGV[1] or seen[2] then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'delivered_at', string.format('%s.%06d', time[1], tonumber(time[2])))
redis.call('HDEL', KEYS[1], 'delivering_at')
return 1
"""


def _take_and_mark(client: redis.Redis) -> list[Side]:
    made = Delivery("receipt", f"receipts_{next(_numbers)}")
    other = f"receipts_{next(_numbers)}"
    db = bind(client)
    taking, marking = client.script_load(_TAKE_SCRIPT), client.script_load(_MARK_SCRIPT)

    def ours(step: int, key: Any) -> Any:
        permit: Any = db.begin_delivery(made, key, by="node-7")
        return db.delivered(permit)

    def by_hand(step: int, key: Any) -> Any:
        row = f"{other}:{key}"
        fence: Any = client.evalsha(taking, 1, row)
        return client.evalsha(marking, 1, row, fence)

    return [
        Side(ours, _ready(client, made.table), lambda answer: bool(answer.won)),
        Side(by_hand, _ready(client, other), bool),
    ]


def _ready(client: redis.Redis, table: str) -> Iterator[tuple[int, Any]]:
    for number in count(10_000_000):
        client.hset(f"{table}:{number}", mapping={"id": number})
        client.expire(f"{table}:{number}", 60)
        yield 0, str(number)


_START_SCRIPT = """
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], tonumber(time[2]))
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local old = redis.call('GET', KEYS[1])
if old then
  local row = ARGV[3] .. old
  local status = redis.call('HGET', row, 'status')
  if status == 'QUEUED' or status == 'RUNNING' then redis.call('HSET', row, 'status', 'DONE') end
end
redis.call('HSET', KEYS[3], 'id', ARGV[1], 'user_id', ARGV[2], 'status', 'QUEUED')
redis.call('SET', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], moment, ARGV[1])
return 1
"""


def _start(client: redis.Redis) -> list[Side]:
    tables = [f"logins_{next(_numbers)}" for _ in range(2)]

    class Login(Lifecycle[Status], table=tables[0], terminal=[Status.DONE]):
        begin = move(Status.QUEUED, to=Status.RUNNING)
        end = move(Status.QUEUED, Status.RUNNING, to=Status.DONE)

    attempts = Attempts(Login, owner="user_id", supersede=Login.end)
    db = bind(client)
    starting = client.script_load(_START_SCRIPT)

    def by_hand(step: int, key: Any) -> Any:
        owner, number = key
        keys = f"{tables[1]}/active:{owner}", f"{tables[1]}/owned:{owner}", f"{tables[1]}:{number}"
        return client.evalsha(starting, 3, *keys, number, owner, f"{tables[1]}:")

    return [
        Side(lambda step, key: db.start_attempt(attempts, *key), _owners(), lambda answer: bool(answer.won)),
        Side(by_hand, _owners(), bool),
    ]


def _owners() -> Iterator[tuple[int, Any]]:
    """A hundred owners in turn, each with a new attempt that ends the one before."""
    for number in count():
        yield 0, (str(number % 100), str(10_000_000 + number))


_RENEW_SCRIPT = """
local seen = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
if seen[1] ~= ARGV[1] or seen[2] ~= ARGV[2] or not seen[3] then return false end
local time = redis.call('TIME')
local ends = string.format('%.6f', time[1] + time[2] / 1000000 + ARGV[3])
redis.call('HSET', KEYS[1], 'until', ends)
return ends
"""


def _renew(client: redis.Redis) -> list[Side]:
    lease = Lease(f"bench-{next(_numbers)}")
    other = f"{lease.table}:by-hand-{next(_numbers)}"
    db = bind(client)
    leading: Any = db.acquire_lease(lease, by="node-7")
    client.hset(other, mapping={"holder": "node-7", "epoch": "1", "until": "1"})
    renewing = client.script_load(_RENEW_SCRIPT)
    return [
        Side(lambda step, key: db.renew_lease(leading), repeat((0, None)), lambda answer: bool(answer.won)),
        Side(
            lambda step, key: client.evalsha(renewing, 1, other, "node-7", "1", "30"),
            repeat((0, None)),
            lambda answer: answer is not None,
        ),
    ]


_DECISIONS: dict[str, Pair] = {
    "claim and finish of one": _claim_and_finish(1),
    f"claim and finish of {BATCH}": _claim_and_finish(BATCH),
    "delivery, take and mark": _take_and_mark,
    "attempt, start": _start,
    "lease, renew": _renew,
}
_WITHOUT_PREPARATION = (_start, _renew)
"""Only of these the CPU time is told: that of the others would have in it what happens between two calls."""
