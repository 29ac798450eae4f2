"""What must hold after a storm, by plain SQL, the storm's own log of changes, and what the provider wrote down itself.

Nothing here asks the declarations: moves, marks and the rules of a match are written by hand.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sqlalchemy import text

from appkit.database import Database
from appkit.storm import Report
from outreach.storm_audit import KINDS, Event, judge_holders, judge_order, judge_steps

MATCH = 50
WORDS = 200
PAID = {"answered", "refused", "cut", "garbled"}
TWICE = {"cut", "garbled"}
"""Ends after which the same is rightly asked for once more, in another way."""
KEY_CALLS = 5
"""Of each that may be under way: the first, and those that ask whether the outage is over."""
FINAL = {"poison", "refused", "cut", "garbled", "rejected"}
"""Ends that are the row's own, and not an outage's."""


@dataclass
class Happened:
    """What the storm did, as far as the judgement allows for it."""

    kills: int = 0
    pauses: int = 0
    outages: int = 0
    key_outages: int = 0
    workers: set[str] = field(default_factory=set)
    frozen: list[tuple[str, float, float]] = field(default_factory=list)
    """Who, from when, and until when it may work on with what it had begun."""
    limit: int = 0
    """Workers of a stage at once."""
    calls: int = 3
    price_in: float = 0.0
    price_out: float = 0.0
    not_again: list[str] = field(default_factory=list)
    """Products whose answer was bought for a worker that came too late."""


async def judge(
    report: Report, database: Database, log: list[Event], calls: list[dict[str, Any]], happened: Happened
) -> None:
    """All of it."""
    async with database.read() as connection:

        async def rows(statement: str) -> list[dict[str, Any]]:
            return [dict(row) for row in (await connection.execute(text(statement))).mappings()]

        found = await rows(
            "SELECT d.*, m.name, m.ai_description FROM campaign_media_discoveries AS d JOIN media AS m ON m.id = d.media_id"
        )
        matches = await rows("SELECT * FROM match_suggestions")
        reviews = await rows("SELECT * FROM review_tasks")
        texts = await rows("SELECT discovery_id, error_column, text FROM error_texts")
        [budget] = await rows("SELECT spent, calls FROM ai_budget")
        ends = await rows("SELECT outcome, cost FROM ai_calls")
        keywords = {
            row["id"]: " ".join(json.loads(row["keywords"])) for row in await rows("SELECT id, keywords FROM campaigns")
        }
    _changes(report, log, happened)
    _calls(report, calls, happened)
    _aside(report, found, calls, keywords, texts)
    _attempts(report, found, calls, keywords, log)
    _results(report, found, matches, reviews, calls)
    _money(report, budget, ends, calls, happened)


def none(report: Report, name: str, what: str, wrong: Iterable[Any], of: int) -> None:
    """Nothing of this kind; the first of them are named."""
    listed = list(wrong)
    detail = f"{len(listed)} of {of}: {'; '.join(map(str, listed[:4]))}" if listed else f"0 of {of}"
    report.check(what, not listed, detail, name)


def _changes(report: Report, log: list[Event], happened: Happened) -> None:
    none(report, "only-known-steps", "every status moved as the table by hand says", judge_steps(log), len(log))
    none(
        report,
        "stages-in-order",
        "no stage was completed before the one in front",
        judge_order(log),
        len(log),
    )
    strangers, early, taken_over = judge_holders(log, happened.workers)
    what = "only the holder of a row ends it"
    none(report, "only-the-holder-ends", what, strangers, len(log))
    none(report, "living-locks-are-respected", "no lock was taken that was alive", early, len(log))
    report.counts["rows taken over from dead or frozen workers"] = taken_over
    report.at_least("rows taken over", 1, taken_over)
    report.at_least("changes in the log", 100, len(log))


def _calls(report: Report, calls: list[dict[str, Any]], happened: Happened) -> None:
    peak = max((call["at_once"] for call in calls), default=0)
    ends = Counter(call["end"] for call in calls)
    report.counts["AI calls by end"] = dict(ends)
    report.counts["AI calls at once, at most"] = peak
    what = f"never more than {happened.calls} AI calls at once, over all processes"
    report.check(what, peak <= happened.calls, peak, "three-ai-calls-at-once")
    report.at_least("AI calls at once, so that there was a crowd", happened.calls, peak, "enough-at-once")
    same = _same_at_once(calls)
    none(report, "one-call-for-a-product", "nothing is asked for twice at once", same, len(calls))
    for kind, name in (("describe", "limit-of-descriptions"), ("vet", "limit-of-vetting")):
        most, who = _callers_at_once(calls, kind, happened.frozen)
        what = f"{happened.limit} workers at once, at most, that {kind}"
        report.check(what, most <= happened.limit, f"{most}: {', '.join(sorted(who))}", name)
    what = "once it is known that the key is wrong, hardly anything is asked"
    at_most = happened.calls * KEY_CALLS * max(1, happened.key_outages)
    report.check(what, ends["key"] <= at_most, f"{ends['key']}, at most {at_most}", "outages-stop-the-calls")
    paid: Counter[str] = Counter()
    due: dict[str, int] = {}
    for call in calls:
        if call["end"] in PAID:
            paid[call["product"]] += 1
            due[call["product"]] = max(due.get(call["product"], 1), 2 if call["end"] in TWICE else 1)
    extra = {product: number - due[product] for product, number in paid.items() if number > due[product]}
    # a call that was under way when its worker died has been paid for, and its answer is nowhere
    allowed = happened.calls * (happened.kills + happened.pauses)
    report.counts["answers paid for"] = paid.total()
    report.counts["answers paid for again after a kill or a freeze"] = sum(extra.values())
    told = f"{sum(extra.values())} of {paid.total()}, at most {allowed} expected: {dict(list(extra.items())[:3])}"
    what = "nothing is bought twice, but for what was under way at a kill"
    report.check(what, sum(extra.values()) <= allowed, told, "bought-once")
    again = [product for product in happened.not_again if paid[product] > due.get(product, 1)]
    what = "an answer that came to a late worker is not bought again"
    none(report, "answers-are-kept", what, again, len(happened.not_again))
    report.at_least("answers that came to late workers", 1, len(happened.not_again), "enough-late-answers")
    for end in ("answered", "refused", "cut", "garbled", "failed"):
        report.at_least(f"calls that were {end}", 1, ends[end])


def _same_at_once(calls: list[dict[str, Any]]) -> list[str]:
    """Products that are asked for while they are: by the provider's own clock."""
    by_product: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for call in calls:
        by_product[call["product"]].append(call)
    return [
        f"{product} by {one['by']} and {other['by']}"
        for product, listed in by_product.items()
        for one, other in pairwise(listed)
        if other["began"] < one["ended"]
    ]


