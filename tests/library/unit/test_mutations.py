"""The mutation list stays true to the source."""

import shlex
from pathlib import Path

import pytest

from tools.mutate import PACKAGE, ROOT, Mutation, mutations


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_a_mutation_applies_in_exactly_one_place(mutation: Mutation) -> None:
    """An edit that no longer fits, or that nobody can run, would silently prove nothing."""
    assert mutation.places(PACKAGE) == 1
    assert mutation.find != mutation.replace
    if mutation.file.endswith(".py"):
        source = (PACKAGE / mutation.file).read_text(encoding="utf-8")
        compile(source.replace(mutation.find, mutation.replace), mutation.file, "exec")
    assert (ROOT / Path(shlex.split(mutation.test)[0])).exists()
