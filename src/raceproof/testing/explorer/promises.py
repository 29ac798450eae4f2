"""Ready-made invariants: what the library promises (P1–P10, P13), about the things that a scenario has declared.

    keeps_moves(world, Job)
    keeps_claims(world, Job.work)
    recovers(world, Job.work)

They look at rows, effects and answers as any of the stores has them. P14 needs none of its own: it is these, with
cancellations among the faults; and P12 is these, with lost acknowledgements, and `keeps_calls`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from raceproof.attempts import Attempts
from raceproof.deliveries import Delivery, DeliveryState
from raceproof.events import Event
from raceproof.forms import Columns, Marker, Timestamp
from raceproof.inbox import Inbox
from raceproof.leases import Lease
from raceproof.lifecycle import Lifecycle, spec_of
from raceproof.look import moment as moment_of
from raceproof.quoting import split_qualified
from raceproof.spec import Claimable, Move, Spec
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.virtual import EPOCH
from raceproof.testing.explorer.world import Effect, Moment, World

Declared = type[Lifecycle[Any]] | Spec[Any]
Row = Mapping[str, Any]
Rows = dict[tuple[str, ...], Row]
Step = Callable[[Tables, Tables, Moment], object]
T = TypeVar("T")


# values, as SQLite, PostgreSQL and Redis give them


def text(value: Any) -> str | None:
    """A value as text; nothing is None, also where a store has an empty text for it."""
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return None if value is None or value == "" else str(value)


def number(value: Any) -> int | None:
    """A whole number, which may be written as a text."""
    return None if text(value) is None else int(value)


def seconds(value: Any) -> float | None:
    """A moment in seconds since the run began, whether it is a datetime, a text or a number."""
    return None if text(value) is None else round(moment_of(value).timestamp() - EPOCH, 3)


def order(fence: Any) -> Any:
    """A fence as something that grows: a number, or a moment with all its digits."""
    if isinstance(fence, int | datetime):
        return fence
    found = str(text(fence) or "")
    return int(found) if found.isdecimal() else found


def rows_of(tables: Tables, table: str, keys: Sequence[str]) -> Rows:
    """The rows of a table by their key."""
    name = split_qualified(table)[-1] if "." in table else table
    return {
        tuple([str(row[column]) for column in keys]): row
        for row in tables.get(name, ())
        if all(column in row for column in keys)
    }


def told(moment: Moment, declared: object, *operations: str) -> Iterator[tuple[str, Event]]:
    """Final answers about one declared thing: a move, a claim, a delivery, a lease, or any of a lifecycle."""
    for title, event in moment.told:
        move: Any = event.answer.move
        if event.settled and event.operation in operations and declared in (move, move.lifecycle):
            yield title, event


def at_each_step(world: World, name: str, check: Step) -> None:
    """Must hold for the rows before and after every step; the check may also look at the moment after it."""
    latest: list[Moment] = []

    def remember(moment: Moment) -> bool:
        latest[:] = [moment]
        return True

    world.always(name, remember)  # these are asked before changes are, in the same step
    world.change(name, lambda before, after: check(before, after, latest[0]))


# P1, P2: moves


def keeps_moves(world: World, declared: Declared) -> None:
    """P1 and P2: rows go along declared moves only, out of no terminal status, and a move is won once."""
    spec = spec_of(declared)
    pairs = {(str(source), str(move.target)) for move in spec.moves.values() for source in move.sources}
    terminal = {str(status) for status in spec.terminal}

    def along(before: Tables, after: Tables) -> object:
        old = rows_of(before, spec.table, spec.key_columns)
        for key, row in rows_of(after, spec.table, spec.key_columns).items():
            now = str(row.get(spec.column))
            was = str(old[key].get(spec.column)) if key in old else None
            if was is None and now not in map(str, spec.initial):
                return f"{_name(key)} began at {now}"
            if was in terminal and now != was:
                return f"{_name(key)} left the terminal status {was} for {now}"
            if was is not None and was != now and (was, now) not in pairs:
                return f"{_name(key)} went from {was} to {now}, and no move does"
        return True

    def once(moment: Moment) -> object:
        won: set[tuple[str, str]] = set()
        for title, event in told(moment, spec, "move"):
            answer: Any = event.answer
            if event.outcome == "refused" and not answer.unmet and answer.status in answer.move.sources:
                return f"{title} was refused {answer.move} at {answer.status}, from where it leads"
            if event.outcome != "moved" or answer.replayed:
                continue
            target = str(answer.move.target)
            if spec.revision is not None:
                change = f"{target} at revision {answer.revision}"
            elif target not in _reachable(spec, target):
                change = target
            else:
                continue  # it may well be won again, and nothing tells one time from the next
            if (str(event.key), change) in won:
                return f"{title} was told a second time that {event.key!r} has moved to {change}"
            won.add((str(event.key), change))
        return True

    world.change(f"P1, P2: {spec} moves as declared", along)
    world.always(f"P1: a move of {spec} is won once", once)


def _reachable(spec: Spec[Any], status: str) -> set[str]:
    """Where a row can get to from a status."""
    found: set[str] = set()
    open_ends = [status]
    while open_ends:
        at = open_ends.pop()
        for move in spec.moves.values():
            if at in map(str, move.sources) and str(move.target) not in found:
                found.add(str(move.target))
                open_ends.append(str(move.target))
    return found


def keeps_calls(world: World, declared: Declared) -> None:
    """P12: a call with an id moves a row once, however often it is asked again; for stores with a history table."""
    spec = spec_of(declared)
    assert spec.history is not None, f"{spec} keeps no history"
    table = split_qualified(spec.history.table)[-1]

    def once(moment: Moment) -> object:
        seen: set[tuple[Any, Any, Any]] = set()
        for row in moment.rows(table):
            call = (row.get("key"), row.get("move"), text(row.get("call")))
            if row.get("outcome") == "moved" and row.get("lifecycle") == spec.name and call[2] is not None:
                if call in seen:
                    return f"the call {call[2]} moved {call[0]!r} twice"
                seen.add(call)
        return True

    world.always(f"P12: one call of {spec}, one move", once)


# P3, P4, P5: claims


def keeps_claims(world: World, claim: Claimable[Any]) -> None:
    """P3: no row is taken from a holder before its lease is over. P4, P5: only the newest fence can write."""
    spec = claim.lifecycle

    def alone(before: Tables, after: Tables, moment: Moment) -> object:
        old = rows_of(before, spec.table, spec.key_columns)
        for key, row in rows_of(after, spec.table, spec.key_columns).items():
            if key not in old or not _claimed_anew(claim, old[key], row, moment):
                continue
            until = _held_until(claim, old[key])
            if until is not None and until > moment.clock:
                return (
                    f"{_name(key)} was claimed at {moment.clock:g} s, and its holder has it until {until:g} s"
                )
        return True

    def growing(before: Tables, after: Tables) -> object:
        column = claim.form.fence_column
        old = rows_of(before, spec.table, spec.key_columns)
        for key, row in rows_of(after, spec.table, spec.key_columns).items():
            was = text(old[key].get(column)) if key in old else None
            if was is not None and _shrinks(claim, was, text(row.get(column))):
                return f"the fence of {_name(key)} went from {was} to {row.get(column)}"
        return True

    def own(moment: Moment) -> object:
        taking = list(told(moment, claim, "claim"))
        seen: set[tuple[str, Any]] = set()
        for _, event in taking:
            if event.outcome == "claimed" and (fence := (str(event.key), _fence(event))) in seen:
                return f"two claims of {event.key!r} have the fence {fence[1]}"
            elif event.outcome == "claimed":
                seen.add(fence)
        return late_writers(
            moment, claim, ("claim", "renew"), ("renew", "release", "fail", "move"), _plain(claim)
        )

    at_each_step(world, f"P3: one holder for {claim}", alone)
    world.change(f"P4: the fence of {claim} grows", growing)
    world.always(f"P4, P5: the newest holder of {claim} alone can write", own)


def _plain(claim: Claimable[Any]) -> Callable[[Any], Any] | None:
    """How the fences of a claim are compared; None: only for being the same, so what counts is who was told last."""
    return order if isinstance(claim.form, Columns) else None


def _claimed_anew(claim: Claimable[Any], before: Row, after: Row, moment: Moment) -> bool:
    """Whether somebody has claimed the row in this step; a renewal, which only some forms can tell, does not count."""
    column = claim.form.fence_column
    fence = text(after.get(column))
    if fence is None or fence == text(before.get(column)):
        return False
    if isinstance(claim.form, Columns):
        return text(after.get(claim.form.holder)) is not None
    return any(
        event.outcome == "claimed" and text(_fence(event)) == fence
        for _, event in told(moment, claim, "claim")
    )


def _held_until(claim: Claimable[Any], row: Row) -> float | None:
    """When the holder's lease is over; None: nobody holds the row."""
    match claim.form:
        case Columns(holder=holder, until=until):
            return seconds(row.get(until)) if text(row.get(holder)) is not None else None
        case Timestamp(column=column):
            since = seconds(row.get(column))
        case Marker(column=column):
            marker = text(row.get(column)) or ""
            since = (
                seconds(float(marker.rpartition(":")[2])) if marker.startswith(claim.form.prefix) else None
            )
    return None if since is None else since + claim.lease


