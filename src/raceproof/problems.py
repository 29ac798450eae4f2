"""What is wrong with a declaration, all of it in one message."""

from raceproof.errors import DeclarationError


class Problems:
    """Collects everything that is wrong, so that a declaration is mended once and not five times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[str] = []

    def require(self, holds: bool, problem: str) -> None:
        if not holds and problem not in self._found:
            self._found.append(problem)

    def raise_if_any(self) -> None:
        if self._found:
            raise DeclarationError(f"lifecycle {self._name}: " + "; ".join(self._found))
