"""A value that is compared and never shown: its repr says that it is there and nothing more.

Only `reveal()` and `reveal_bytes()` give it away. Frames that hold a `Secret` show nothing of it either, even where a
traceback prints local variables. Not promised: that the memory is wiped, or that the text it was made from is gone.
"""

import hmac
from typing import NoReturn, Self


class Secret:
    """A text or some bytes that must not be seen: `Secret(os.environ["WEBHOOK_SECRET"])`."""

    __slots__ = ("_value",)

    def __init__(self, value: str | bytes) -> None:
        self._value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)

    def reveal(self) -> str:
        """The text, for the one place that needs it."""
        text = self._value.decode("utf-8", "replace")
        if text.encode() != self._value:
            # not the error of the codec: that one carries the bytes
            raise ValueError("this secret is not a text; ask for reveal_bytes()")
        return text

    def reveal_bytes(self) -> bytes:
        """The bytes, for the one place that needs them."""
        return self._value

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return "Secret(redacted)"

    __str__ = __repr__

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled: what is pickled ends up in files and queues")
