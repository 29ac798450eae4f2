"""The same lifecycle from a file."""

from pathlib import Path

from commands import Command
from database import database
from raceproof import Lifecycle, connect

# docs: call
spec = Lifecycle.from_toml(Path(__file__).with_name("command.toml"))
print("the same declaration:", spec.hash == Command.spec.hash)

with database("c-42") as path, connect(f"sqlite:///{path}") as db:
    print(db.move(spec.moves["send"], "c-42"))
