"""docs/core.md can only say what stands in the texts that the stores are sent."""

import pytest

from tools import core_page
from tools.core_page import DECISIONS, STORES, golden, page


def test_each_guard_is_in_the_text_of_each_store() -> None:
    assert page().count("<details>") == len(DECISIONS) * len(STORES)


@pytest.mark.parametrize("store", STORES)
def test_a_guard_that_is_gone_from_a_text_fails_the_build(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = next(one for one in DECISIONS if one.title == "Renew a claim")
    fence = str(getattr(decision.guards[0], store))
    read = core_page.golden
    without = {"golden": lambda text: {key: one.replace(fence, "TRUE") for key, one in read(text).items()}}
    monkeypatch.setattr(core_page, "golden", without["golden"])
    with pytest.raises(SystemExit, match="only the current holder"):
        page()


def test_a_comment_of_a_script_is_no_call() -> None:
    text = "-- claim: claim.acquire\n-- claim.acquire\n-- how it is: held\nlocal open = 1\n-- claim_one, taken: claim.one\n"
    assert golden(text) == {("claim", "claim.acquire"): "-- how it is: held\nlocal open = 1"}
