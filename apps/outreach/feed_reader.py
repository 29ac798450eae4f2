"""Reading feeds from strangers where it can do no harm: large ones in a process of their own, with an end.

A parser that meets a document made for it may take hours and gigabytes, and a thread of ours would hold up everything
else meanwhile. A small document cannot: it is read in a thread. The process is begun when it is needed and kept for the
next feed; one that has not answered in time is ended.
"""

import asyncio
import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from outreach.feeds import Episode, Feed, NotAFeed, read_feed

SMALL = 16_384
"""Bytes that are read in milliseconds, whatever they are."""
SECONDS = 20.0
MEMORY = 2**30
_HEAD = 8


class FeedReader:
    """`await FeedReader().read(body)`; all readers of this process share one child."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    async def read(self, body: bytes) -> Feed:
        """A podcast from RSS or Atom, or `NotAFeed`."""
        if len(body) <= SMALL:
            return await asyncio.to_thread(read_feed, body)
        return await asyncio.to_thread(self._read_apart, body)

    def _read_apart(self, body: bytes) -> Feed:
        with _one_at_a_time:
            child = _child()
            timer = threading.Timer(self._seconds, child.kill)
            timer.start()
            try:
                told = _asked(child, body)
            except (OSError, EOFError):
                _end()
                why = "it was made to keep a reader busy, or needs too much memory"
                raise NotAFeed(f"it could not be read within {self._seconds:g} s: {why}") from None
            finally:
                timer.cancel()
        if "why" in told:
            raise NotAFeed(told["why"])
        return feed_from(told)


_one_at_a_time = threading.Lock()
_running: "list[subprocess.Popen[bytes]]" = []


def _child() -> "subprocess.Popen[bytes]":
    if _running and _running[0].poll() is None:
        return _running[0]
    _end()
    # without our settings: it needs no secret
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR") if name in os.environ}
    command = [sys.executable, "-m", "outreach.feed_reader"]
    _running.append(
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    )
    return _running[0]


def _end() -> None:
    for one in _running:
        one.kill()
        one.wait()
        for stream in (one.stdin, one.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
    _running.clear()


atexit.register(_end)


def _asked(child: "subprocess.Popen[bytes]", body: bytes) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    _write(child.stdin, body)
    told: dict[str, Any] = json.loads(_read(child.stdout.read))
    return told


def feed_from(told: dict[str, Any]) -> Feed:
    episodes = [
        Episode(**{**one, "published_at": one["published_at"] and datetime.fromisoformat(one["published_at"])})
        for one in told.pop("episodes")
    ]
    return Feed(**told, episodes=episodes)


def _write(stream: Any, body: bytes) -> None:
    stream.write(len(body).to_bytes(_HEAD) + body)
    stream.flush()


def _read(read: Callable[[int], bytes]) -> bytes:
    head = read(_HEAD)
    size = int.from_bytes(head)
    body = read(size) if len(head) == _HEAD else b""
    if len(head) < _HEAD or len(body) < size:
        raise EOFError
    return body


def _serve() -> None:
    """The child: one document after the other, until its input ends."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with suppress(EOFError):
        while True:
            body = _read(sys.stdin.buffer.read)
            try:
                told = asdict(read_feed(body))
            except NotAFeed as error:
                told = {"why": str(error)}
            _write(sys.stdout.buffer, json.dumps(told, default=str).encode())


if __name__ == "__main__":
    _serve()
