"""The changes that a person may make: each through the library's own primitives, with a reason, and a line in the audit.

Promise: the line is written before the change; a change that lost its race says so and has changed nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from raceproof.claims.answers import Claim
from raceproof.declare.spec import Spec
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import is_of_tenant
from raceproof.ops.web.bulk import MOST_ROWS, Plan, freeze
from raceproof.ops.web.bulk import apply as apply_plan
from raceproof.ops.web.filters import key_text, problem
from raceproof.ops.web.forms import one
from raceproof.ops.web.queries.rows import page as page_of
from raceproof.ops.web.queries.statements import typed, user_key
from raceproof.ops.web.visit import Here
from raceproof.store import AsyncStore

_SHORTEST_REASON = 3
_LONGEST_REASON = 500
Answered = tuple[str, str]
"""What came of it in a word, and in a sentence."""


async def move(here: Here) -> Response:
    """Take a row along a legal move."""
    spec, parts = _row(here)
    name = one(here.form, "move")
    if name not in spec.moves:
        raise HTTPException(400, f"{spec} has no such move")
    chosen = spec.moves[name]
    columns = {column: value for column in chosen.sets if (value := one(here.form, f"set:{column}"))}

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        answer = await _of(store, spec, key).move(
            chosen, user_key(spec, key), set=columns or None, by=here.access.actor, reason=reason
        )
        return answer.outcome, str(answer)

    outcome, told = await _audited(here, f"move {name}", spec.name, spec, parts, do)
    return here.done(here.item(spec, parts), outcome, told)


async def release(here: Here) -> Response:
    """Take a row out of a hand; what that hand writes later is refused."""
    claim = here.catalog.claims.get(one(here.form, "claim"))
    if claim is None:
        raise HTTPException(400, "there is no such claim")
    spec, seen = claim.lifecycle, one(here.form, "fence")
    parts = tuple(here.form.get("key", ()))

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        mine = _of(store, spec, key)
        row = await mine.read(spec, user_key(spec, key)) or {}
        fence = row.get(claim.form.fence_column)
        if str(fence) != seen:
            return "lost", "it was claimed anew or given back meanwhile; nothing was changed"
        tenant = key[0] if spec.tenant else None
        held: Claim[Any, Any] = Claim(
            user_key(spec, key), claim, fence, here.access.actor, 1, claim.held[0], 0.0, None, tenant
        )
        (answer,) = await mine.release(held, reason=reason)
        return answer.outcome, str(answer)

    outcome, told = await _audited(here, "release", str(claim), spec, parts, do)
    if one(here.form, "back") == "item":
        return here.done(here.item(spec, parts), outcome, told)
    return here.done(here.url("/claims"), outcome, told)


async def resolve(here: Here) -> Response:
    """Somebody has looked: an uncertain delivery arrived, or it did not."""
    delivery = here.catalog.deliveries.get(one(here.form, "delivery"))
    if delivery is None or one(here.form, "arrived") not in ("yes", "no"):
        raise HTTPException(400, "say which delivery, and whether it arrived")
    arrived = one(here.form, "arrived") == "yes"
    parts = tuple(here.form.get("key", ()))
    columns, tenant = delivery.key_columns, delivery.tenant

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        own = key[1:] if tenant else key
        mine = store.for_tenant(key[0]) if tenant else store
        wanted = own if len(own) > 1 else own[0]
        answer = await mine.resolve(delivery, wanted, arrived=arrived, by=here.access.actor)
        return answer.outcome, str(answer)

    action = "resolve: arrived" if arrived else "resolve: not arrived"
    outcome, told = await _audited(here, action, delivery.name, (delivery.table, columns, tenant), parts, do)
    return here.done(here.url("/delivery"), outcome, told)


async def revive(here: Here) -> Response:
    """Let a dead event be tried again, with all its attempts."""
    box = here.catalog.inboxes.get(one(here.form, "inbox"))
    if box is None:
        raise HTTPException(400, "there is no such inbox")
    spec = box.lifecycle
    parts = tuple(here.form.get("key", ()))

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        answer = await store.move(spec.moves["revive"], key, set={"attempts": 0}, by=here.access.actor, reason=reason)
        if answer.won:
            await store.offer(box.work, [key])
        return answer.outcome, str(answer)

    outcome, told = await _audited(here, "revive", str(box), spec, parts, do)
    return here.done(here.url("/inbox"), outcome, told)


async def plan(here: Here) -> Response:
    """Freeze a plan: which rows, as they are now. Nothing is written but the audit's line when it is applied."""
    spec = here.lifecycle(one(here.form, "of"))
    name = one(here.form, "move")
    if name not in spec.moves:
        raise HTTPException(400, f"{spec} has no such move")
    reason = _reason(here)
    chosen = spec.moves[name]
    columns = {column: value for column in chosen.sets if (value := one(here.form, f"set:{column}"))}
    store = await here.board.source.store()
    keys = await _planned_keys(here, spec)
    if not keys:
        raise HTTPException(400, "no rows: give keys, one on a line, or a status that some rows have")
    found = await freeze(store, here.catalog.name_of(spec), chosen, keys, here.access.actor, reason, columns)
    here.board.plans.keep(found)
    return here.back(here.url(f"/bulk/{found.id}"))


