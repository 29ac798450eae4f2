"""What a scenario declares: tables and rows, processes, effects outside of the store, and what must hold.

    def one_picture(world: World) -> None:
        world.sql("CREATE TABLE pictures (id TEXT PRIMARY KEY, status TEXT); INSERT INTO pictures VALUES ('p', 'READY')")
        send = world.effect("send")

        @world.process
        async def callback(db: Connection) -> None: ...

        world.never_twice(send)

A scenario is called once; a process is started anew in every run, and after every death.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from raceproof.attempts import Attempts
from raceproof.declare import claim_forms as forms
from raceproof.declare.lifecycle import Lifecycle, spec_of
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import Event
from raceproof.leases import Lease
from raceproof.schema import Dialect, ddl
from raceproof.testing.explorer.action import NAME, Fate
from raceproof.testing.explorer.ground import Ground, Tables
from raceproof.testing.explorer.process import Body, Operation

if TYPE_CHECKING:
    from raceproof.testing.explorer.run import Run
    from raceproof.testing.explorer.watch import Watch

Declared = type[Lifecycle[Any]] | Spec[Any] | Delivery | Attempts | Lease | Inbox
_DIALECTS: tuple[Dialect, ...] = ("sqlite", "postgres")


@dataclass(frozen=True, slots=True)
class Call:
    """One time that an effect happened."""

    effect: str
    key: Hashable
    details: Mapping[str, Any]
    by: str
    step: int


class EffectRefused(ConnectionRefusedError):
    """A fault: the outside was not reached, so nothing happened there."""


class EffectUnknown(TimeoutError):
    """A fault: no answer came from the outside, and it may have happened."""


class Effect:
    """Something outside of the store that cannot be undone: a message that is sent, a payment, a file."""

    def __init__(self, name: str, answer: Callable[[Sequence[Call]], Any] | None = None) -> None:
        self.name = name
        self._answer = answer
        self._run: Run | None = None

    def __repr__(self) -> str:
        return f"<effect {self.name}>"

    async def __call__(self, key: Hashable = None, /, **details: Any) -> Any:
        """Let it happen; `key` says what for, and `never_twice` counts by it."""
        run = self._run
        if run is None:
            raise CallError(f"the effect {self.name} happens only while its scenario is explored")
        process = run.loop.owner

        def apply() -> Any:
            run.watch.happened(Call(self.name, key, details, process.title, run.step))
            return self._answer(run.watch.calls(self.name)) if self._answer else None

        def error(fate: Fate) -> BaseException:
            if fate is Fate.UNANSWERED:
                return EffectUnknown(f"no answer from {self.name}")
            return EffectRefused(f"{self.name} was not reached")

        future = run.loop.create_future()
        shown = ", ".join([repr(key)] * (key is not None) + [f"{name}={value!r}" for name, value in details.items()])
        operation = Operation(process, lambda: f"{self.name}({shown})", apply, future, errors=error)
        operation.trial = apply if self._answer is None else None
        run.submit(operation)
        return await future


class Moment:
    """What an invariant looks at: the rows, the effects and the answers up to one step of one run."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch

    @property
    def clock(self) -> float:
        """Seconds since the run began."""
        return self._watch.clock

    @property
    def tables(self) -> Tables:
        """All rows by table."""
        return self._watch.tables()

    def rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """The rows of one table."""
        return self.tables.get(table, ())

    def row(self, table: str, **key: Any) -> Mapping[str, Any]:
        """The one row with these values."""
        found = [row for row in self.rows(table) if all(row.get(name) == value for name, value in key.items())]
        if len(found) != 1:
            raise CallError(f"{len(found)} rows of {table} have {key}")
        return found[0]

    def calls(self, effect: Effect | str) -> Sequence[Call]:
        """How often an effect has happened so far, in order."""
        return self._watch.calls(effect if isinstance(effect, str) else effect.name)

    @property
    def told(self) -> Sequence[tuple[str, Event]]:
        """Every answer of the library so far, with the process that got it."""
        self._watch.told_matters = True
        return self._watch.told


