"""Every URL of the dashboard, who may ask for it, and what answers. There are no others."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import NamedTuple

from starlette.responses import Response

from raceproof.ops.web.here import Here
from raceproof.ops.web.pages import bulk, changing, doctor, items, ledger, lifecycles, overview, plain, sending, work


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
    view: Callable[[Here], Awaitable[Response]]


ROUTES = (
    Entry("GET", "/static/{file}", "static", Rule.OPEN, plain.static),
    Entry("POST", "/login", "login", Rule.OPEN, plain.login),
    Entry("POST", "/logout", "logout", Rule.OPEN, plain.logout),
    Entry("GET", "/live", "live", Rule.LOOK, plain.live),
    Entry("GET", "/", "overview", Rule.LOOK, overview.overview),
    Entry("GET", "/find", "find", Rule.LOOK, overview.find),
    Entry("GET", "/lifecycle", "lifecycle", Rule.LOOK, lifecycles.lifecycle),
    Entry("GET", "/item", "item", Rule.LOOK, items.item),
    Entry("GET", "/claims", "claims", Rule.LOOK, work.claims),
    Entry("GET", "/stuck", "stuck", Rule.LOOK, work.stuck),
    Entry("GET", "/delivery", "delivery", Rule.LOOK, sending.delivery),
    Entry("GET", "/attempts", "attempts", Rule.LOOK, sending.attempts),
    Entry("GET", "/leader", "leader", Rule.LOOK, sending.leader),
    Entry("GET", "/inbox", "inbox", Rule.LOOK, sending.inbox),
    Entry("GET", "/races", "races", Rule.LOOK, ledger.races),
    Entry("GET", "/audit", "audit", Rule.LOOK, ledger.audit),
    Entry("GET", "/doctor", "doctor", Rule.LOOK, doctor.doctor),
    Entry("GET", "/bulk", "bulk", Rule.LOOK, bulk.bulk),
    Entry("GET", "/bulk/{plan}", "plan", Rule.LOOK, bulk.plan),
    Entry("POST", "/do/move", "move", Rule.CHANGE, changing.move),
    Entry("POST", "/do/release", "release", Rule.CHANGE, changing.release),
    Entry("POST", "/do/resolve", "resolve", Rule.CHANGE, changing.resolve),
    Entry("POST", "/do/revive", "revive", Rule.CHANGE, changing.revive),
    Entry("POST", "/do/plan", "freeze", Rule.CHANGE, changing.plan),
    Entry("POST", "/do/apply", "apply", Rule.CHANGE, changing.apply),
)
