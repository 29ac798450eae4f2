"""What is counted: every wrong that the page and `--assert` speak of is found when it is planted, and nothing else is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from showcase.asserting import judged
from showcase.twins.every import SCENARIOS
from showcase.twins.scenario import RACEPROOF, SIDES, UNGUARDED
from showcase.twins.score import create, scores

PLANTED = {
    ("pictures", "sent twice"): """
        INSERT INTO seen_pictures (picture_id, sender, at) VALUES ('p', 'a', 1), ('p', 'b', 1)""",
    ("pictures", "never sent"): """
        INSERT INTO seen_orders VALUES ('p', 1); INSERT INTO pictures (picture_id) VALUES ('p')""",
    ("commands", "answers overwritten"): """
        INSERT INTO commands VALUES ('c', 'ACK'); UPDATE commands SET status = 'SENT'""",
    ("commands", "moved twice"): """
        INSERT INTO commands VALUES ('c', 'ACK'); UPDATE commands SET status = 'ACK'""",
    ("leaders", "written by an old leader"): """
        UPDATE heartbeat SET holder = 'b'; INSERT INTO slots (slot) VALUES ('s'); UPDATE slots SET ran_by = 'a'""",
    ("leaders", "run twice"): """
        UPDATE heartbeat SET holder = 'a'; INSERT INTO slots (slot) VALUES ('s');
        UPDATE slots SET ran_by = 'a'; UPDATE slots SET ran_by = 'a'""",
    ("jobs", "written by a late worker"): """
        INSERT INTO jobs (job_id, claimed_by) VALUES ('j', 'b'); UPDATE jobs SET result = 'a'""",
    ("jobs", "written twice"): """
        INSERT INTO jobs (job_id, claimed_by) VALUES ('j', 'a');
        UPDATE jobs SET result = 'a'; UPDATE jobs SET result = 'a'""",
    ("webhooks", "lost after a 200"): "INSERT INTO seen_accepted VALUES ('u', 1)",
    ("webhooks", "done twice"): "INSERT INTO processed (update_id, worker) VALUES ('u', 'a'), ('u', 'b')",
    ("logins", "saved by an old attempt"): """
        INSERT INTO attempts (attempt_id, user_id, status) VALUES ('1', 'ann', 'done'), ('2', 'ann', 'done');
        INSERT INTO sessions VALUES ('ann', '1')""",
    ("logins", "two open attempts"): """
        INSERT INTO attempts (attempt_id, user_id) VALUES ('1', 'ann'), ('2', 'ann')""",
}


def test_all_that_can_go_wrong_is_planted_here() -> None:
    assert set(PLANTED) == {(name, label) for name, one in SCENARIOS.items() for label in one.wrong}


@pytest.mark.parametrize(("scenario", "label"), PLANTED)
async def test_what_goes_wrong_is_counted_once_and_judged(tmp_path: Path, scenario: str, label: str) -> None:
    for side in SIDES:
        create(tmp_path / f"{side}.db")
    with closing(sqlite3.connect(tmp_path / f"{RACEPROOF}.db")) as connection:
        connection.executescript(PLANTED[scenario, label])
    found = await scores(tmp_path)
    wrong = {
        (name, what, side): number
        for name, sides in found.items()
        for side, one in sides.items()
        for what, number in one.wrong.items()
        if number
    }
    assert wrong == {(scenario, label, RACEPROOF): 1}
    verdict = judged(scenario, found[scenario])
    assert not verdict["holds"]
    assert verdict["raceproof"] == f"1 {label}"
    assert verdict["the usual code"] == "0"


async def test_the_usual_code_must_have_lost_too(tmp_path: Path) -> None:
    for side in SIDES:
        create(tmp_path / f"{side}.db")
    good = "INSERT INTO seen_pictures (picture_id, sender, at) VALUES ('p', 'a', 1)"
    for side, script in ((RACEPROOF, good), (UNGUARDED, good)):
        with closing(sqlite3.connect(tmp_path / f"{side}.db")) as connection:
            connection.executescript(script)
    assert not judged("pictures", (await scores(tmp_path))["pictures"])["holds"]
    with closing(sqlite3.connect(tmp_path / f"{UNGUARDED}.db")) as connection:
        connection.executescript(good)
    assert judged("pictures", (await scores(tmp_path))["pictures"])["holds"]
