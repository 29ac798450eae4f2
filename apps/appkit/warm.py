"""Processes that are forked from one which has imported everything: a start takes milliseconds, not seconds.

`python -m appkit.warm PROGRAM PARENT MODULE…` imports an application's command line, and what that imports only when it
runs, and forks it whenever its input says so. It ends with its input, and its children end with it, whatever ended
whoever started it. For storms, measurements and shows, where instances are killed and begun again all the time.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

_PDEATHSIG = 1


def fork_when_told(program: str, parent: int, beside: Sequence[str]) -> None:
    """Read what to start, line by line, until the input ends."""
    _die_with(parent)
    main = import_module(f"{program}.cli").main
    for module in beside:
        import_module(module)
    _tell(ready=program)
    here = os.getpid()
    running: set[int] = set()
    ended: dict[int, int] = {}
    for line in sys.stdin:
        told = json.loads(line)
        _reap(running, ended)
        if "poll" in told:
            _tell(code=ended.get(told["poll"]))
            continue
        child = os.fork()
        if child == 0:
            _become(told, here)
            _run(main, program, told["arguments"])
        running.add(child)
        _tell(pid=child)
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become(told: dict[str, Any], parent: int) -> None:
    """The child: its own output and environment, and an end if its parent ends."""
    _die_with(parent)
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    os.environ.update(told["environment"])


def _die_with(parent: int) -> None:
    """Where the system can be asked to: also if the parent is killed, and this one frozen."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _run(main: Any, program: str, arguments: list[str]) -> None:
    code = 1
    try:
        main(arguments, prog_name=program)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(code)


def _reap(running: set[int], ended: dict[int, int]) -> None:
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            running.discard(pid)
            ended[pid] = os.waitstatus_to_exitcode(status)


def _tell(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def command(program: str, beside: Sequence[str]) -> list[str]:
    """How to start it; who starts it is its parent."""
    return [sys.executable, "-m", "appkit.warm", program, str(os.getpid()), *beside]


if __name__ == "__main__":
    fork_when_told(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