async def _planned_keys(here: Here, spec: Spec[Any]) -> list[tuple[Any, ...]]:
    lines = [line.strip() for line in one(here.form, "keys").splitlines() if line.strip()]
    status = one(here.form, "status")
    if not lines and status:
        told = await here.ask(page_of, spec, status, None)
        return [row.parts for row in told.value.rows][:MOST_ROWS] if told.value else []

    def read(store: AsyncStore) -> Program[list[tuple[Any, ...]]]:
        found = []
        for line in lines[: MOST_ROWS + 1]:
            parts = [part.strip() for part in line.split(",", len(spec.key_columns) - 1)]
            try:
                key = yield from typed(store, spec.table, spec.key_columns, parts)
            except ValueError:
                raise HTTPException(400, f"{line[:80]!r} is no key of {spec}") from None
            _check_tenant(store, spec.tenant, key)
            found.append(key)
        return found

    return await here.board.source.run(read)


async def apply(here: Here) -> Response:
    """Apply a plan, once."""
    found = here.board.plans.find(one(here.form, "plan"))
    if found is None or found.actor != here.access.actor:
        raise HTTPException(404, "there is no such plan, or it is too old; make it again")
    if found.applying:
        raise HTTPException(409, "this plan was applied already")
    found.applying = True
    try:
        await _apply(here, found)
    except HTTPException:
        found.applying = found.done
        raise
    return here.back(here.url(f"/bulk/{found.id}"))


async def _apply(here: Here, found: Plan) -> None:
    await _need_audit(here)
    book = here.board.audit
    line = await book.ask(
        found.actor,
        f"bulk {found.move.name}",
        found.lifecycle,
        f"{len(found.possible)} rows",
        found.reason,
        found.tenant,
    )
    await apply_plan(await here.board.source.store(), found)
    here.board.source.forget()
    told = ", ".join(f"{number} {outcome}" for outcome, number in found.summary.items())
    await book.tell(line, "done", told)


def _row(here: Here) -> tuple[Spec[Any], tuple[str, ...]]:
    return here.lifecycle(one(here.form, "of")), tuple(here.form.get("key", ()))


def _reason(here: Here) -> str:
    reason = " ".join(one(here.form, "reason").split())[:_LONGEST_REASON]
    if len(reason) < _SHORTEST_REASON:
        raise HTTPException(400, "say why: the reason is kept with the change")
    return reason


async def _need_audit(here: Here) -> None:
    if await here.board.audit.missing():
        raise HTTPException(
            503,
            f"nothing is changed without an audit, and table {here.board.audit.table} does not exist or has no tenant "
            "column; the Audit page has the SQL",
        )


async def _audited(
    here: Here,
    action: str,
    target: str,
    of: Spec[Any] | tuple[str, tuple[str, ...], str | None],
    parts: tuple[str, ...],
    do: Callable[[AsyncStore, tuple[Any, ...], str], Awaitable[Answered]],
) -> Answered:
    """The way of every change of one row: a reason, a line, the change, and what came of it."""
    reason = _reason(here)
    table, columns, tenant = (of.table, of.key_columns, of.tenant) if isinstance(of, Spec) else of
    source, book = here.board.source, here.board.audit

    def read(store: AsyncStore) -> Program[tuple[Any, ...]]:
        key = yield from typed(store, table, columns, parts)
        _check_tenant(store, tenant, key)
        return key

    try:
        key = await source.run(read)
    except ValueError as error:
        raise HTTPException(404, "there is no row with this key") from error
    await _need_audit(here)
    whose = key[0] if tenant else None
    line = await book.ask(here.access.actor, action, target, key_text(parts)[:500], reason, whose)
    try:
        outcome, told = await do(await source.store(), key, reason)
    except Exception as error:
        outcome, told = "error", problem(error)
    here.board.source.forget()
    await book.tell(line, outcome, told)
    return outcome, told


def _check_tenant(store: AsyncStore, tenant: str | None, key: tuple[Any, ...]) -> None:
    if not is_of_tenant(tenant, key, store.tenant):
        raise HTTPException(404, "there is no row with this key")


def _of(store: AsyncStore, spec: Spec[Any], key: tuple[Any, ...]) -> AsyncStore:
    return store.for_tenant(key[0]) if spec.tenant else store
