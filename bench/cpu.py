"""CPU time, of this process and of a server, so that a slow figure says whose time it is."""

import time
from dataclasses import dataclass
from os import sysconf
from pathlib import Path

from bench.result import Cost
from raceproof.testing import Server


@dataclass(frozen=True, slots=True)
class Meter:
    """Running since a moment; made by `start`."""

    server: Server | None
    server_before: float | None
    python_before: float
    begun: float

    def cost(self, calls: int) -> Cost:
        """What each of so many calls took since then."""
        wall = time.perf_counter() - self.begun
        python = time.process_time() - self.python_before
        after = server_seconds(self.server)
        server = None
        if self.server_before is not None and after is not None:
            server = (after - self.server_before) * 1e6 / calls
        return Cost(wall * 1e6 / calls, python * 1e6 / calls, server)


def start(server: Server | None) -> Meter:
    return Meter(server, server_seconds(server), time.process_time(), time.perf_counter())


def server_seconds(server: Server | None) -> float | None:
    """CPU seconds of the server's processes, also of those that have ended; None where /proc does not tell."""
    if server is None or not Path("/proc/self/stat").exists():
        return None
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # after the name, which may hold spaces: state, parent, …, utime, stime, cutime, cstime as 12th to 15th
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if stat.parent.name == str(server.pid):
            ticks += sum(int(field) for field in fields[11:15])
        elif fields[1] == str(server.pid):
            ticks += sum(int(field) for field in fields[11:13])
    return ticks / sysconf("SC_CLK_TCK")
