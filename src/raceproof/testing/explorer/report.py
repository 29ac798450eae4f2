"""A verdict as text for people: a table with a column for each process, and why it failed."""

from raceproof.testing.explorer.verdict import Verdict


def text(verdict: Verdict) -> str:
    """The verdict in lines."""
    lines = [f"{verdict.scenario}: {verdict.kind} {verdict.why}", verdict.schedule]
    lines += [
        f"{one.number:3} {one.title:12} {one.operation} {one.fate.said} {one.answer} {one.told}"
        for one in verdict.steps
    ]
    return "\n".join(lines)
