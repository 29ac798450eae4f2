"""The inbox: events of others, each kept once, with its raw bytes, until a worker has dealt with it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from raceproof.declare.build import spec_from_dict
from raceproof.declare.spec import Backoff, Claimable, Move, Spec, check_seconds, is_count
from raceproof.kernel.errors import DeclarationError

_DAY = 86400.0


@dataclass(frozen=True)
class Inbox:
    """Where events are kept. They are claimed like any other row: `inbox.work` is the claim, `inbox.finish` its end.

    Events with the same ordering key are worked on one after the other, in the order in which they came. An event that has
    failed `attempts` times is set aside at `dead`. For `keep` seconds after its end an event is remembered, so that the
    same id is not worked on again.
    """

    table: str = "raceproof_inbox"
    lease: float = 60.0
    attempts: int = 10
    backoff: Backoff = field(default_factory=Backoff)
    keep: float = 30 * _DAY

    def __post_init__(self) -> None:
        # P8: an event that is not remembered would be worked on again
        check_seconds(f"{self}: keep", self.keep)
        check_seconds(f"{self}: lease", self.lease)
        if not is_count(self.attempts):
            raise DeclarationError(f"{self}: attempts={self.attempts!r} is not a number of tries; give 1 or more")
        if not isinstance(self.backoff, Backoff):
            raise DeclarationError(f"{self}: backoff={self.backoff!r} is not Backoff(first, max_delay)")
        _ = self.lifecycle  # what else cannot work is told now, not at the first call

    @cached_property
    def lifecycle(self) -> Spec[str]:
        return spec_from_dict(
            {
                "name": "Inbox",
                "table": self.table,
                "key": ["source", "event_id"],
                "statuses": ["received", "processing", "done", "dead"],
                "moves": {
                    "begin": {"from": ["received"], "to": "processing"},
                    "retry": {"from": ["processing"], "to": "received"},
                    "finish": {"from": ["processing"], "to": "done", "stamp": ["ended_at"]},
                    "give_up": {"from": ["received", "processing"], "to": "dead", "stamp": ["ended_at"]},
                    "revive": {"from": ["dead"], "to": "received", "sets": ["attempts"]},
                },
                "claims": {
                    "work": {
                        "move": "begin",
                        "back": "retry",
                        "dead_letter": "give_up",
                        "lease": self.lease,
                        "raw": ["body"],
                        "order_by": ["id"],
                        "ordering_key": "ordering_key",
                        "attempts": "attempts",
                        "max_attempts": self.attempts,
                        "not_before": "rests_until",
                        "backoff": [self.backoff.first, self.backoff.max_delay],
                    }
                },
                "expires": [self.keep, self.keep],
            }
        )

    @property
    def work(self) -> Claimable[Any]:
        """The claim of events that wait."""
        return self.lifecycle.claims["work"]

    @property
    def finish(self) -> Move[Any]:
        """The move of an event that has been dealt with."""
        return self.lifecycle.moves["finish"]

    @property
    def name(self) -> str:
        return "receive"

    def __str__(self) -> str:
        return f"inbox {self.table}"