def _shrinks(claim: Claimable[Any], was: str, now: str | None) -> bool:
    """Whether a fence went down; only a number of its own outlives its claim."""
    return isinstance(claim.form, Columns) and (now is None or order(now) < order(was))


def _fence(event: Event) -> Any:
    answer: Any = event.answer
    return answer.fence


def late_writers(
    moment: Moment,
    declared: Any,
    taking: Sequence[str],
    writing: Sequence[str],
    compared: Callable[[Any], Any] | None,
) -> object:
    """P4, P5: who holds a row in an older turn than the newest that was given out is never told that it has won."""
    newest: dict[str, tuple[Any, str]] = {}
    mine: dict[tuple[str, str], tuple[Any, str | None]] = {}
    for place, (title, event) in enumerate(moment.told):
        answer: Any = event.answer
        if not event.settled or declared.lifecycle is not getattr(answer.move, "lifecycle", None):
            continue
        key = str(event.key)
        holds = mine.get((title, key))
        if event.operation in writing and answer.won and holds is not None and event.by == holds[1]:
            fence, winner = newest[key]
            if fence > holds[0] and winner != title and not _is_replayed(answer):
                return f"{title} was told {answer}, and {winner} had {event.key!r} since"
        fence = getattr(answer, "fence", None)
        if event.operation in (*taking, "mark") and answer.won and fence is not None:
            reached = place if compared is None else compared(fence)
            mine[title, key] = (reached, event.by)
            if key not in newest or newest[key][0] < reached:
                newest[key] = (reached, title)
    return True


