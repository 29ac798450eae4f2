"""Every URL of the dashboard, who may ask for it, and what answers. There are no others."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import NamedTuple

from starlette.responses import Response

from raceproof.ops.web.pages import (
    assets,
    bulk,
    changes,
    doctor,
    items,
    ledger,
    lifecycles,
    overview,
    primitives,
    stuck,
)
from raceproof.ops.web.visit import Visit


class Rule(Enum):
    """Who may ask."""

    OPEN = "anyone"
    """Style sheets, and the door: asking for the token, and leaving."""
    LOOK = "whoever may look"
    CHANGE = "whoever may change"


class Entry(NamedTuple):
    """One URL."""

    method: str
    path: str
    name: str
    rule: Rule
    view: Callable[[Visit], Awaitable[Response]]


ROUTES = (
    Entry("GET", "/static/{file}", "static", Rule.OPEN, assets.static),
    Entry("POST", "/login", "login", Rule.OPEN, assets.login),
    Entry("POST", "/logout", "logout", Rule.OPEN, assets.logout),
    Entry("GET", "/live", "live", Rule.LOOK, assets.live),
    Entry("GET", "/", "overview", Rule.LOOK, overview.overview),
    Entry("GET", "/find", "find", Rule.LOOK, overview.find),
    Entry("GET", "/lifecycle", "lifecycle", Rule.LOOK, lifecycles.lifecycle),
    Entry("GET", "/item", "item", Rule.LOOK, items.item),
    Entry("GET", "/claims", "claims", Rule.LOOK, stuck.claims),
    Entry("GET", "/stuck", "stuck", Rule.LOOK, stuck.stuck),
    Entry("GET", "/delivery", "delivery", Rule.LOOK, primitives.delivery),
    Entry("GET", "/attempts", "attempts", Rule.LOOK, primitives.attempts),
    Entry("GET", "/leader", "leader", Rule.LOOK, primitives.leader),
    Entry("GET", "/inbox", "inbox", Rule.LOOK, primitives.inbox),
    Entry("GET", "/races", "races", Rule.LOOK, ledger.races),
    Entry("GET", "/audit", "audit", Rule.LOOK, ledger.audit),
    Entry("GET", "/doctor", "doctor", Rule.LOOK, doctor.doctor),
    Entry("GET", "/bulk", "bulk", Rule.LOOK, bulk.bulk),
    Entry("GET", "/bulk/{plan}", "plan", Rule.LOOK, bulk.plan),
    Entry("POST", "/do/move", "move", Rule.CHANGE, changes.move),
    Entry("POST", "/do/release", "release", Rule.CHANGE, changes.release),
    Entry("POST", "/do/resolve", "resolve", Rule.CHANGE, changes.resolve),
    Entry("POST", "/do/revive", "revive", Rule.CHANGE, changes.revive),
    Entry("POST", "/do/plan", "freeze", Rule.CHANGE, changes.plan),
    Entry("POST", "/do/apply", "apply", Rule.CHANGE, changes.apply),
)
