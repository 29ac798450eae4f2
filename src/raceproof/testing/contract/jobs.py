"""The lifecycle for the contract of claims: jobs that start, finish, go back to the queue or are dead-lettered."""

from typing import Any

import pytest

from raceproof import Lifecycle
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Ground, fresh_name

FORMS: dict[str, dict[str, Any]] = {
    "columns": {"kind_of_form": "columns"},
    "timestamp": {"kind_of_form": "timestamp", "column": "started_at"},
    "marker": {"kind_of_form": "marker", "column": "error", "kind": "JOB"},
}
ALL_FORMS = pytest.mark.parametrize("form", FORMS)


def jobs(
    ground: Ground,
    form: str = "columns",
    history: bool = False,
    claim: dict[str, Any] | None = None,
    extra: dict[str, str] | None = None,
    **changes: Any,
) -> Spec[str]:
    """The lifecycle on a table of its own. `claim` changes the claim, `extra` adds columns, `changes` the declaration."""
    work = {
        "move": "start",
        "lease": 30,
        "form": FORMS[form],
        "order_by": ["made_at"],
        "attempts": "attempts",
        "max_attempts": 3,
        "not_before": "rests_until",
        "back": "requeue",
        "dead_letter": "give_up",
        **(claim or {}),
    }
    declared: dict[str, Any] = {
        "name": "Job",
        "table": fresh_name("jobs"),
        "key": "job_id",
        "statuses": ["QUEUED", "RUNNING", "CHECKED", "DONE", "DEAD"],
        "revision": "rev",
        "moves": {
            "start": {"from": ["QUEUED"], "to": "RUNNING"},
            "requeue": {"from": ["RUNNING"], "to": "QUEUED"},
            "check": {"from": ["RUNNING"], "to": "CHECKED", "sets": ["result"]},
            "finish": {"from": ["RUNNING", "CHECKED"], "to": "DONE", "sets": ["result"]},
            "give_up": {"from": ["QUEUED", "RUNNING"], "to": "DEAD"},
        },
        "claims": {"work": {name: value for name, value in work.items() if value is not None}},
        **changes,
    }
    if history:
        declared["history"] = fresh_name("history")
    spec = Lifecycle.from_dict(declared)
    ground.table(spec, {"made_at": "integer", "owner": "text", **(extra or {})})
    return spec


async def put(ground: Ground, spec: Spec[str], *keys: str, status: str = "QUEUED", **columns: Any) -> None:
    """Insert rows one after the other, and offer them."""
    for number, key in enumerate(keys):
        ground.put(spec, key, status, **{"made_at": number, **columns})
    await ground.db.offer(spec.claims["work"], keys)