def _is_replayed(answer: Any) -> bool:
    return bool(getattr(answer, "replayed", False))


# P6: effects in the same transaction


def writes_once(world: World, declared: Declared, status: str, table: str, column: str) -> None:
    """P6: for each row at `status`, and for no other, the table has exactly one entry that names it in `column`."""
    spec = spec_of(declared)

    def once(moment: Moment) -> object:
        written = [str(text(row.get(column))) for row in moment.rows(table)]
        for key, row in rows_of(moment.tables, spec.table, spec.key_columns).items():
            expected = int(str(row.get(spec.column)) == status)
            if written.count(key[-1]) != expected:
                return f"{_name(key)} is at {row.get(spec.column)}, and {table} names it {written.count(key[-1])} times"
        return True

    world.always(f"P6: {table} is written with {spec} {status}, once", once)


# P7: deliveries


def keeps_deliveries(world: World, delivery: Delivery, effect: Effect) -> None:
    """P7: a turn is taken only when nobody sends, in doubt only when nobody knows; held ones are sent once at most.

    The effect is called with the row's key, and with `intent=turn.intent`, which must be the same each time.
    """
    keys = delivery.key_columns

    def turns(before: Tables, after: Tables, moment: Moment) -> object:
        old = rows_of(before, delivery.table, keys)
        for key, row in rows_of(after, delivery.table, keys).items():
            turn = _turn_taken(delivery, old.get(key), row, moment)
            if turn is None:
                continue
            state = _state(delivery, old[key], moment.clock)
            if state in (DeliveryState.DELIVERED, DeliveryState.SENDING):
                return f"{turn}, and it was {state} before"
            if turn.in_doubt != (state is DeliveryState.UNCERTAIN):
                return f"{turn}, and it was {state} before: the doubt is {turn.in_doubt}"
            if turn.in_doubt and delivery.policy == "hold":
                return f"{turn}, and it is to be held for a person"
        return True

    def ended(before: Tables, after: Tables) -> object:
        old = rows_of(before, delivery.table, keys)
        for key, row in rows_of(after, delivery.table, keys).items():
            was = text(old[key].get(delivery.delivered)) if key in old else None
            if was is not None and text(row.get(delivery.delivered)) != was:
                return f"{_name(key)} was delivered at {was}, and now is not"
        return True

    def same_key(moment: Moment) -> object:
        intents: dict[str, str] = {}
        for title, event in told(moment, delivery, "deliver"):
            intent = getattr(event.answer, "intent", None)
            if intent is not None and intents.setdefault(str(event.key), intent) != intent:
                return f"{title} sends {event.key!r} with another idempotency key than the one before"
        for call in moment.calls(effect):
            intent = call.details.get("intent")
            if intent is not None and intents.setdefault(str(call.key), intent) != intent:
                return f"{call.by} has sent {call.key!r} with another idempotency key than the one before"
        return True

    def at_most_once(moment: Moment) -> object:
        sent: set[str] = set()
        for call in moment.calls(effect):
            if "intent" in call.details and str(call.key) in sent:
                return f"{call.by} has sent {call.key!r} a second time"
            sent.add(str(call.key))
        return True

    def not_sent(moment: Moment) -> object:
        for title, event in told(moment, delivery, "mark"):
            for call in moment.calls(effect):
                if event.outcome == "failed" and (call.by, call.key) == (title, event.key):
                    return f"{title} has sent {event.key!r}, and it is marked as surely not sent"
        return True

    at_each_step(world, f"P7: the turns of {delivery}", turns)
    world.always(f"P7, P14: what {delivery} has sent does not count as not sent", not_sent)
    world.change(f"P7: what {delivery} has delivered stays so", ended)
    world.always(f"P7: one idempotency key for each {delivery}", same_key)
    world.always(
        f"P5: the newest sender of {delivery} alone ends it",
        lambda moment: late_writers(moment, delivery, ("deliver",), ("mark",), None),
    )
    if delivery.policy == "hold":
        world.always(f"P7: {delivery} is held, so at most once", at_most_once)


