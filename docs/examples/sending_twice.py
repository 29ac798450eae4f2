"""A callback and a poller see that a picture is ready, and both send it. Prints what `raceproof explore` finds."""

# docs: handler
from raceproof.testing.explorer import Connection, Effect, World


async def send_picture(db: Connection, send: Effect) -> None:
    [(status,)] = await db.execute("SELECT status FROM pictures WHERE id = 'p1'")
    if status == "READY":
        await send("p1")
        await db.execute("UPDATE pictures SET status = 'SENT' WHERE id = 'p1'")


# docs: scenario
def one_picture(world: World) -> None:
    world.sql("CREATE TABLE pictures (id TEXT, status TEXT); INSERT INTO pictures VALUES ('p1', 'READY')")
    send = world.effect("send")

    @world.process
    async def callback(db: Connection) -> None:
        await send_picture(db, send)

    @world.process
    async def poller(db: Connection) -> None:
        await send_picture(db, send)

    world.never_twice(send)


# docs: run
def show(*arguments: str) -> None:
    """Print the command and what it prints, but for the time, which is another one on every machine."""
    import re
    import subprocess
    import sys
    from pathlib import Path

    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "utf8",
            "-c",
            "from raceproof.ops.cli import main; main()",
            "explore",
            *arguments,
        ],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    said = re.sub(r"in \d+\.\d\d s", "in … s", done.stdout)
    print(f"$ raceproof explore {' '.join(arguments)}", said.rstrip(), sep="\n")


if __name__ == "__main__":
    show("sending_twice.py", "--no-faults")
