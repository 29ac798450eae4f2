"""A login that ends twice: a pointer that is moved atomically, and statuses that are not."""

from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Attempts, Lifecycle, move
from raceproof.testing.explorer import Connection, Effect, World
from raceproof.testing.explorer.ground import Tables

EXHIBIT = Exhibit(
    title="The login that succeeded, and then had not",
    story=(
        "Ann logs in by a QR code. It works; the account is connected. Then she opens the login page again in another "
        "tab, and her finished login is marked as *superseded*: the statistics count one success less, and the "
        "clean-up, which deletes superseded sessions, takes it away."
    ),
    follows=(
        "a field note, “QR session architecture fix”: the Lua script that makes a session the active one, the "
        "statuses, and the ingest that looks at the active session only. A hash of Redis is a row here, and the "
        "script one transaction."
    ),
    quoted="""\
local old = redis.call('GET', KEYS[1])
if old and old ~= ARGV[1] then
  redis.call('HSET', 'tg:qr:session:'..old, 'status', 'superseded', 'superseded_by', ARGV[1], …)
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])

pending → qr_rendered → scanned → authorized → session_saved → done (terminal)
* → superseded (terminal)

if status in ['failed', 'expired', 'superseded', 'done']:
    return False""",
    right=(
        "The pointer to the active session is set in one script, so there is always one active session, and the "
        "ingest goes by that pointer and not by whatever key it happens to find. That was the bug that the note set "
        "out to repair, and it did."
    ),
    also="ingest*3 second-tab*7 ingest",
    schedule="ingest*4 second-tab*7",
    why=(
        "The script ends “the old one” without looking whether it has ended by itself. No bad luck is needed, it "
        "fails undisturbed. With the tabs the other way round it fails too: the ingest has looked at the status "
        "before the user's scan and writes `done` after it, over a `superseded` that came in between."
    ),
    answer=(
        "`start_attempt` ends an open predecessor and never one that has ended, in the same decision that starts the "
        "new one. The ingest's last move is refused if its session was superseded meanwhile, and what it saves is "
        "part of that move: a session that was superseded saves nothing."
    ),
)


# gallery: stage
TERMINAL = ("failed", "expired", "superseded", "done")


def stage(world: World) -> Effect:
    """Ann has one login under way, s-1, and is about to start another one in a second tab."""
    world.sql("""
        CREATE TABLE qr_active (user_id TEXT PRIMARY KEY, session_id TEXT);
        INSERT INTO qr_active VALUES ('ann', 's-1');
        CREATE TABLE qr_session (session_id TEXT PRIMARY KEY, user_id TEXT, status TEXT, superseded_by TEXT, saved TEXT);
        INSERT INTO qr_session (session_id, user_id, status) VALUES ('s-1', 'ann', 'pending')
    """)

    def stays(before: Tables, after: Tables) -> object:
        now = {row["session_id"]: row["status"] for row in after["qr_session"]}
        return all(now[row["session_id"]] == row["status"] for row in before["qr_session"] if row["status"] in TERMINAL)

    world.change("a login that has ended stays as it is", stays)
    return world.effect("user-scans", lambda _: "a session string")


# gallery: naive
async def create_session(db: Connection, new: str) -> None:
    async with db.transaction():
        for (old,) in await db.execute("SELECT session_id FROM qr_active WHERE user_id = 'ann'"):
            await db.execute(
                "UPDATE qr_session SET status = 'superseded', superseded_by = ? WHERE session_id = ?",
                new,
                old,
            )
        await db.execute("UPDATE qr_active SET session_id = ? WHERE user_id = 'ann'", new)
        await db.execute("INSERT INTO qr_session (session_id, user_id, status) VALUES (?, 'ann', 'pending')", new)


def naive(world: World) -> None:
    user_scans = stage(world)

    @world.process
    async def ingest(db: Connection) -> None:
        [(session, status)] = await db.execute(
            "SELECT session_id, status FROM qr_session JOIN qr_active USING (session_id)"
        )
        if status in TERMINAL:
            return
        secret = await user_scans(session)
        await db.execute("UPDATE qr_session SET saved = ?, status = 'done' WHERE session_id = ?", secret, session)

    @world.process
    async def second_tab(db: Connection) -> None:
        await create_session(db, "s-2")


# gallery: guarded
class Status(StrEnum):
    PENDING = "pending"
    DONE = "done"
    SUPERSEDED = "superseded"


class Login(Lifecycle[Status], table="qr_session", key="session_id"):
    finish = move(Status.PENDING, to=Status.DONE, sets="saved")
    supersede = move(Status.PENDING, to=Status.SUPERSEDED, sets="superseded_by")


logins = Attempts(Login, owner="user_id", supersede=Login.supersede, link="superseded_by")


def guarded(world: World) -> None:
    user_scans = stage(world)

    @world.process
    async def ingest(db: Connection) -> None:
        session = await db.current_attempt(logins, "ann")
        if session is None:
            return
        secret = await user_scans(session["session_id"])
        await db.move(Login.finish, session["session_id"], set={"saved": secret})

    @world.process
    async def second_tab(db: Connection) -> None:
        await db.start_attempt(logins, "ann", "s-2")

    world.always(
        "only a login that is done has saved anything",
        lambda moment: all(row["saved"] is None or row["status"] == "done" for row in moment.rows("qr_session")),
    )


# gallery: end