Check = Callable[[Moment], object]
Change = Callable[[Tables, Tables], object]


@dataclass(frozen=True, slots=True)
class Invariant:
    """What must hold; a check returns False, or a text that says what is wrong."""

    name: str
    check: Callable[..., object]

    def broken(self, *args: Any) -> str | None:
        """What is wrong, or None."""
        try:
            found = self.check(*args)
        except AssertionError as error:
            found = str(error) or False
        if not isinstance(found, bool | str | None):
            raise CallError(
                f"{self.name}: a check returns True or False, or a text that says what is wrong, not {found!r}"
            )
        if found is False:
            return self.name
        return f"{self.name}: {found}" if isinstance(found, str) and found else None


@dataclass(slots=True)
class Planned:
    """A process as it was declared."""

    name: str
    body: Body
    restarts: bool


@dataclass(slots=True)
class World:
    """A scenario while it is declared."""

    name: str = "scenario"
    processes: list[Planned] = field(default_factory=list)
    effects: dict[str, Effect] = field(default_factory=dict)
    always_hold: list[Invariant] = field(default_factory=list)
    hold_at_the_end: list[Invariant] = field(default_factory=list)
    changes: list[Invariant] = field(default_factory=list)
    reached: list[Invariant] = field(default_factory=list)
    horizon: float = 3600.0
    """A run ends when its clock would go beyond this."""
    spans: list[float] = field(default_factory=list)
    """Seconds after which something may be over, where statements reckon with numbers; else the explorer sees it itself."""
    _beginning: list[Callable[[Ground], None]] = field(default_factory=list)
    _before: list[Body] = field(default_factory=list)

    # the beginning

    def sql(self, script: str) -> None:
        """Tables and rows, in SQL that the store understands."""
        self._beginning.append(lambda ground: ground.script(script))

    def table(self, declared: Declared, **columns: str) -> None:
        """The table of something declared, with all columns that it names; further ones are `text`, `number` or `time`."""
        self._beginning.append(lambda ground: _create(ground, declared, columns))

    def row(self, declared: type[Lifecycle[Any]] | Spec[Any] | Delivery | Attempts, key: Any, **columns: Any) -> None:
        """A row that is there when a run begins."""
        self._beginning.append(lambda ground: _insert(ground, declared, key, columns))

    def before(self, prepare: Body) -> Body:
        """Run this before the processes begin, undisturbed."""
        self._before.append(prepare)
        return prepare

    # who acts

    @overload
    def process(self, body: Body, /) -> Body: ...
    @overload
    def process(
        self, body: None = None, /, *, name: str | None = None, times: int = 1, restarts: bool = True
    ) -> Callable[[Body], Body]: ...

    def process(
        self, body: Body | None = None, /, *, name: str | None = None, times: int = 1, restarts: bool = True
    ) -> Any:
        """A process of the scenario: `async def name(db)`. After a death it starts again, unless `restarts=False`."""

        def declare(body: Body) -> Body:
            own = (name or body.__name__).replace("_", "-")
            for number in range(1, times + 1):
                wanted = own if times == 1 else f"{own}-{number}"
                if wanted == "wait" or any(one.name == wanted for one in self.processes):
                    raise CallError(f"{self.name}: another name than {wanted!r}, please; that one is taken")
                if not NAME.fullmatch(wanted):
                    raise CallError(f"{self.name}: a process's name has no space, colon, # or *, as {wanted!r} has")
                self.processes.append(Planned(wanted, body, restarts))
            return body

        return declare if body is None else declare(body)

    def effect(self, name: str, answer: Callable[[Sequence[Call]], Any] | None = None) -> Effect:
        """Something that happens outside of the store; `answer` makes what it returns from its calls so far."""
        return self.effects.setdefault(name, Effect(name, answer))

    # what must hold

    def always(self, name: str, check: Check) -> None:
        """Must hold after every step."""
        self.always_hold.append(Invariant(name, check))

    def eventually(self, name: str, check: Check) -> None:
        """Must hold when everything has come to its end."""
        self.hold_at_the_end.append(Invariant(name, check))

    def never_twice(self, effect: Effect, name: str | None = None) -> None:
        """The effect happens at most once for each key."""

        def check(moment: Moment) -> object:
            first: dict[Hashable, Call] = {}
            for call in moment.calls(effect):
                earlier = first.setdefault(call.key, call)
                if earlier is not call:
                    what = effect.name if call.key is None else f"{effect.name} {call.key!r}"
                    return f"{what} happened in step {earlier.step} ({earlier.by}) and again in step {call.step} ({call.by})"
            return True

        self.always(name or f"never twice: {effect.name}", check)

    def change(self, name: str, check: Change) -> None:
        """Must hold for the rows before and after every step."""
        self.changes.append(Invariant(name, check))

    def sometimes(self, name: str, check: Check) -> None:
        """Must be reached in some run, or the exploration shows nothing."""
        self.reached.append(Invariant(name, check))

    # for the explorer

    def begin_on(self, ground: Ground) -> None:
        """Make the tables and rows."""
        for step in self._beginning:
            step(ground)

    @property
    def preparations(self) -> Sequence[Body]:
        return self._before

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.processes]