def _turn_taken(delivery: Delivery, before: Row | None, after: Row, moment: Moment) -> Any:
    """The turn that was won in this step, if one was."""
    fence = text(after.get(delivery.delivering))
    if before is None or fence is None or fence == text(before.get(delivery.delivering)):
        return None
    found = None
    for _, event in told(moment, delivery, "deliver"):
        if event.outcome == "won" and order(_fence(event)) == order(after.get(delivery.delivering)):
            found = event.answer
    return found


def _state(delivery: Delivery, row: Row, clock: float) -> DeliveryState:
    """What a delivery is at; of the states that count as free, any one."""
    since = seconds(row.get(delivery.delivering))
    stale = since is not None and since + delivery.stale <= clock
    named = text(row.get(delivery.state)) if delivery.state else None
    if text(row.get(delivery.delivered)) is not None:
        return DeliveryState.DELIVERED
    if named == "uncertain" or (stale and named in (None, "sending")):
        return DeliveryState.UNCERTAIN
    if since is None or stale:
        return DeliveryState.READY
    return DeliveryState.SENDING


# P8: the inbox


def keeps_inbox(world: World, inbox: Inbox) -> None:
    """P8: what was answered is there, and the same event is new once and worked on along its moves."""
    keys = inbox.lifecycle.key_columns

    def durable(moment: Moment) -> object:
        rows = rows_of(moment.tables, inbox.table, keys)
        new: set[str] = set()
        for title, event in told(moment, inbox, "receive"):
            if tuple(event.key) not in rows:
                return f"{title} was told {event.answer}, and it is not there"
            if event.outcome == "received" and str(event.key) in new:
                return f"{title} was told a second time that {event.key!r} is new"
            if event.outcome == "received":
                new.add(str(event.key))
        return True

    world.always(f"P8: {inbox} keeps what it has answered, once", durable)
    keeps_moves(world, inbox.lifecycle)
    keeps_claims(world, inbox.work)


# P9: attempts


def keeps_attempts(world: World, attempts: Attempts) -> None:
    """P9: one open attempt for an owner; a new one ends only an open one, and none is begun twice."""
    spec = attempts.lifecycle
    still_open = {str(status) for status in attempts.open}

    def one_open(moment: Moment) -> object:
        owners: dict[str, tuple[str, ...]] = {}
        for key, row in rows_of(moment.tables, spec.table, spec.key_columns).items():
            owner = str(row.get(attempts.owner))
            if str(row.get(spec.column)) not in still_open or not _is_fresh(attempts, row, moment.clock):
                continue
            if owner in owners:
                return f"{owner} has two open attempts, {_name(owners[owner])} and {_name(key)}"
            owners[owner] = key
        return True

    def as_told(moment: Moment) -> object:
        begun: set[str] = set()
        rows = rows_of(moment.tables, spec.table, spec.key_columns)
        for title, event in told(moment, attempts, "start"):
            answer: Any = event.answer
            respected = event.outcome == "kept" or (event.outcome == "rejected" and answer.active is not None)
            if respected and str(answer.status) not in still_open:
                return f"{title} was told {answer}, which has ended"
            if event.outcome != "started" or answer.replayed:
                continue
            if str(answer.key) in begun:
                return f"{title} was told a second time that {answer.key!r} has begun"
            begun.add(str(answer.key))
            ended = rows.get((str(answer.superseded),))
            if ended is not None and str(ended.get(spec.column)) != str(attempts.supersede.target):
                return f"{title} was told {answer}, and that one is at {ended.get(spec.column)}"
        return True

    keeps_moves(world, spec)
    world.always(f"P9: one open attempt of {spec} for an owner", one_open)
    world.always(f"P9: {attempts} begins once, and ends an open one", as_told)


