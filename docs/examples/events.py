"""Every decision is an event: subscribe to it, or log it."""

import logging
import sys

from commands import Command
from database import database
from raceproof import connect
from raceproof.kernel.events import Event, log_to, subscribed

logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)


# docs: call
def alarm(event: Event) -> None:
    if event.outcome == "refused":
        print(f"{event.by} was too late for {event.key}")


with database("c-42") as path, connect(f"sqlite:///{path}") as db:
    stop = log_to(logging.getLogger("commands"))
    db.move(Command.ack, "c-42", by="listener")
    db.move(Command.send, "c-42", by="sender")
    stop()

    with subscribed(alarm):
        db.move(Command.send, "c-42", by="sender")
