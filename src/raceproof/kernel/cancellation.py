"""Who is meant by a CancelledError: it may come from something that was awaited, or not come although it was asked for."""

import asyncio


def cancellations() -> int:
    """How often the current task was asked to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
