"""Requests that an application's own description allows: made up, and the same ones in every run."""

from collections.abc import Callable
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema


def operations_of(description: BaseSchema) -> list[APIOperation[Any, Any, Any, Any]]:
    """All that a description offers."""
    return [found.ok() for found in description.get_all_operations() if isinstance(found, Ok)]


def try_out(
    operation: APIOperation[Any, Any, Any, Any], examples: int, ask: Callable[[schemathesis.Case[Any]], None]
) -> None:
    """Ask an operation with so many examples."""

    @given(case=operation.as_strategy())
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=True,
        database=None,
    )
    def asked(case: schemathesis.Case[Any]) -> None:
        ask(case)

    asked()
