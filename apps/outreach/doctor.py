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
from outreach.tables import discovery_stages
from raceproof.ops.verify import verify


async def examine(service: Service, output: str, fix: bool) -> int:
    """Print what was found; exit code 6 if there are problems."""
    findings = [one async for one in _findings(service, fix)]
    kit.show(findings, output, ["check", "result", "evidence", "repair"])
    return kit.PROBLEMS if any(one["result"] == "problem" for one in findings) else kit.OK


async def _findings(service: Service, fix: bool) -> AsyncIterator[dict[str, str]]:
    store = service.database.store
    claiming, stages = service.claiming, service.claiming.stages
    told = f"{service.database.dialect}, claims in {claiming.form}, stale after {claiming.stale:g} s"
    yield _fine("database", told + (", an adopted table" if claiming.adopted else ""))
    if service.lacks.complete:
        yield _fine("schema", "complete")
    else:
        yield _problem("schema", str(service.lacks), "outreach migrate")
    if service.facts.simulated:
        yield _fine("answers", "invented: made by `serve --simulate`")
    if claiming.form is Form.COLUMNS:
        lifecycles = [stage.lifecycle for stage in STAGES.values()]
        for lifecycle in (*lifecycles, Review.spec, StageSwitch.spec):
            for found in await verify(store, lifecycle):
                if found.level != "ok":
                    yield _problem("declaration", str(found), "outreach migrate")
    if fix:
        freed = [await the_note.cleanup_stale_locks(stage) for stage in stages.values()]
        yield _fine("freed", f"{sum(freed)} locks")
    stuck = await stuck_locks(service.database, service.claiming)
    if stuck:
        yield _problem("stuck locks", f"{len(stuck)}, as of discovery {stuck[0].discovery}", "outreach cleanup")
    else:
        yield _fine("stuck locks", "none")
    async with service.database.read() as connection:
        for stage in STAGES.values():
            failed = select(func.count()).where(discovery_stages.c[stage.status] == "failed")
            number = (await connection.execute(failed)).scalar_one()
            check = f"dead-lettered by {stage.name}"
            repair = f"outreach discoveries --failed, then outreach retry {stage.name} ID… or --all"
            yield _problem(check, str(number), repair) if number else _fine(check, "none")
    for one in (await overview(service.database))["stages"]:
        if one["paused"]:
            until = f", until {one['until']:%Y-%m-%d %H:%M:%S} UTC" if one["until"] else ""
            yield _problem(
                f"{one['stage']} is paused",
                f"{one['changed_by']}: {one['reason']}{until}",
                f"outreach resume {one['stage']}" + (", or wait" if until else ""),
            )


def _fine(check: str, evidence: str) -> dict[str, str]:
    return {"check": check, "result": "ok", "evidence": evidence, "repair": ""}


def _problem(check: str, evidence: str, repair: str) -> dict[str, str]:
    return {"check": check, "result": "problem", "evidence": evidence, "repair": repair}
