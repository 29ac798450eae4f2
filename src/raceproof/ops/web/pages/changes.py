"""The changes a visitor can make: each through the library's primitives, with a reason and a line in the audit.

Promise: the line is written before the change; a change that loses its race says so and writes nothing.
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
from raceproof.ops.web.visit import Visit
from raceproof.store import AsyncStore

_SHORTEST_REASON = 3
_LONGEST_REASON = 500
Answered = tuple[str, str]
"""The outcome as a word, and as a sentence."""


async def move(visit: Visit) -> Response:
    """Move a row along a legal move."""
    spec, parts = _row(visit)
    name = one(visit.form, "move")
    if name not in spec.moves:
        raise HTTPException(400, f"{spec} has no move {name!r}")
    chosen = spec.moves[name]
    columns = {column: value for column in chosen.sets if (value := one(visit.form, f"set:{column}"))}

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        answer = await _of(store, spec, key).move(
            chosen, user_key(spec, key), set=columns or None, by=visit.access.actor, reason=reason
        )
        return answer.outcome, str(answer)

    outcome, text = await _audited(visit, f"move {name}", spec.name, spec, parts, do)
    return visit.done(visit.item(spec, parts), outcome, text)


async def release(visit: Visit) -> Response:
    """Release a row; later writes of its holder are refused."""
    claim = visit.catalog.claims.get(one(visit.form, "claim"))
    if claim is None:
        raise HTTPException(400, "no such claim")
    spec, seen = claim.lifecycle, one(visit.form, "fence")
    parts = tuple(visit.form.get("key", ()))

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        mine = _of(store, spec, key)
        row = await mine.read(spec, user_key(spec, key)) or {}
        fence = row.get(claim.form.fence_column)
        if str(fence) != seen:
            return "lost", "it was claimed again or released in the meantime; nothing was changed"
        tenant = key[0] if spec.tenant else None
        held: Claim[Any, Any] = Claim(
            user_key(spec, key), claim, fence, visit.access.actor, 1, claim.held[0], 0.0, None, tenant
        )
        (answer,) = await mine.release(held, reason=reason)
        return answer.outcome, str(answer)

    outcome, text = await _audited(visit, "release", str(claim), spec, parts, do)
    if one(visit.form, "back") == "item":
        return visit.done(visit.item(spec, parts), outcome, text)
    return visit.done(visit.url("/claims"), outcome, text)


async def resolve(visit: Visit) -> Response:
    """Record whether an uncertain delivery arrived."""
    delivery = visit.catalog.deliveries.get(one(visit.form, "delivery"))
    if delivery is None or one(visit.form, "arrived") not in ("yes", "no"):
        raise HTTPException(400, "delivery= and arrived=yes or no are required")
    arrived = one(visit.form, "arrived") == "yes"
    parts = tuple(visit.form.get("key", ()))
    columns, tenant = delivery.key_columns, delivery.tenant

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        own = key[1:] if tenant else key
        mine = store.for_tenant(key[0]) if tenant else store
        wanted = own if len(own) > 1 else own[0]
        answer = await mine.resolve(delivery, wanted, arrived=arrived, by=visit.access.actor)
        return answer.outcome, str(answer)

    action = "resolve: arrived" if arrived else "resolve: not arrived"
    outcome, text = await _audited(visit, action, delivery.name, (delivery.table, columns, tenant), parts, do)
    return visit.done(visit.url("/delivery"), outcome, text)


async def revive(visit: Visit) -> Response:
    """Let a dead event be processed again, with all its attempts."""
    box = visit.catalog.inboxes.get(one(visit.form, "inbox"))
    if box is None:
        raise HTTPException(400, "no such inbox")
    spec = box.lifecycle
    parts = tuple(visit.form.get("key", ()))

    async def do(store: AsyncStore, key: tuple[Any, ...], reason: str) -> Answered:
        answer = await store.move(spec.moves["revive"], key, set={"attempts": 0}, by=visit.access.actor, reason=reason)
        if answer.won:
            await store.offer(box.work, [key])
        return answer.outcome, str(answer)

    outcome, text = await _audited(visit, "revive", str(box), spec, parts, do)
    return visit.done(visit.url("/inbox"), outcome, text)


async def plan(visit: Visit) -> Response:
    """Freeze a plan: which rows, as they are now. Nothing is written but the audit's line when it is applied."""
    spec = visit.lifecycle(one(visit.form, "of"))
    name = one(visit.form, "move")
    if name not in spec.moves:
        raise HTTPException(400, f"{spec} has no move {name!r}")
    reason = _reason(visit)
    chosen = spec.moves[name]
    columns = {column: value for column in chosen.sets if (value := one(visit.form, f"set:{column}"))}
    store = await visit.board.source.store()
    keys = await _planned_keys(visit, spec)
    if not keys:
        raise HTTPException(400, "no rows: enter keys, one per line, or choose a status that some rows have")
    found = await freeze(store, visit.catalog.name_of(spec), chosen, keys, visit.access.actor, reason, columns)
    visit.board.plans.keep(found)
    return visit.back(visit.url(f"/bulk/{found.id}"))


