"""A lease that one process holds at a time: a row with its holder and an epoch that grows with every change of holder."""

import math
from dataclasses import dataclass
from typing import Any

from raceproof.declare.spec import check_seconds
from raceproof.kernel.errors import DeclarationError
from raceproof.kernel.quoting import literal, qualified


@dataclass(frozen=True)
class Lease:
    """What is led: `name`, for `seconds` at a time by the store's clock. Many leases share one table."""

    name: str
    seconds: float = 30.0
    table: str = "raceproof_lease"

    def __post_init__(self) -> None:
        literal(self.name)
        qualified(self.table)
        if not self.name:
            raise DeclarationError("a lease needs a name")
        if self.seconds in (None, math.inf):
            raise DeclarationError(
                f"lease {self.name}: seconds={self.seconds!r} would leave the lease with a dead holder for ever;"
                " give a time, such as 3600 (a hundred years at most), and renew the lease before it is over"
            )
        check_seconds(f"lease {self.name}: seconds", self.seconds)

    def __str__(self) -> str:
        return f"lease {self.name}"

    @property
    def lifecycle(self) -> Any:
        return self
