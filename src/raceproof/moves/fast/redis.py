"""The ends of many claims on Redis and Valkey, with a request of its own only for a row whose answer says more.

The rule: the script is that of `many`, and a row that it does not answer with its status alone is answered by its request.
"""

from collections.abc import Sequence
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.kernel.statement import Program
from raceproof.moves.answers import Answer
from raceproof.moves.redis import ROWS_IN_ONE_SCRIPT, RedisMoves, checked
from raceproof.moves.request import MoveRequest


class FastRedisMoves(RedisMoves):
    """The same programs, but for claims."""

    def many_claimed(self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]) -> Program[list[Answer[Any, Any]]]:
        spec = first.move.lifecycle
        if spec.history or first.set or first.revision is not None or not spec.plain_key or self.dialect.cluster:
            return (yield from super().many_claimed(first, claims))
        answers: list[Answer[Any, Any]] = []
        for start in range(0, len(claims), ROWS_IN_ONE_SCRIPT):
            some = claims[start : start + ROWS_IN_ONE_SCRIPT]
            answers += checked((yield from self.some(first, some, lambda one: first.of_claim(one, (one.key,)))))
        return answers
