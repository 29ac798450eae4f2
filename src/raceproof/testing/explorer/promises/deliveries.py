"""P7: an effect is tried again only when nobody knows, with the same key; or never."""

from typing import Any

from raceproof.deliveries import Delivery, DeliveryState
from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.promises.claims import fence_told, late_writers
from raceproof.testing.explorer.promises.values import Row, at_each_step, named, order, rows_of, seconds, text, told
from raceproof.testing.explorer.world import Effect, Moment, World


def keeps_deliveries(world: World, delivery: Delivery, effect: Effect) -> None:
    """P7: a permit is given only while no one sends, and in doubt only if the outcome is unknown; `hold` sends at most once.

    The effect is called with the row's key and `idempotency_key=permit.idempotency_key`, which must never change.
    """
    keys = delivery.key_columns

    def permits(before: Tables, after: Tables, moment: Moment) -> object:
        old = rows_of(before, delivery.table, keys)
        for key, row in rows_of(after, delivery.table, keys).items():
            permit = _turn_taken(delivery, old.get(key), row, moment)
            if permit is None:
                continue
            state = _state(delivery, old[key], moment.clock)
            if state in (DeliveryState.DELIVERED, DeliveryState.SENDING):
                return f"{permit}, and it was {state} before"
            if permit.in_doubt != (state is DeliveryState.UNCERTAIN):
                return f"{permit}, and it was {state} before: the doubt is {permit.in_doubt}"
            if permit.in_doubt and delivery.policy == "hold":
                return f"{permit}, and it is to be held for a person"
        return True

    def ended(before: Tables, after: Tables) -> object:
        old = rows_of(before, delivery.table, keys)
        for key, row in rows_of(after, delivery.table, keys).items():
            was = text(old[key].get(delivery.delivered)) if key in old else None
            if was is not None and text(row.get(delivery.delivered)) != was:
                return f"{named(key)} was delivered at {was}, and now is not"
        return True

    def same_key(moment: Moment) -> object:
        intents: dict[str, str] = {}
        for title, event in told(moment, delivery, "deliver"):
            intent = getattr(event.answer, "idempotency_key", None)
            if intent is not None and intents.setdefault(str(event.key), intent) != intent:
                return f"{title} sends {event.key!r} with another idempotency key than the one before"
        for call in moment.calls(effect):
            intent = call.details.get("idempotency_key")
            if intent is not None and intents.setdefault(str(call.key), intent) != intent:
                return f"{call.by} has sent {call.key!r} with another idempotency key than the one before"
        return True

    def at_most_once(moment: Moment) -> object:
        sent: set[str] = set()
        for call in moment.calls(effect):
            if "idempotency_key" in call.details and str(call.key) in sent:
                return f"{call.by} has sent {call.key!r} a second time"
            sent.add(str(call.key))
        return True

    def not_sent(moment: Moment) -> object:
        for title, event in told(moment, delivery, "mark"):
            for call in moment.calls(effect):
                if event.outcome == "failed" and (call.by, call.key) == (title, event.key):
                    return f"{title} has sent {event.key!r}, and it is marked as surely not sent"
        return True

    at_each_step(world, f"P7: the turns of {delivery}", permits)
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
    last = list(told(moment, delivery, "deliver", "mark"))[-1:]
    for _, event in last:  # an older one with the same fence is of the same instant, and has ended
        won = event.operation == "deliver" and event.outcome == "won"
        if won and order(fence_told(event)) == order(after.get(delivery.delivering)):
            return event.answer
    return None


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


def delivers(world: World, delivery: Delivery, effect: Effect) -> None:
    """P13 and P7: in the end everything was sent at least once, and is marked so; or it is held, and says so."""

    def all_sent(moment: Moment) -> object:
        sent = {str(call.key) for call in moment.calls(effect)}
        for key, row in rows_of(moment.tables, delivery.table, delivery.key_columns).items():
            state = _state(delivery, row, float("inf"))
            if state is DeliveryState.DELIVERED and key[-1] not in sent:
                return f"{named(key)} is marked as delivered, and was never sent"
            held = delivery.policy == "hold" and state is DeliveryState.UNCERTAIN
            if state is not DeliveryState.DELIVERED and not held:
                return f"{named(key)} is still {state}"
        return True

    world.eventually(f"P13: all of {delivery} is sent", all_sent)
