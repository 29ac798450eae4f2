"""The dashboard: an ASGI application that shows what races over your rows, live, on any store. `raceproof web` serves it.

    from raceproof.ops.web import Access, Link, dashboard

    app = dashboard(store, Order, invoices, lease, title="shop")            # anyone on this machine may look
    outer.mount("/raceproof", app)                                          # any ASGI application, any prefix

Promise: it reads with bounded statements, asks for nothing off the machine, and changes nothing unless `authorize` says
that this person may; then through the library's own moves, each with an actor, a reason and a line in the audit.
"""

from raceproof.ops.web.access import Access, Authorize
from raceproof.ops.web.app import Dashboard, dashboard
from raceproof.ops.web.audit import audit_ddl
from raceproof.ops.web.links import Link

__all__ = ["Access", "Authorize", "Dashboard", "Link", "audit_ddl", "dashboard"]
