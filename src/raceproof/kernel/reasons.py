"""Why something failed, in a text that every store can keep, whatever part of it came from outside."""

_LONGEST = 500


def writable(reason: str) -> str:
    """The text without what a store refuses: NUL, lone surrogates, too much of it."""
    return str(reason)[:_LONGEST].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def message_of(error: BaseException) -> str:
    """What an error says; one that cannot be asked is an error all the same."""
    try:
        return str(error)
    except Exception:
        return "<unprintable error: __str__ raised>"


def reason_of(error: BaseException) -> str:
    """The kind of an error and its message, if it has one."""
    return writable(f"{type(error).__name__}: {message_of(error)}".rstrip(": "))