def _callers_at_once(
    calls: list[dict[str, Any]], kind: str, frozen: list[tuple[str, float, float]]
) -> tuple[int, set[str]]:
    """How many processes had a call of this kind under way at once; without those that were just frozen.

    One that goes on after it was frozen ends what it had begun, while another has its slot of the limit.
    """
    listed = [
        call
        for call in calls
        if call["product"].startswith(f"{kind} ")
        and not any(who == call["by"] and since <= call["began"] <= end for who, since, end in frozen)
    ]
    most: set[str] = set()
    under_way: list[dict[str, Any]] = []
    for call in sorted(listed, key=lambda one: float(one["began"])):
        under_way = [one for one in under_way if one["ended"] > call["began"]] + [call]
        callers = {one["by"] for one in under_way}
        most = callers if len(callers) > len(most) else most
    return len(most), most


def _attempts(
    report: Report,
    found: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    keywords: dict[int, str],
    log: list[Event],
) -> None:
    """A row that has come to its end has had one attempt, and one more for each worker that died, or own failure."""
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    for call in calls:
        ends[call["product"]][call["end"]] += 1
    taken = Counter((one.stage, one.key) for one in log if one.is_claim and one.before == "in_progress")
    burnt, asked = [], 0
    for row in found:
        for stage, product in _products(row, keywords).items():
            if row[f"{stage}_status"] != "completed" or not ends[product]:
                continue
            asked += 1
            counted = ends[product]
            in_vain = sum(number for end, number in counted.items() if end not in PAID)
            # of several answers only one arrived; a frozen worker has missed the others, and for it they are failures
            in_vain += max(0, counted["answered"] - 1)
            # after two failures others may have been answered meanwhile, and then it is the row's own
            own = sum(counted[end] for end in FINAL) + max(0, in_vain - 2)
            allowed = 1 + taken[stage, row["id"]] + own
            if row[f"{stage}_attempts"] > allowed:
                burnt.append(f"{stage} {row['id']}: {row[f'{stage}_attempts']} attempts, {dict(counted)}")
    none(report, "outages-cost-no-attempt", "an outage costs no row an attempt", burnt, asked)


