"""The public surface: sync and async alike, and nothing by accident."""

import inspect
from collections.abc import Callable
from typing import Any

import raceproof
from raceproof import AsyncStore, Store


def test_everything_public_is_there() -> None:
    """`__all__` is sorted and true."""
    assert sorted(raceproof.__all__) == raceproof.__all__
    for name in raceproof.__all__:
        assert hasattr(raceproof, name)


def test_sync_and_async_stores_have_the_same_methods() -> None:
    """Same names, same parameters, same words: kept in step by this test, not by hand."""
    public = [name for name in dir(Store) if not name.startswith("_")]
    assert public == [name for name in dir(AsyncStore) if not name.startswith("_")]
    for name in public:
        one, other = getattr(Store, name), getattr(AsyncStore, name)
        assert inspect.getdoc(one) == inspect.getdoc(other)
        if callable(one):
            assert _parameters(one) == _parameters(other)


def _parameters(method: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """Without types: what a caller gives to be called back is sync or async, as its store is."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]
