"""`raceproof metrics`: how a store stands, printed and served."""

import signal
import subprocess
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from raceproof.ops.doctor.snapshot import snapshot
from tests.ops.cli.conftest import command_line, environment
from tests.ops.doctor.conftest import APP, Ill
from tests.ops.doctor.declared import Job
from tests.ops.top.shop import fill


def values(text: str) -> dict[tuple[str, ...], float]:
    """The name and the values of the labels, in the order of their names, to the value."""
    return {
        (
            sample.name.removeprefix("raceproof_"),
            *(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def served(url: str) -> float:
    with urllib.request.urlopen(url) as answer:
        return values(answer.read().decode())["state_items", "Job", "QUEUED"]


def test_how_a_store_stands_is_printed(ill: Ill) -> None:
    """The same figures on every store."""
    fill(ill)
    result = ill.cli("metrics", "--app", APP, "--url", ill.url)
    assert result.exit_code == 0, result.output
    found = values(result.stdout)
    for name, number in (
        (("state_items", "Job", "QUEUED"), 19),
        (("state_items", "Job", "RUNNING"), 7),
        (("state_items", "Job", "DONE"), 5),
        (("state_items", "ill_inbox", "dead"), 1),
        (("claims_held", "work", "Job"), 6),
        (("attempts_active", "Login"), 1),
        (("leader", "bot"), 1),
    ):
        assert found[name] == number, name
    assert found["leader_epoch", "bot"] > 0
    assert found["inbox_oldest_timestamp_seconds", "ill_inbox"] > 1e9
    assert found["state_oldest_timestamp_seconds", "Job", "DONE"] > 1e9


def test_counts_end_at_the_limit(ill: Ill) -> None:
    """However many rows there are: what an index finds is counted up to it, the rest among the first rows of the table."""
    fill(ill)
    for number in range(40):
        ill.put("ill_jobs", id=f"more-{number}", status="QUEUED", made_at=1)
    seen = snapshot(ill.db, Job, limit=3)
    counts = {one.status: (one.number, one.more) for one in seen.states}
    if ill.dialect == "redis":  # there keys are passed, whatever is counted
        assert counts["QUEUED"] == (59, False)
        return
    assert sum(counts[status][0] for status in ("QUEUED", "RUNNING")) == 3
    assert counts["QUEUED"][1]
    assert counts["DONE"][0] <= 30
    assert counts["DONE"][1]


def test_it_is_served_until_it_is_interrupted(ill: Ill) -> None:
    """On loopback, and it ends with exit code 0."""
    fill(ill)
    args = command_line("metrics", "--app", APP, "--url", ill.url, "--serve", "0", "--every", "0.1")
    with subprocess.Popen(args, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("serving http://127.0.0.1:"), said
        assert served(said.split()[1]) == 19
        ill.put("ill_jobs", id="one more", status="QUEUED", made_at=1)
        while served(said.split()[1]) == 19:
            assert process.poll() is None
        assert served(said.split()[1]) == 20
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_an_address_that_is_none_is_refused(ill_sqlite: Ill) -> None:
    for address in ("x", "1.2.3.4:", "99999", "-1", "²", "٩٤٦٤", "9" * 5000):
        assert ill_sqlite.cli("metrics", "--app", APP, "--url", ill_sqlite.url, "--serve", address).exit_code == 2


def test_a_store_that_is_not_there_exits_with_5(cli: Any) -> None:
    assert cli("metrics", "--app", APP, "--url", "redis://127.0.0.1:1/0").exit_code == 5