def _create(ground: Ground, declared: Declared, columns: Mapping[str, str]) -> None:
    match declared:
        case Delivery():
            kinds = dict.fromkeys(declared.key_columns, "text")
            kinds |= {declared.delivering: "time", declared.delivered: "time"}
            texts = (declared.state, declared.holder, declared.error)
            kinds |= {column: "text" for column in texts if column}
            kinds |= {declared.attempts: "number"} if declared.attempts else {}
            ground.create(declared.table, {**kinds, **columns}, declared.key_columns)
        case Lease() | Inbox():
            ground.ddl({dialect: "\n".join(ddl(declared, dialect=dialect)) for dialect in _DIALECTS})
        case Attempts():
            own = {declared.owner: "text"} | ({declared.started: "time"} if declared.started else {})
            _create(ground, declared.lifecycle, {**own, **columns})
        case _:
            spec = spec_of(declared)
            ground.create(spec.table, {**_columns(spec), **columns}, spec.key_columns)
            if spec.history:
                ground.ddl({dialect: "\n".join(ddl(spec, dialect=dialect, only="tables")) for dialect in _DIALECTS})


def _columns(spec: Spec[Any]) -> dict[str, str]:
    kinds = dict.fromkeys((*spec.key_columns, spec.column), "text")
    for move in spec.moves.values():
        kinds |= dict.fromkeys(move.stamp, "time") | dict.fromkeys(move.sets, "text")
    kinds |= {column: "number" for column in (spec.revision, spec.fence) if column}
    for claim in spec.claims.values():
        kinds |= _claim_columns(claim)
        for column in (claim.ordering_key, *claim.order_by):
            if column is not None:
                kinds.setdefault(column.removeprefix("-"), "text")
    return kinds


def _claim_columns(claim: Claimable[Any]) -> dict[str, str]:
    match claim.form:
        case forms.ClaimColumns(holder=holder, until=until, fence=fence):
            kinds = {holder: "text", until: "time", fence: "number"}
        case forms.TimestampClaim(column=column):
            kinds = {column: "time"}
        case forms.TextMarker(column=column):
            kinds = {column: "text"}
    kinds |= {claim.attempts: "number"} if claim.attempts else {}
    return kinds | ({claim.not_before: "time"} if claim.not_before else {})


def _insert(ground: Ground, declared: Any, key: Any, columns: Mapping[str, Any]) -> None:
    parts = key if isinstance(key, tuple) else (key,)
    if isinstance(declared, Delivery):
        names, values = declared.key_columns, dict(columns)
        table = declared.table
    else:
        spec = declared.lifecycle if isinstance(declared, Attempts) else spec_of(declared)
        names, table = spec.key_columns, spec.table
        values = {spec.column: str(spec.initial[0]), **columns}
        if spec.revision:
            values.setdefault(spec.revision, 0)
    ground.insert(table, names, {**dict(zip(names, parts, strict=True)), **values})


Scenario = Callable[[World], Awaitable[None] | None]
