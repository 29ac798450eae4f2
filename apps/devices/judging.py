"""What must hold after a storm, told from the tables and from what the simulated nodes have counted."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database
from appkit.storm import Report, percentile
from devices.lifecycle import Command, Status
from devices.simulator import Simulator
from devices.tables import commands, doubts, evidence, history


async def judge(
    report: Report, opened: Database, simulator: Simulator, submitted: dict[str, tuple[str, str]], ended: bool
) -> None:
    """Count, and check."""
    executed = simulator.executed
    async with opened.read() as connection:
        by_status: dict[str, int] = dict(
            (
                await connection.execute(select(commands.c.status, func.count()).group_by(commands.c.status))
            ).all()
        )
        kept = (await connection.execute(select(func.count()).select_from(commands))).scalar_one()
        uncertain = set((await connection.execute(select(doubts.c.cmd_id))).scalars())
        late = set(
            (
                await connection.execute(
                    select(evidence.c.cmd_id)
                    .join(commands, commands.c.cmd_id == evidence.c.cmd_id)
                    .where(evidence.c.status != "ACK", commands.c.status == Status.TIMEOUT)
                )
            ).scalars()
        )
        publishes = dict(
            (
                await connection.execute(
                    select(commands.c.cmd_id, commands.c.publishes).where(commands.c.publishes > 1)
                )
            ).all()
        )
        against = await _against_the_guards(connection)
        latencies = await submit_to_sent(connection)
        done = set(
            (
                await connection.execute(select(commands.c.cmd_id).where(commands.c.status == Status.DONE))
            ).scalars()
        )
    report.counts |= {f"ended at {status}": count for status, count in sorted(by_status.items())}
    report.counts["uncertain at some time"] = len(uncertain)
    report.counts["ended at TIMEOUT, and the node's end came later"] = len(late)
    report.counts["commands executed by nodes"] = len(executed)
    report.counts["p50 from submit to SENT"] = f"{percentile(latencies, 0.5):.3f} s"
    report.counts["p99 from submit to SENT"] = f"{percentile(latencies, 0.99):.3f} s"
    twice = {cmd_id for cmd_id, times in executed.items() if times > 1}
    report.counts["executed twice, and reported as uncertain"] = len(twice & uncertain)
    report.check(
        "every command that was accepted is kept, once", kept == len(submitted), f"{kept} of {len(submitted)}"
    )
    report.check("every command ends", ended, f"{sum(by_status.values())} commands")
    report.check("no status moved against the guards", not against, ", ".join(against[:5]))
    report.check(
        "no node executed a command twice outside of what is reported as uncertain",
        not twice - uncertain,
        ", ".join(sorted(twice - uncertain)[:5]),
    )
    again = {cmd_id for cmd_id in publishes if cmd_id not in uncertain}
    report.check(
        "nothing was published again unless the last try failed or was uncertain",
        *await _failed(opened, again),
    )
    report.check(
        "what is DONE was executed", done <= set(executed), ", ".join(sorted(done - set(executed))[:5])
    )


async def _failed(opened: Database, again: set[str]) -> tuple[bool, str]:
    """Of commands with several tries and no doubt, each has a failed try in its history."""
    if not again:
        return True, ""
    async with opened.read() as connection:
        failed = set(
            (
                await connection.execute(
                    select(history.c.key).where(
                        history.c.move == Command.send_failed.name, history.c.outcome == "moved"
                    )
                )
            ).scalars()
        )
    return again <= failed, ", ".join(sorted(again - failed)[:5])


async def _against_the_guards(connection: AsyncConnection) -> list[str]:
    """Moves in the history that no declaration has, or that do not follow on each other."""
    allowed = {
        (move.name, str(source), str(move.target))
        for move in Command.spec.moves.values()
        for source in move.sources
    }
    rows = await connection.execute(
        select(history.c.key, history.c.move, history.c.before, history.c.after)
        .where(history.c.lifecycle == "Command", history.c.outcome == "moved")
        .order_by(history.c.key, history.c.id)
    )
    wrong = []
    last: dict[str, str] = {}
    for key, move, before, after in rows:
        if (move, before, after) not in allowed or last.get(key, Status.QUEUED) != before:
            wrong.append(f"{key}: {move} from {before} to {after}")
        last[key] = after
    return wrong


async def submit_to_sent(connection: AsyncConnection) -> list[float]:
    """Seconds that each command took until the broker had it."""
    rows = await connection.execute(
        select(commands.c.made_at, commands.c.published_at).where(commands.c.published_at.is_not(None))
    )
    return [(published - made).total_seconds() for made, published in rows]
