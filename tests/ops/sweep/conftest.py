"""A sweep is tried on the same grounds as the contract."""

from tests.promises.contract.conftest import ground

__all__ = ["ground"]