def _products(row: dict[str, Any], keywords: dict[int, str]) -> dict[str, str]:
    return {
        "ai_description": f"describe {row['name']}",
        "vetting": f"vet {row['name']} for {keywords[row['campaign_id']]}",
    }


def _aside(
    report: Report,
    found: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    keywords: dict[int, str],
    texts: list[dict[str, Any]],
) -> None:
    ends: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        ends[call["product"]].add(call["end"])
    by_outage, silent = [], []
    kept = {(row["discovery_id"], row["error_column"]) for row in texts}
    for row in found:
        for stage, (error, _) in KINDS.items():
            if row[f"{stage}_status"] != "failed":
                continue
            said = row[error] or ""
            if (not said or said.startswith("PROCESSING:")) and (row["id"], error) not in kept:
                silent.append(f"{stage} {row['id']}")
            product = _products(row, keywords).get(stage)
            if product and not ends[product] & FINAL and "workers died" not in said:
                by_outage.append(f"{stage} {row['id']}: {said[:60]}")
    aside = sum(row[f"{stage}_status"] == "failed" for row in found for stage in KINDS)
    report.counts["dead-lettered"] = aside
    what = "an outage dead-letters no row: each dead letter was refused for its own sake"
    none(report, "outages-dead-letter-nothing", what, by_outage, aside)
    none(report, "dead-letters-say-why", "dead-lettered rows say why", silent, aside)


def _results(
    report: Report,
    found: list[dict[str, Any]],
    matches: list[dict[str, Any]],
    reviews: list[dict[str, Any]],
    calls: list[dict[str, Any]],
) -> None:
    words: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        if call["end"] == "answered":
            words[call["product"]].add(" ".join(call["words"].split()))
    invented = [
        row["name"]
        for row in found
        if row["ai_description"]
        and not any(row["ai_description"].startswith(one[:200]) for one in words[f"describe {row['name']}"])
    ]
    what = "every description is what the provider has answered, in 200 words at most"
    long = [row["name"] for row in found if len((row["ai_description"] or "").split()) > WORDS]
    none(report, "descriptions-are-the-providers", what, invented + long, len(found))
    wrong = []
    for row in found:
        if row["vetting_status"] == "completed":
            criteria = json.loads(row["vetting_criteria_met"])
            mean = sum(one["score"] * one["weight"] for one in criteria) / sum(one["weight"] for one in criteria)
            if abs(mean - row["vetting_score"]) > 0.06:
                wrong.append(f"{row['id']}: {row['vetting_score']}, and the criteria make {mean:.1f}")
    none(report, "scores-are-their-criteria", "every score is the mean of its criteria", wrong, len(found))
    due = {
        (row["campaign_id"], row["media_id"])
        for row in found
        if row["matching_status"] == "completed" and row["vetting_score"] >= MATCH
    }
    made = Counter((row["campaign_id"], row["media_id"]) for row in matches)
    wrong = [str(pair) for pair in due ^ set(made)] + [str(pair) for pair, number in made.items() if number > 1]
    report.counts["matches"] = len(matches)
    none(
        report,
        "matches-by-hand",
        "a match for each score of 50 and more, once, and no other",
        wrong,
        len(due),
    )
    tasks = Counter(row["match_suggestion_id"] for row in reviews)
    wrong = [str(row["id"]) for row in matches if tasks[row["id"]] != 1]
    none(report, "one-review-for-a-match", "each match has one review task", wrong, len(matches))
    report.at_least("matches", 5, len(matches))
    report.at_least("discoveries vetted", 20, sum(row["vetting_status"] == "completed" for row in found))


def _money(
    report: Report,
    budget: dict[str, Any],
    ends: list[dict[str, Any]],
    calls: list[dict[str, Any]],
    happened: Happened,
) -> None:
    """In millionths, by the provider's own count of tokens."""
    charged = sum(
        call["tokens_in"] * happened.price_in + call["tokens_out"] * happened.price_out
        for call in calls
        if call["end"] in PAID
    )
    unknown = sum(row["cost"] for row in ends if row["outcome"] in ("unknown", "lost", "under way"))
    spent = budget["spent"]
    rounding = len(calls)
    report.counts["spent, and charged by the provider"] = f"{spent / 1e6:.6f}, {charged / 1e6:.6f}"
    fits = spent - unknown <= charged + rounding and charged <= spent + rounding
    told = f"{spent} spent, {unknown} of it for calls with an unknown outcome, {charged:.0f} charged"
    report.check("what is spent is what the provider has charged", fits, told, "spent-is-what-was-charged")
