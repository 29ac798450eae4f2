"""`python -m bench.queues.worker MODULE:CLASS URL default|best TALLY`: the worker's process, until it is killed."""

import os
import sys
from importlib import import_module
from typing import cast

from bench.queues.queue import Queue
from bench.queues.tally import Tally

SETTING = "BENCH_QUEUE"
"""The arguments again, for what a worker starts itself and imports by name."""


def load(kind: str) -> type[Queue]:
    module, _, name = kind.partition(":")
    return cast(type[Queue], getattr(import_module(module), name))


def main(kind: str, url: str, mode: str, tally: str) -> None:
    os.environ[SETTING] = "\n".join((kind, url, mode, tally))
    load(kind)(url, mode == "best").work(Tally(tally).ran)


if __name__ == "__main__":
    main(*sys.argv[1:])
