"""A second opinion on the explorer: small random programs, and an interpreter of them that shares no code with it.

The interpreter knows the rules as they are written down (what a death undoes, what a deviation costs, where time jumps to)
and compares whole states, never hashes. `smallest` tries everything up to a number of deviations and says how many are
needed to break a program; the explorer must come to the same number.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from raceproof.testing.explorer import (
    Connection,
    Effect,
    EffectRefused,
    EffectUnknown,
    StoreUnreachable,
    World,
)
from raceproof.testing.explorer.action import Fate, Faults

UNKNOWN = 9
"""What a patient process takes for the answer of an operation that failed."""
TIDIED = 7
"""What a tidy process writes when it is cancelled."""


@dataclass(frozen=True)
class Op:
    """One operation. With `when` it is left out unless the last answer was that."""

    kind: str
    row: int = 0
    value: int = 0
    when: int | None = None
    block: tuple["Op", ...] = ()


@dataclass(frozen=True)
class Actor:
    """One process: branches that run at once, and how it takes faults."""

    branches: tuple[tuple[Op, ...], ...]
    patient: bool = False
    """An operation that fails outside of a transaction does not end it."""
    tidy: bool = False
    """It writes something when it is cancelled."""
    restarts: bool = True


@dataclass(frozen=True)
class Program:
    actors: tuple[Actor, ...]
    top: int | None = None
    """No row is ever above this."""
    final: int | None = None
    """What the first row is in the end."""


# as a scenario of the explorer


def scenario(program: Program) -> World:
    world = World("program")
    world.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (0, 0), (1, 0)")
    world.sql("CREATE TABLE leases (id INTEGER PRIMARY KEY, until INTEGER); INSERT INTO leases VALUES (0, 0), (1, 0)")
    send = world.effect("send")
    for number, actor in enumerate(program.actors):
        _declare(world, f"p{number}", actor, send)
    world.never_twice(send)
    if program.top is not None:
        top = program.top
        world.always("top", lambda moment: all(row["n"] <= top for row in moment.rows("t")))
    if program.final is not None:
        world.eventually("final", lambda moment: moment.row("t", id=0)["n"] == program.final)
    return world


def _declare(world: World, name: str, actor: Actor, send: Effect) -> None:
    @world.process(name=name, restarts=actor.restarts)
    async def body(db: Connection) -> None:
        try:
            if len(actor.branches) == 1:
                await _Branch(db, send, actor).run(actor.branches[0])
            else:
                await asyncio.gather(*(_Branch(db, send, actor).run(ops) for ops in actor.branches))
        except asyncio.CancelledError:
            if actor.tidy:
                await db.execute("UPDATE t SET n = ? WHERE id = 0", TIDIED)
            raise


class _Branch:
    def __init__(self, db: Connection, send: Effect, actor: Actor) -> None:
        self._db = db
        self._send = send
        self._actor = actor
        self._seen = 0

    async def run(self, ops: tuple[Op, ...], within: bool = False) -> None:
        for op in ops:
            if op.when is not None and op.when != self._seen:
                continue
            if op.kind == "transaction":
                async with self._db.transaction():
                    await self.run(op.block, within=True)
                continue
            try:
                if not await self._one(op):
                    return
            except (StoreUnreachable, EffectRefused, EffectUnknown):
                if within or not self._actor.patient:
                    raise
                self._seen = UNKNOWN

    async def _one(self, op: Op) -> bool:
        db = self._db
        match op.kind:
            case "read":
                [(self._seen,)] = await db.execute("SELECT n FROM t WHERE id = ?", op.row)
            case "set":
                await db.execute("UPDATE t SET n = ? WHERE id = ?", op.value, op.row)
            case "add":
                await db.execute("UPDATE t SET n = ? WHERE id = ?", self._seen + 1, op.row)
            case "guarded":
                text = "UPDATE t SET n = ? WHERE id = ? AND n = ? RETURNING n"
                self._seen = len(await db.execute(text, op.value, op.row, self._seen))
            case "take":
                text = """UPDATE leases SET until = unixepoch('now', ?)
                    WHERE id = ? AND until <= unixepoch('now') RETURNING id"""
                return bool(await db.execute(text, f"+{op.value} seconds", op.row))
            case "send":
                await self._send(op.row)
            case "sleep":
                await asyncio.sleep(op.value)
        return True


# the interpreter

_STORE = {"read", "set", "add", "guarded", "take", "begin", "commit", "tidy"}
_NEVER = -1.0
_NONE = Faults()


@dataclass(frozen=True)
class _Branching:
    """Where one branch is."""

    place: int = 0
    seen: int = 0


@dataclass(frozen=True)
class _Actor:
    """Where one process is: life is `new`, `runs`, `tidies` or `over`."""

    life: str = "new"
    branches: tuple[_Branching, ...] = ()
    ready: tuple[tuple[int, bool], ...] = ()
    """Branches that wait for their operation, in the order in which they asked; True: for a timer that is due."""
    asleep: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class _Store:
    rows: tuple[int, ...] = (0, 0)
    leases: tuple[float, ...] = (_NEVER, _NEVER)


@dataclass(frozen=True)
class _State:
    actors: tuple[_Actor, ...]
    store: _Store = _Store()
    saved: _Store | None = None
    owner: int | None = None
    current: int | None = None
    clock: float = 0.0
    expiries: frozenset[float] = frozenset()
    sent: tuple[int, ...] = ()
    used: Faults = _NONE


def smallest(program: Program, deviations: int, limits: Faults) -> int | None:
    """How many deviations it takes to break the program, or None if so many are not enough."""
    return Interpreter(program, limits).smallest(deviations)


class Interpreter:
    def __init__(self, program: Program, limits: Faults) -> None:
        self._program = program
        self._limits = limits
        self._code = [[_flat(ops) for ops in actor.branches] for actor in program.actors]

    def smallest(self, deviations: int) -> int | None:
        levels: list[list[_State]] = [[] for _ in range(deviations + 3)]
        levels[0].append(_State(tuple(_Actor() for _ in self._program.actors)))
        known: set[_State] = set()
        for cost in range(deviations + 1):
            level = levels[cost]
            while level:
                state = level.pop()
                if state in known:
                    continue
                known.add(state)
                ended = True
                for extra, following in self._next(state):
                    ended = False
                    if cost + extra <= deviations:
                        levels[cost + extra].append(following)
                if self._broken(state) or (ended and self._wrong_in_the_end(state)):
                    return cost
        return None

    def _broken(self, state: _State) -> bool:
        top = self._program.top
        seen = (state.saved or state.store).rows  # what is not committed is seen by nobody
        return len(set(state.sent)) < len(state.sent) or (top is not None and max(seen) > top)

    def _wrong_in_the_end(self, state: _State) -> bool:
        return self._program.final is not None and state.store.rows[0] != self._program.final

    # what can come next, and what it costs

    def _next(self, state: _State) -> Iterator[tuple[int, _State]]:
        if self._broken(state):
            return
        able = [self._able(state, number) for number in range(len(state.actors))]
        current = state.current
        goes_on = current is not None and state.actors[current].life != "new" and bool(able[current])
        anybody = any(able)
        for number, ready in enumerate(able):
            for place, one in enumerate(ready):
                deviates = (goes_on and number != state.current) or place > 0
                for fate in self._fates(state, number, one):
                    used = state.used.plus(fate)
                    if used.within(self._limits):
                        following = self._perform(replace(state, current=number, used=used), number, one, fate)
                        yield int(deviates) + int(fate is not Fate.DONE), following
        timers = [when for actor in state.actors for when, _ in actor.asleep]
        moments = timers + (list(state.expiries) if anybody else [])
        if moments:
            yield int(anybody), self._pass_time(state, min(moments))

    def _able(self, state: _State, number: int) -> list[tuple[int, bool]]:
        actor = state.actors[number]
        if actor.life == "new":
            return [(-1, False)]
        if state.owner in (None, number):
            return list(actor.ready)
        return [one for one in actor.ready if one[1] or self._op(state, number, one[0]).kind not in _STORE]

    def _op(self, state: _State, number: int, branch: int) -> Op:
        actor = state.actors[number]
        return Op("tidy") if actor.life == "tidies" else self._code[number][branch][actor.branches[branch].place]

    def _fates(self, state: _State, number: int, one: tuple[int, bool]) -> list[Fate]:
        if state.actors[number].life == "new":
            return [Fate.DONE]
        if one[1]:
            return [Fate.DONE, Fate.DIES_BEFORE, Fate.CANCELLED_BEFORE]
        kind = self._op(state, number, one[0]).kind
        within = state.owner == number and kind in _STORE and kind != "commit"
        return [fate for fate in Fate if not (within and fate is Fate.UNANSWERED)]

    def _pass_time(self, state: _State, clock: float) -> _State:
        actors = []
        for actor in state.actors:
            due = sorted((one for one in actor.asleep if one[0] <= clock), key=lambda one: one[0])
            left = tuple(one for one in actor.asleep if one[0] > clock)
            ready = actor.ready + tuple((branch, True) for _, branch in due)
            actors.append(replace(actor, ready=ready, asleep=left))
        expiries = frozenset(one for one in state.expiries if one > clock)
        return replace(state, clock=clock, actors=tuple(actors), expiries=expiries)

    # one step

    def _perform(self, state: _State, number: int, one: tuple[int, bool], fate: Fate) -> _State:
        actor = state.actors[number]
        branch, woken = one
        if actor.life == "new":
            fresh = _Actor("runs", tuple(_Branching() for _ in self._code[number]))
            state = _with(state, number, fresh)
            for each in range(len(self._code[number])):
                state = self._ask(state, number, each)
            return state
        if fate is Fate.DIES_BEFORE:
            return self._gone(state, number)
        if fate is Fate.CANCELLED_BEFORE:
            return self._cancelled(state, number)
        op = self._op(state, number, branch)
        answer: int | None = actor.branches[branch].seen if actor.life == "runs" else 0
        if not woken and fate is not Fate.FAILS:
            state, answer = self._apply(state, number, op, answer or 0)
        if fate is Fate.DIES_AFTER:
            return self._gone(state, number)
        if fate is Fate.CANCELLED_AFTER:
            return self._cancelled(state, number)
        state = _with(state, number, replace(state.actors[number], ready=_less(actor.ready, one)))
        if fate in (Fate.FAILS, Fate.UNANSWERED):
            bounds = op.kind in ("begin", "commit", "tidy") or state.owner == number
            if bounds or not self._program.actors[number].patient:
                return self._gone(state, number)
            answer = UNKNOWN
        if actor.life == "tidies":
            return self._gone(state, number)
        return self._moved_on(state, number, branch, answer)

    def _moved_on(self, state: _State, number: int, branch: int, answer: int | None) -> _State:
        """The branch has its answer (None: it stops there) and asks for what comes next."""
        actor = state.actors[number]
        own = actor.branches[branch]
        place = len(self._code[number][branch]) if answer is None else own.place + 1
        branches = list(actor.branches)
        branches[branch] = _Branching(place, own.seen if answer is None else answer)
        return self._ask(_with(state, number, replace(actor, branches=tuple(branches))), number, branch)

    def _ask(self, state: _State, number: int, branch: int) -> _State:
        actor = state.actors[number]
        code, own = self._code[number][branch], actor.branches[branch]
        place = own.place
        while place < len(code) and code[place].when not in (None, own.seen):
            place += code[place].value if code[place].kind == "begin" else 1
        branches = list(actor.branches)
        branches[branch] = replace(own, place=place)
        actor = replace(actor, branches=tuple(branches))
        if place < len(code):
            if code[place].kind == "sleep":
                due = (state.clock + code[place].value, branch)
                actor = replace(actor, asleep=(*actor.asleep, due))
            else:
                actor = replace(actor, ready=(*actor.ready, (branch, False)))
        elif all(one.place == len(self._code[number][at]) for at, one in enumerate(actor.branches)):
            actor = _Actor("over")
        return _with(state, number, actor)

    def _apply(self, state: _State, number: int, op: Op, seen: int) -> tuple[_State, int | None]:
        store, rows = state.store, list(state.store.rows)
        match op.kind:
            case "read":
                return state, rows[op.row]
            case "send":
                return replace(state, sent=(*state.sent, op.row)), seen
            case "begin":
                return replace(state, owner=number, saved=store), seen
            case "commit":
                return replace(state, owner=None, saved=None), seen
            case "take":
                if store.leases[op.row] > state.clock:
                    return state, None
                until = state.clock + op.value
                leases = tuple(until if at == op.row else one for at, one in enumerate(store.leases))
                changed = replace(store, leases=leases)
                return replace(state, store=changed, expiries=state.expiries | {until}), seen
            case "guarded":
                if rows[op.row] != seen:
                    return state, 0
                rows[op.row], seen = op.value, 1
            case "set":
                rows[op.row] = op.value
            case "add":
                rows[op.row] = seen + 1
            case "tidy":
                rows[0] = TIDIED
        return replace(state, store=replace(store, rows=tuple(rows))), seen

    def _gone(self, state: _State, number: int) -> _State:
        """Died, or ended by an exception: what is not committed is undone, and it starts anew if it may."""
        state = self._undone(state, number)
        return _with(state, number, _Actor("new" if self._program.actors[number].restarts else "over"))

    def _cancelled(self, state: _State, number: int) -> _State:
        actor = self._program.actors[number]
        if not actor.tidy or state.actors[number].life == "tidies":
            return self._gone(state, number)
        return _with(self._undone(state, number), number, _Actor("tidies", ready=((0, False),)))

    def _undone(self, state: _State, number: int) -> _State:
        if state.owner != number or state.saved is None:
            return state
        return replace(state, store=state.saved, saved=None, owner=None)


def _with(state: _State, number: int, actor: _Actor) -> _State:
    actors = list(state.actors)
    actors[number] = actor
    return replace(state, actors=tuple(actors))


def _less(ready: tuple[tuple[int, bool], ...], one: tuple[int, bool]) -> tuple[tuple[int, bool], ...]:
    place = ready.index(one)
    return ready[:place] + ready[place + 1 :]


def _flat(ops: tuple[Op, ...]) -> list[Op]:
    """A transaction as BEGIN, what is in it, COMMIT; BEGIN knows how much to leave out."""
    found: list[Op] = []
    for op in ops:
        if op.kind == "transaction":
            found += [Op("begin", value=len(op.block) + 2, when=op.when), *op.block, Op("commit")]
        else:
            found.append(op)
    return found


# random programs

_KINDS = ("read", "read", "set", "add", "add", "guarded", "send", "send", "sleep", "take", "transaction")


def random_program(seed: int, most: int = 3, tangled: bool = False) -> Program:
    """A program that a seed stands for; most can be broken. A tangled one has tasks and numbers that look alike."""
    chance = Random(seed)
    parallel = chance.random() < (0.8 if tangled else 0.25)
    actors = []
    for number in range(chance.choice((2, 2, 3)) if not parallel else 2):
        if parallel and number == 0:
            branches = tuple(_ops(chance, chance.randint(1, most if tangled else 2), False) for _ in range(2))
        else:
            branches = (_ops(chance, chance.randint(1, most), True),)
        patient, tidy, restarts = chance.random() < 0.4, chance.random() < 0.3, chance.random() < 0.7
        actors.append(Actor(branches, patient, tidy, restarts))
    program = Program(tuple(actors), chance.choice((None, 1, 2, 3)), chance.choice((None, None, 0, 1, 2)))
    return _looking_alike(program, chance) if tangled else program


def _looking_alike(program: Program, chance: Random) -> Program:
    """Numbers below zero, of which Python gives two the same hash."""

    def changed(op: Op) -> Op:
        block = tuple(changed(one) for one in op.block)
        if op.kind in ("set", "guarded"):
            return replace(op, value=chance.choice((-2, -1, 1, 3)))
        when = op.when if op.when is None else chance.choice((-2, -1, 0, 1))
        return replace(op, when=when, block=block)

    return replace(
        program,
        actors=tuple(
            replace(actor, branches=tuple(tuple(map(changed, ops)) for ops in actor.branches))
            for actor in program.actors
        ),
    )


def _ops(chance: Random, count: int, blocks: bool) -> tuple[Op, ...]:
    return tuple(_op(chance, blocks) for _ in range(count))


def _op(chance: Random, blocks: bool) -> Op:
    kind = chance.choice(_KINDS if blocks else _KINDS[:-1])
    when = chance.choice((None, None, None, 0, 1, UNKNOWN))
    row, value = chance.choice((0, 0, 1)), chance.choice((1, 2, 3, 5))
    if kind == "transaction":
        inner = tuple(
            replace(_op(chance, False), kind=chance.choice(("read", "set", "add", "guarded", "send")))
            for _ in range(chance.randint(1, 2))
        )
        return Op(kind, when=when, block=inner)
    return Op(kind, row, value, when)