def _is_fresh(attempts: Attempts, row: Row, clock: float) -> bool:
    began = seconds(row.get(attempts.started)) if attempts.started else None
    return attempts.ttl is None or began is None or began + attempts.ttl > clock


# P10: leases


def keeps_lease(world: World, lease: Lease, *guarded: Move[Any] | Claimable[Any]) -> None:
    """P10: a lease changes hands only when it is over, each time with a newer epoch.

    `guarded` are moves and claims that are always called with the guard of a leader: no older epoch wins one.
    """

    def terms(before: Tables, after: Tables, moment: Moment) -> object:
        old = rows_of(before, lease.table, ("name",)).get((lease.name,))
        new = rows_of(after, lease.table, ("name",)).get((lease.name,))
        if old is None or new is None:
            return True
        was, now = number(old.get("epoch")) or 0, number(new.get("epoch")) or 0
        until = seconds(old.get("until"))
        if now < was:
            return f"the epoch went from {was} to {now}"
        if (text(old.get("since")), text(old.get("holder"))) == (
            text(new.get("since")),
            text(new.get("holder")),
        ):
            return True
        if now == was:
            return f"{new.get('holder')} took over in the epoch {was} of {old.get('holder')}"
        if until is not None and until > moment.clock:
            return f"{new.get('holder')} took over at {moment.clock:g} s, and {old.get('holder')} holds it until {until:g} s"
        return True

    def newest(moment: Moment) -> object:
        leads: dict[str, int] = {}
        highest, by = 0, ""
        for title, event in moment.told:
            answer: Any = event.answer
            if answer.move == lease and event.operation == "lead" and answer.won:
                if answer.epoch < highest:
                    return f"{title} was told {answer}, and {by} leads in epoch {highest}"
                if event.outcome == "took over" and answer.epoch == highest:
                    return f"{title} was told {answer}, which is the epoch of {by}"
                leads[title] = highest = answer.epoch
                by = title
            elif (
                event.settled
                and answer.move in guarded
                and answer.won
                and leads.get(title, highest) < highest
            ):
                return f"{title} was told {answer} in epoch {leads[title]}, and {by} leads in epoch {highest}"
        return True

    at_each_step(world, f"P10: the terms of {lease}", terms)
    world.always(f"P10: the newest epoch of {lease} alone can write", newest)


# P13: nothing stays stuck


def recovers(world: World, claim: Claimable[Any]) -> None:
    """P13: in the end no row is claimed or waiting; for scenarios whose processes work until nothing is left."""
    spec = claim.lifecycle

    def nothing_left(moment: Moment) -> object:
        for key, row in rows_of(moment.tables, spec.table, spec.key_columns).items():
            if str(row.get(spec.column)) in map(str, claim.open):
                return f"{_name(key)} is still at {row.get(spec.column)}"
        return True

    world.eventually(f"P13: all of {claim} is done", nothing_left)


def delivers(world: World, delivery: Delivery, effect: Effect) -> None:
    """P13 and P7: in the end everything was sent at least once, and is marked so; or it is held, and says so."""

    def all_sent(moment: Moment) -> object:
        sent = {str(call.key) for call in moment.calls(effect)}
        for key, row in rows_of(moment.tables, delivery.table, delivery.key_columns).items():
            state = _state(delivery, row, float("inf"))
            if state is DeliveryState.DELIVERED and key[-1] not in sent:
                return f"{_name(key)} is marked as delivered, and was never sent"
            held = delivery.policy == "hold" and state is DeliveryState.UNCERTAIN
            if state is not DeliveryState.DELIVERED and not held:
                return f"{_name(key)} is still {state}"
        return True

    world.eventually(f"P13: all of {delivery} is sent", all_sent)


def outcomes(moment: Moment, declared: object, outcome: str, *operations: str) -> bool:
    """Whether somebody was told this; for `world.sometimes`."""
    asked = operations or _OPERATIONS
    return any(event.outcome == outcome for _, event in told(moment, declared, *asked))


_OPERATIONS = (
    "move",
    "claim",
    "renew",
    "release",
    "fail",
    "deliver",
    "mark",
    "resolve",
    "start",
    "lead",
    "receive",
)


def _name(key: tuple[str, ...]) -> str:
    return repr(key[0]) if len(key) == 1 else repr(key)