async def _planned_keys(visit: Visit, spec: Spec[Any]) -> list[tuple[Any, ...]]:
    lines = [line.strip() for line in one(visit.form, "keys").splitlines() if line.strip()]
    status = one(visit.form, "status")
    if not lines and status:
        reply = await visit.ask(page_of, spec, status, None)
        return [row.parts for row in reply.value.rows][:MOST_ROWS] if reply.value else []

    def read(store: AsyncStore) -> Program[list[tuple[Any, ...]]]:
        found = []
        for line in lines[: MOST_ROWS + 1]:
            parts = [part.strip() for part in line.split(",", len(spec.key_columns) - 1)]
            try:
                key = yield from typed(store, spec.table, spec.key_columns, parts)
            except ValueError:
                raise HTTPException(400, f"{line[:80]!r} is not a key of {spec}") from None
            _check_tenant(store, spec.tenant, key)
            found.append(key)
        return found

    return await visit.board.source.run(read)


async def apply(visit: Visit) -> Response:
    """Apply a plan, once."""
    found = visit.board.plans.find(one(visit.form, "plan"))
    if found is None or found.actor != visit.access.actor:
        raise HTTPException(404, "no such plan, or it has expired: freeze it again")
    if found.applying:
        raise HTTPException(409, "this plan has been applied already")
    found.applying = True
    try:
        await _apply(visit, found)
    except HTTPException:
        found.applying = found.done
        raise
    return visit.back(visit.url(f"/bulk/{found.id}"))


async def _apply(visit: Visit, found: Plan) -> None:
    await _need_audit(visit)
    book = visit.board.audit
    line = await book.ask(
        found.actor,
        f"bulk {found.move.name}",
        found.lifecycle,
        f"{len(found.possible)} rows",
        found.reason,
        found.tenant,
    )
    await apply_plan(await visit.board.source.store(), found)
    visit.board.source.forget()
    text = ", ".join(f"{number} {outcome}" for outcome, number in found.summary.items())
    await book.tell(line, "done", text)


def _row(visit: Visit) -> tuple[Spec[Any], tuple[str, ...]]:
    return visit.lifecycle(one(visit.form, "of")), tuple(visit.form.get("key", ()))


def _reason(visit: Visit) -> str:
    reason = " ".join(one(visit.form, "reason").split())[:_LONGEST_REASON]
    if len(reason) < _SHORTEST_REASON:
        raise HTTPException(400, f"a reason of at least {_SHORTEST_REASON} characters is required")
    return reason


async def _need_audit(visit: Visit) -> None:
    if await visit.board.audit.missing():
        raise HTTPException(
            503,
            f"changes require an audit, and table {visit.board.audit.table} does not exist or lacks its tenant column; the "
            "Audit page has the SQL",
        )


async def _audited(
    visit: Visit,
    action: str,
    target: str,
    of: Spec[Any] | tuple[str, tuple[str, ...], str | None],
    parts: tuple[str, ...],
    do: Callable[[AsyncStore, tuple[Any, ...], str], Awaitable[Answered]],
) -> Answered:
    """Every change of one row: require a reason, record it, make the change, record its outcome."""
    reason = _reason(visit)
    table, columns, tenant = (of.table, of.key_columns, of.tenant) if isinstance(of, Spec) else of
    source, book = visit.board.source, visit.board.audit

    def read(store: AsyncStore) -> Program[tuple[Any, ...]]:
        key = yield from typed(store, table, columns, parts)
        _check_tenant(store, tenant, key)
        return key

    try:
        key = await source.run(read)
    except ValueError as error:
        raise HTTPException(404, "no row has this key") from error
    await _need_audit(visit)
    whose = key[0] if tenant else None
    line = await book.ask(visit.access.actor, action, target, key_text(parts)[:500], reason, whose)
    try:
        outcome, text = await do(await source.store(), key, reason)
    except Exception as error:
        outcome, text = "error", problem(error)
    visit.board.source.forget()
    await book.tell(line, outcome, text)
    return outcome, text


def _check_tenant(store: AsyncStore, tenant: str | None, key: tuple[Any, ...]) -> None:
    if not is_of_tenant(tenant, key, store.tenant):
        raise HTTPException(404, "no row has this key")


def _of(store: AsyncStore, spec: Spec[Any], key: tuple[Any, ...]) -> AsyncStore:
    return store.for_tenant(key[0]) if spec.tenant else store
