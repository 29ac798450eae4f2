"""The judge of the storm: what the log of the nodes does not contain is neither an error of the judge nor an excuse."""

from typing import Any

from appkit.storm import Report
from devices.judging import Asked, Happened, _check_nodes
from devices.simulator import Entry


def judged(happened: Happened, log: list[Entry], **rows: dict[str, Any]) -> dict[str, bool]:
    moves = [
        {"key": key, "move": "send_failed", "at": "2026-11-19 00:00:00.000"}
        for key, row in rows.items()
        if row["status"] == "SEND_FAILED"
    ]
    report = Report("devices")
    _check_nodes(report, happened, rows, set(), set(), moves, log)
    return {one.name: one.holds for one in report.checks}


def test_a_stop_that_never_arrived_is_judged_by_what_arrived() -> None:
    """Its send failed: no node has heard of it, so nothing can have come after it."""
    happened = Happened(submitted={"stop": Asked("node-1", "1", True, 1.0, 1.1)})
    assert judged(happened, [], stop={"status": "SEND_FAILED", "publishes": 1})["stop-clears"]


def test_a_doubtful_command_that_is_done_must_have_been_executed() -> None:
    """To look for a second execution of it is not to have seen a first."""
    happened = Happened(in_doubt={"pump"})
    row = {"status": "DONE", "publishes": 1}
    assert not judged(happened, [], pump=row)["done-was-executed"]
    taken = Entry(2.0, "taken", "node-1", "1", "pump")
    assert judged(happened, [taken], pump=row)["done-was-executed"]
