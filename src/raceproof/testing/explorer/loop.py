"""An event loop for explored processes: a queue of what is ready, timers in virtual time, and nothing else.

Between two operations that others can see a process runs until nothing of it is ready. Timers do not fire by themselves:
one that is due is an operation, which the schedule may let wait. Threads, sockets and subprocesses are refused where they
are asked for, because the explorer could not decide when they run.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NoReturn

from raceproof.kernel.errors import RaceproofError


class NotExplorable(RaceproofError):
    """The code under exploration asked for something whose order the explorer cannot decide."""


class Handle:
    """A callback that waits for its turn."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "owner", "when")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        owner: Any,
        when: float = 0.0,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = context if context is not None else copy_context()
        self._cancelled = False
        self.owner = owner
        self.when = when

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class VirtualLoop(asyncio.AbstractEventLoop):
    """What asyncio needs of a loop. `owner` is the process whose code runs now; it gets what is scheduled."""

    def __init__(self, timer: Callable[[Handle], None], task: Callable[[Any], None]) -> None:
        self.owner: Any = None
        self.clock = 0.0
        self._ready: deque[Handle] = deque()
        self._timer: Any = timer
        self._task: Any = task

    def drain(self) -> None:
        """Run everything that is ready, and what that makes ready."""
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if not handle._cancelled:
                handle._context.run(handle._callback, *handle._args)

    def clear(self) -> None:
        """Nothing more runs here."""
        self._ready.clear()
        self._timer = self._task = self.owner = None

    # what asyncio's futures, tasks, timeouts and locks call

    def time(self) -> float:
        return self.clock

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        handle = Handle(callback, args, context, self.owner)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self.call_at(self.clock + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        handle = Handle(callback, args, context, self.owner, when)
        self._timer(handle)
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "explored", context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._task(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task whose exception nobody looked at: the process's own end tells what matters."""


_REFUSED = {
    "call_soon_threadsafe": "a call from another thread",
    "run_in_executor": "a thread (run_in_executor, to_thread)",
    "add_signal_handler": "a signal handler; call stop() from a process of the scenario instead",
    "create_connection": "a connection",
    "create_unix_connection": "a connection",
    "create_datagram_endpoint": "a connection",
    "create_server": "a server",
    "create_unix_server": "a server",
    "subprocess_exec": "a subprocess",
    "subprocess_shell": "a subprocess",
    "getaddrinfo": "a name from the network",
    "add_reader": "a socket or file",
    "add_writer": "a socket or file",
    "sock_connect": "a socket",
    "sock_recv": "a socket",
    "sock_sendall": "a socket",
}


def _refusing(what: str) -> Callable[..., NoReturn]:
    return lambda *args, **options: refuse(what)


refused: list[NotExplorable] = []
"""What was refused; code that swallows the exception has still done what cannot be explored."""


def refuse(what: str) -> NoReturn:
    error = NotExplorable(
        f"the explored code asks for {what}, and the explorer cannot decide when that happens. "
        "Pass what talks to the outside into your handler, and give it an effect here: world.effect(name)"
    )
    refused.append(error)
    raise error


for _name, _what in _REFUSED.items():
    setattr(VirtualLoop, _name, _refusing(_what))
