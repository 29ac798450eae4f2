"""What may happen to a login, and to a session that was saved: both machines, in one file.

The statuses are the note's. A code that nobody scanned may also expire after it was shown, not only before, and what
has ended never changes again. The key of an attempt is three columns, so that on Redis its parts read as the note's
`<USER_ID>:<unix>:<8 random>`, and so that on a cluster the user is the hash tag of everything that is the user's.
"""

from enum import StrEnum

from raceproof import Attempts, Lifecycle, claimable, move
from raceproof.claims import ClaimColumns
from raceproof.declare import Expiry, History


class Status(StrEnum):
    PENDING = "pending"
    QR_RENDERED = "qr_rendered"
    SCANNED = "scanned"
    AUTHORIZED = "authorized"
    SESSION_SAVED = "session_saved"
    DONE = "done"
    EXPIRED = "expired"
    FAILED = "failed"
    SUPERSEDED = "superseded"


OPEN = (Status.PENDING, Status.QR_RENDERED, Status.SCANNED, Status.AUTHORIZED, Status.SESSION_SAVED)
BEFORE_SAVING = OPEN[:-1]
"""While it can be cancelled: from `session_saved` on the session is kept, whatever the user says."""
ENDED = (Status.DONE, Status.EXPIRED, Status.FAILED, Status.SUPERSEDED)

ACTIVE_SECONDS = 900
"""How long an attempt may take, and how long Redis keeps one that is open."""
ENDED_SECONDS = 7200
"""How long one that has ended is kept, for those who ask what happened."""
LEASE = 15.0
"""Seconds after which the attempts of an ingest process that has died go to another."""
AGAIN_SECONDS = 3600
"""How long after the first start a user may try again with the token of an attempt; then a new start is needed."""
TOKEN_SECONDS = ACTIVE_SECONDS + AGAIN_SECONDS
"""How long the token of an attempt opens it, from its start on."""


class Attempt(
    Lifecycle[Status],
    table="tg:qr:session",
    key=("unix", "nonce"),
    tenant="user_id",
    terminal=ENDED,
    history=History("qr_history", losers=True),
    expires=Expiry(open=ACTIVE_SECONDS, ended=ENDED_SECONDS),
):
    """One try of a user to log in."""

    render = move(Status.PENDING, to=Status.QR_RENDERED, stamp="rendered_at")
    scan = move(Status.QR_RENDERED, to=Status.SCANNED, stamp="scanned_at")
    authorize = move(Status.SCANNED, to=Status.AUTHORIZED, stamp="authorized_at", sets="account_id")
    save = move(Status.AUTHORIZED, to=Status.SESSION_SAVED, stamp="saved_at")
    finish = move(Status.SESSION_SAVED, to=Status.DONE, stamp="ended_at")
    expire = move(Status.PENDING, Status.QR_RENDERED, to=Status.EXPIRED, stamp="ended_at", sets="reason")
    fail = move(*OPEN, to=Status.FAILED, stamp="ended_at", sets="reason")
    cancel = move(*BEFORE_SAVING, to=Status.FAILED, stamp="ended_at", sets="reason")
    supersede = move(*OPEN, to=Status.SUPERSEDED, stamp="superseded_at", sets="superseded_by")

    ingest = claimable(at=OPEN, lease=LEASE, form=ClaimColumns())


attempts = Attempts(
    Attempt,
    owner="user_id",
    supersede=Attempt.supersede,
    link="superseded_by",
    started="created_at",
    ttl=ACTIVE_SECONDS,
    active_key="tg:qr:active",
    owned_key="tg:qr:sessions_zset",
)
"""A user has one active attempt; the next one ends it, unless it has ended."""


class Standing(StrEnum):
    CURRENT = "current"
    REPLACED = "replaced"
    REVOKED = "revoked"


class SavedSession(
    Lifecycle[Standing],
    table="saved_sessions",
    key="session_id",
    history=History("saved_session_history"),
):
    """A Telegram session, sealed. The ones before the current one stay, as a log."""

    replace = move(Standing.CURRENT, to=Standing.REPLACED, stamp="ended_at", sets="replaced_by")
    revoke = move(Standing.CURRENT, to=Standing.REVOKED, stamp="ended_at", sets="reason")


current_sessions = Attempts(
    SavedSession, owner="user_id", supersede=SavedSession.replace, link="replaced_by", started="saved_at"
)
"""A user has one current session. It has the key of the attempt that made it: saving it again changes nothing."""
