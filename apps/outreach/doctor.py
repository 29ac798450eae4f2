"""What is wrong, with the evidence and what to do about it."""

from collections.abc import AsyncIterator

from sqlalchemy import func, select

from appkit import commands as kit
from outreach import campaign_media_discoveries as the_note
from outreach.forms import Form
from outreach.lifecycle import Review, StageSwitch
from outreach.monitoring import stuck_locks
from outreach.reading import overview
from outreach.service import Service
from outreach.stages import STAGES
from outreach.tables import discoveries


async def examine(service: Service, output: str, fix: bool) -> int:
    """Print what was found; exit code 6 if there are problems."""
    findings = [one async for one in _findings(service, fix)]
    kit.show(findings, output, ["check", "result", "evidence", "repair"])
    return kit.PROBLEMS if any(one["result"] == "problem" for one in findings) else kit.OK


async def _findings(service: Service, fix: bool) -> AsyncIterator[dict[str, str]]:
    store = service.database.store
    yield _fine("database", f"{service.database.dialect}, claims in {service.claiming.form}")
    if service.claiming.form is Form.COLUMNS:
        lifecycles = [stage.lifecycle for stage in STAGES.values()]
        for lifecycle in (*lifecycles, Review.spec, StageSwitch.spec):
            for found in await store.verify(lifecycle):
                if found.level == "ok":
                    continue
                yield _problem(
                    "declaration", str(found), "start `outreach` once more: it installs what is missing"
                )
    if fix:
        freed = [await the_note.cleanup_stale_locks(stage) for stage in STAGES.values()]
        yield _fine("freed", f"{sum(freed)} locks")
    stuck = await stuck_locks(service.database, service.claiming)
    if stuck:
        yield _problem(
            "stuck locks", f"{len(stuck)}, as of discovery {stuck[0].discovery}", "outreach cleanup"
        )
    else:
        yield _fine("stuck locks", "none")
    async with service.database.read() as connection:
        for stage in STAGES.values():
            failed = select(func.count()).where(discoveries.c[stage.status] == "failed")
            number = (await connection.execute(failed)).scalar_one()
            check = f"set aside by {stage.name}"
            repair = f"outreach discoveries --failed, then outreach retry {stage.name} ID…"
            yield _problem(check, str(number), repair) if number else _fine(check, "none")
    for one in (await overview(service.database))["stages"]:
        if one["paused"]:
            yield _problem(
                f"{one['stage']} is paused",
                f"{one['changed_by']}: {one['reason']}",
                f"outreach resume {one['stage']}",
            )


def _fine(check: str, evidence: str) -> dict[str, str]:
    return {"check": check, "result": "ok", "evidence": evidence, "repair": ""}


def _problem(check: str, evidence: str, repair: str) -> dict[str, str]:
    return {"check": check, "result": "problem", "evidence": evidence, "repair": repair}
