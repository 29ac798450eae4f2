"""What attempts promise on every store (L10; P9)."""

from typing import Any

import pytest

from raceproof import AlreadyActive, Attempts, DeclarationError, Lifecycle, Lost, Refused, Started
from raceproof.attempts import Rejected
from raceproof.declare import Spec
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.jobs import ALL_FORMS, FORMS


def logins(
    ground: Ground, history: bool = False, tenant: str | None = None, form: str | None = None, **changes: Any
) -> tuple[Attempts, Spec[str]]:
    """Logins of users: pending, scanned, done, or superseded by the next login."""
    declared: dict[str, Any] = {
        "name": "Login",
        "table": fresh_name("logins"),
        "key": "login_id",
        "statuses": ["pending", "scanned", "done", "superseded"],
        "revision": "rev",
        "moves": {
            "scan": {"from": ["pending"], "to": "scanned", "sets": ["device"]},
            "finish": {"from": ["scanned"], "to": "done", "stamp": ["began_at"]},
            "supersede": {
                "from": ["pending", "scanned"],
                "to": "superseded",
                "stamp": ["superseded_at"],
                "sets": ["superseded_by"],
            },
        },
    }
    if history:
        declared["history"] = fresh_name("history")
    if tenant:
        declared["tenant"] = tenant
    if form:
        declared["claims"] = {"work": {"at": ["pending", "scanned"], "lease": 30, "form": FORMS[form]}}
    spec = Lifecycle.from_dict(declared)
    ground.table(spec, {"owner": "text"})
    settings = {"owner": "owner", "supersede": spec.moves["supersede"], "link": "superseded_by", "started": "began_at"}
    return Attempts(spec, **{**settings, "ttl": 900.0, **changes}), spec


async def test_a_new_attempt_ends_the_open_one_and_only_that(ground: Ground) -> None:
    """The pointer switches at once; the old attempt can write nothing more."""
    attempts, login = logins(ground)
    first = await ground.db.start_attempt(attempts, "ann", "a1", columns={"device": "phone"}, now=NOON)
    assert isinstance(first, Started)
    assert (first.superseded, first.replayed) == (None, False)
    await ground.db.start_attempt(attempts, "bob", "b1", now=NOON)
    second = await ground.db.start_attempt(attempts, "ann", "a2", now=after(1))
    assert isinstance(second, Started)
    assert second.superseded == "a1"
    old = ground.get(login, "a1")
    assert (old["status"], old["superseded_by"], old["device"]) == ("superseded", "a2", "phone")
    assert old["superseded_at"] is not None
    assert isinstance(await ground.db.move(login.moves["scan"], "a1"), Refused)
    assert (await ground.db.current_attempt(attempts, "ann", now=after(2)))["login_id"] == "a2"
    assert (await ground.db.current_attempt(attempts, "bob", now=after(2)))["login_id"] == "b1"


@pytest.mark.parametrize("owner", [None, ""])
async def test_nobody_is_no_owner(ground: Ground, owner: str | None) -> None:
    """P9: NULL equals nothing, so each of its attempts would be the only one."""
    attempts, _ = logins(ground)
    with pytest.raises(CallError, match="owner must be a value of"):
        await ground.db.start_attempt(attempts, owner, "a1")
    with pytest.raises(CallError, match="owner must be a value of"):
        await ground.db.current_attempt(attempts, owner)
    with pytest.raises(CallError, match="not a declaration of attempts"):
        await ground.db.start_attempt("logins", "ann", "a1")


async def test_an_attempt_that_has_ended_is_never_touched(ground: Ground) -> None:
    """Done stays done, whatever starts later."""
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    await ground.db.move(login.moves["scan"], "a1", now=NOON)
    await ground.db.move(login.moves["finish"], "a1", now=NOON)
    assert await ground.db.current_attempt(attempts, "ann", now=NOON) is None
    second = await ground.db.start_attempt(attempts, "ann", "a2", now=after(1))
    assert isinstance(second, Started)
    assert second.superseded is None
    assert ground.get(login, "a1")["status"] == "done"


