"""Lifecycles on tables that know nothing of raceproof yet, with a claim in each form."""

from enum import StrEnum

from raceproof import Attempts, Delivery, Inbox, Lease, Lifecycle, claimable, move
from raceproof.claims import TextMarker, TimestampClaim
from raceproof.run import Schedules


class Stage(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Stage], table="jobs", revision="rev", history="job_history"):
    start = move(Stage.QUEUED, to=Stage.RUNNING, stamp="started_at")
    finish = move(Stage.QUEUED, Stage.RUNNING, to=Stage.DONE, sets="result")
    work = claimable(start, lease=60, attempts="attempts", max_attempts=3, not_before="rests_until")


class Dated(Lifecycle[Stage], table="dated"):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    work = claimable(start, lease=60, form=TimestampClaim("taken_at"))


class Marked(Lifecycle[Stage], table="marked"):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    work = claimable(start, lease=60, form=TextMarker("error", "WORK"))


class Staying(Lifecycle[Stage], table="staying"):
    start = move(Stage.QUEUED, to=Stage.RUNNING)
    finish = move(Stage.RUNNING, to=Stage.DONE)
    work = claimable(at=Stage.QUEUED, lease=60)


mails = Delivery("mail", "mails", state="state")
logins = Attempts(Job, owner="owner", supersede=Job.finish, started="began_at")
lease = Lease("nightly")
events = Inbox("events")
schedules = Schedules()

EVERYTHING = (Job, Dated, Marked, Staying, mails, logins, lease, events, schedules)
TABLES = (
    "CREATE TABLE jobs (id text PRIMARY KEY, status text NOT NULL, owner text, result text)",
    "CREATE TABLE dated (id text PRIMARY KEY, status text NOT NULL)",
    "CREATE TABLE marked (id text PRIMARY KEY, status text NOT NULL, error text)",
    "CREATE TABLE staying (id text PRIMARY KEY, status text NOT NULL)",
    "CREATE TABLE mails (id text PRIMARY KEY)",
)
EXISTING = {
    "jobs": ("id", "status", "owner", "result"),
    "dated": ("id", "status"),
    "marked": ("id", "status", "error"),
    "staying": ("id", "status"),
    "mails": ("id",),
}
