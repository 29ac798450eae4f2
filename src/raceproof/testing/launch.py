"""Turn this process into a server that dies with its parent: `launch.py PARENT SIGNAL USER COMMAND…`.

A script of its own because the steps must happen between fork and exec, and a `preexec_fn` is unsafe (and since Python
3.12 deprecated) in a process with threads. USER is the number of the user to become, or -1.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, signal: int, user: int, command: list[str]) -> None:
    if user >= 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if sys.platform == "linux":  # after the change of user, which would clear it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:
        sys.exit("the parent ended before the server began")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
