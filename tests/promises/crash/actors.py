"""Processes that play a part and can die or stand still at any point of it: led by signals and pipes, never by time."""

import json
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

_fork = multiprocessing.get_context("fork")
_PATIENCE = 60.0


class Stage:
    """What a part sees of the play: points that it reaches, at which it may have to wait."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self._pipe = pipe

    def reach(self, point: str, *told: Any) -> None:
        """Tell that this point is reached and wait until the play goes on."""
        self.tell(point, *told)
        self._pipe.recv()

    def tell(self, point: str, *told: Any) -> None:
        """Tell it and go on."""
        self._pipe.send((point, told))


class Actor:
    """A process that plays a part, with connections of its own."""

    def __init__(self, part: Callable[[Stage], None]) -> None:
        self._pipe, theirs = _fork.Pipe()
        self._process = _fork.Process(target=_play, args=(part, theirs), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def until(self, point: str) -> tuple[Any, ...]:
        """Wait until it tells that it is at this point; what it told."""
        while True:
            if not self._pipe.poll(_PATIENCE):
                raise TimeoutError(f"an actor did not come to {point!r}")
            found, told = self._pipe.recv()
            if found == "failed":
                raise AssertionError(f"an actor failed before {point!r}:\n{told[0]}")
            if found == point:
                return tuple(told)

    def go(self) -> None:
        """Let it go on from the point that it has reached."""
        self._pipe.send(None)

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.join(_PATIENCE)

    def stop(self) -> None:
        """SIGSTOP; it stands still when this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """SIGCONT: it goes on where it was, and knows nothing of the time in between."""
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, for those that end in good order."""
        os.kill(self.pid, signal.SIGTERM)

    def join(self) -> None:
        self._process.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self.kill()
        self._process.join(_PATIENCE)
        self._pipe.close()


def _play(part: Callable[[Stage], None], pipe: "Connection[Any, Any]") -> None:
    stage = Stage(pipe)
    try:
        part(stage)
        stage.tell("end")
    except BaseException:
        stage.tell("failed", traceback.format_exc())


class Outside:
    """The outside world: whatever is sent there has happened, and stays, whoever dies afterwards."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects"
        self._path.touch()

    def send(self, **effect: Any) -> None:
        line = json.dumps(effect, default=str) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        os.write(file, line.encode())
        os.close(file)

    @property
    def effects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def names(self, name: str) -> list[Any]:
        return [effect[name] for effect in self.effects]
