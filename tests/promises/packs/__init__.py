"""Promise packs: small scenarios on the library's own primitives, which are explored until nothing is left to try.

`python -m tests.promises.packs` runs them; each has the promises (P1–P14) that it is about.
"""

from tests.promises.packs import attempts, claims, delivery, inbox, leader, moves, worker
from tests.promises.packs.pack import Pack

PACKS: list[Pack] = [
    *moves.PACKS,
    *claims.PACKS,
    *delivery.PACKS,
    *attempts.PACKS,
    *leader.PACKS,
    *inbox.PACKS,
    *worker.PACKS,
]

__all__ = ["PACKS", "Pack"]