async def test_the_same_start_again_changes_nothing(ground: Ground) -> None:
    """A replay never resets an attempt; a key that has ended does not start again."""
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    await ground.db.move(login.moves["scan"], "a1")
    again = await ground.db.start_attempt(attempts, "ann", "a1", now=after(1))
    assert isinstance(again, Started)
    assert again.replayed
    assert ground.get(login, "a1")["status"] == "scanned"
    await ground.db.start_attempt(attempts, "ann", "a2", now=after(2))
    late = await ground.db.start_attempt(attempts, "ann", "a1", now=after(3))
    assert isinstance(late, Rejected)
    assert late.status == "superseded"
    assert (await ground.db.current_attempt(attempts, "ann", now=after(3)))["login_id"] == "a2"


async def test_the_key_of_another_owner_is_not_taken(ground: Ground) -> None:
    """A key names one attempt of one owner."""
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "x", now=NOON)
    stolen = await ground.db.start_attempt(attempts, "bob", "x", now=NOON)
    assert isinstance(stolen, Rejected)
    assert ground.get(login, "x")["status"] == "pending"
    assert await ground.db.current_attempt(attempts, "bob", now=NOON) is None


async def test_an_open_attempt_can_be_kept_or_the_new_one_rejected(ground: Ground) -> None:
    """Both answers name the active one."""
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    kept = await ground.db.start_attempt(attempts, "ann", "a2", when_open="keep", now=after(1))
    assert isinstance(kept, AlreadyActive)
    assert (kept.key, kept.status) == ("a1", "pending")
    rejected = await ground.db.start_attempt(attempts, "ann", "a2", when_open="reject", now=after(1))
    assert isinstance(rejected, Rejected)
    assert (rejected.key, rejected.active) == ("a2", "a1")
    assert ground.get(login, "a1")["status"] == "pending"


async def test_an_attempt_whose_time_is_over_is_no_longer_current(ground: Ground) -> None:
    """Starting does not wait for it, and supersedes it."""
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    assert await ground.db.current_attempt(attempts, "ann", now=after(901)) is None
    second = await ground.db.start_attempt(attempts, "ann", "a2", when_open="keep", now=after(901))
    assert isinstance(second, Started)
    assert second.superseded == "a1"
    assert ground.get(login, "a1")["status"] == "superseded"


async def test_the_same_start_again_after_its_time_is_no_repetition(ground: Ground) -> None:
    """That attempt is over and does not start again."""
    attempts, _ = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    assert (await ground.db.start_attempt(attempts, "ann", "a1", now=after(899))).replayed
    late = await ground.db.start_attempt(attempts, "ann", "a1", now=after(901))
    assert isinstance(late, Rejected)
    assert late.status == "pending"


async def test_an_attempt_whose_time_is_over_rejects_nobody(ground: Ground) -> None:
    """P13: the next start supersedes it."""
    attempts, login = logins(ground)
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    second = await ground.db.start_attempt(attempts, "ann", "a2", when_open="reject", now=after(901))
    assert isinstance(second, Started)
    assert second.superseded == "a1"
    assert ground.get(login, "a1")["status"] == "superseded"


async def test_an_owner_of_the_same_name_at_another_tenant_is_another_owner(ground: Ground) -> None:
    """Neither tenant ends, keeps or sees the other's, not even with the same key."""
    attempts, login = logins(ground, tenant="shop")
    red, blue = (ground.db.for_tenant(shop) for shop in ("red", "blue"))
    await red.start_attempt(attempts, "ann", "x", now=NOON)
    assert await blue.current_attempt(attempts, "ann", now=NOON) is None
    other = await blue.start_attempt(attempts, "ann", "y", when_open="keep", now=NOON)
    assert isinstance(other, Started)
    assert isinstance(await blue.start_attempt(attempts, "bob", "x", now=NOON), Started)
    newer = await blue.start_attempt(attempts, "ann", "z", now=after(1))
    assert (newer.outcome, newer.superseded) == ("started", "y")
    kept = await red.start_attempt(attempts, "ann", "late", when_open="keep", now=after(1))
    assert (kept.outcome, kept.key) == ("already active", "x")
    rows = (("red", "x"), ("blue", "x"), ("blue", "y"), ("blue", "z"))
    states = ["pending", "pending", "superseded", "pending"]
    assert [ground.get(login, key)["status"] for key in rows] == states
    for shop, owner, key in ((red, "ann", "x"), (blue, "ann", "z"), (blue, "bob", "x")):
        assert (await shop.current_attempt(attempts, owner, now=after(2)))["login_id"] == key


