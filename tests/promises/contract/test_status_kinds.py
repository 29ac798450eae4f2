"""Every way to write statuses, and Django's own."""

from typing import Any

import pytest
from django.db.models import TextChoices

from raceproof.testing.contract.status_kinds import *
from raceproof.testing.contract.status_kinds import KINDS


class Choices(TextChoices):
    WAITING = "waiting", "Waiting for a worker"
    RUNNING = "running"
    ENDED = "it's done"
    SPENT = "spent"


ALL_KINDS = {**KINDS, Choices.__name__: (Choices, list(Choices))}


@pytest.fixture(params=ALL_KINDS.values(), ids=list(ALL_KINDS))  # type: ignore[no-redef]
def status_kind(request: pytest.FixtureRequest) -> Any:
    return request.param
