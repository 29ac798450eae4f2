"""The mutation list stays true to the source."""

import shlex
from pathlib import Path

import pytest

from tools.mutate import PACKAGE, ROOT, Mutation, mutations


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_a_mutation_applies_in_exactly_one_place(mutation: Mutation) -> None:
    """An edit that no longer fits would silently prove nothing."""
    assert mutation.places(PACKAGE) == 1
    assert mutation.find != mutation.replace
    assert (ROOT / Path(shlex.split(mutation.test)[0])).exists()