async def test_tenants_and_owners_whose_names_run_together_are_told_apart(ground: Ground) -> None:
    """`a:b` at `c` is not `b:c` at `a`, however the two become one text."""
    attempts, _ = logins(ground, tenant="shop")
    await ground.db.for_tenant("a").start_attempt(attempts, "b:c", "k", now=NOON)
    other = await ground.db.for_tenant("a:b").start_attempt(attempts, "c", "k", when_open="keep", now=NOON)
    assert isinstance(other, Started)


async def test_an_owner_that_is_the_tenant_has_one_attempt(ground: Ground) -> None:
    """Rows are found by owner, whatever tenant the store is bound to."""
    attempts, login = logins(ground, tenant="owner")
    await ground.db.start_attempt(attempts, "ann", "a1", now=NOON)
    await ground.db.start_attempt(attempts, "bob", "a1", now=NOON)
    second = await ground.db.start_attempt(attempts, "ann", "a2", now=after(1))
    assert (second.outcome, second.superseded) == ("started", "a1")
    assert [ground.get(login, (one, "a1"))["status"] for one in ("ann", "bob")] == ["superseded", "pending"]


async def test_the_history_tells_who_started_and_what_ended(ground: Ground) -> None:
    """One row for the start, and one for its end by the next start."""
    attempts, login = logins(ground, history=True)
    await ground.db.start_attempt(attempts, "ann", "a1", by="web", now=NOON)
    await ground.db.start_attempt(attempts, "ann", "a2", by="phone", now=after(1))
    entries = await ground.db.history(login, "a1")
    assert [(e.move, e.outcome, e.after, e.actor) for e in entries] == [
        ("supersede", "moved", "superseded", "phone"),
        ("attempt", "started", "pending", "web"),
    ]


async def test_bad_calls_about_attempts_raise_before_anything_is_sent(ground: Ground) -> None:
    """Columns with a role, and declarations that cannot work."""
    attempts, login = logins(ground)
    with pytest.raises(CallError, match="role of its own"):
        await ground.db.start_attempt(attempts, "ann", "a", columns={"status": "done"})
    with pytest.raises(CallError, match="supersede, keep or reject"):
        await ground.db.start_attempt(attempts, "ann", "a", when_open="ignore")
    with pytest.raises(DeclarationError, match="must lead to a terminal status"):
        Attempts(login, owner="owner", supersede=login.moves["scan"])
    with pytest.raises(DeclarationError, match="needs started="):
        Attempts(login, owner="owner", supersede=login.moves["supersede"], ttl=5)


@ALL_FORMS
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
async def test_a_new_attempt_ends_the_claim_on_the_old_one(ground: Ground, form: str, history: bool) -> None:
    """P4, P5: the holder of a superseded attempt is fenced off, and the row shows no holder."""
    attempts, login = logins(ground, history, form=form)
    await ground.db.start_attempt(attempts, "ann", "1", now=NOON)
    claim = await ground.db.claim_one(login.claims["work"], "1", by="late", now=after(1))
    assert claim.won
    assert (await ground.db.start_attempt(attempts, "ann", "2", now=after(2))).superseded == "1"
    row = ground.get(login, "1")
    cleared = login.claims["work"].form.cleared
    assert [row[name] for name in cleared] == [None] * len(cleared)
    answer = await ground.db.move(login.moves["scan"], claim, now=after(3))
    assert isinstance(answer, Lost)
    assert answer.status == "superseded"
    assert [one.outcome for one in await ground.db.renew(claim, now=after(3))] == ["lost"]
    assert ground.get(login, "1") == row
