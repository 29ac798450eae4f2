"""JSON from strangers: what `parse` returns can be stored anywhere, and means the same to every reader.

Refused, beside what is no JSON: bytes that are not UTF-8, NUL and lone surrogates (no database takes them), NaN and
Infinity, integers outside of signed 64 bits, numbers that overflow a double, a key twice in one object, nesting deeper
than 64. Numbers with a fraction become floats and may lose digits, as everywhere in JSON.

The C scanner of the standard library does the work, and the checks are cheap for an ordinary body: no walk over its nodes.
Where orjson is installed, it reads what it would read alike; whatever it refuses or might take differently is read again
as if it were not there, so that values and refusals are the same with it and without it.
"""

import json
import re
from typing import Any, NoReturn

from raceproof.kernel.errors import CallError, RaceproofError

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

DEEPEST = 64

_UNSURE = object()
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
# Every digit as 0: a number outside of 64 bits has 19 of them, one outside of a double also has them, or an exponent of 3.
_FLAT = bytes.maketrans(b"123456789E", b"000000000e")
_LONG, _EXPONENT, _PLUS_EXPONENT = b"0" * 19, b"0e000", b"0e+000"
_SUSPICIOUS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
# All escapes, one after the other, each a good one; possessive, so that it is linear. Where it stops is the bad one.
_GOOD_ESCAPES = re.compile(
    r"""[^\\]*+(?:\\(?:
        [^u]
      | u(?!0000|[dD][89a-fA-F])....
      | u[dD][89abAB]..\\u[dD][c-fC-F]..
    )[^\\]*+)*+""",
    re.VERBOSE | re.DOTALL,
)
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]++")


class BadJson(RaceproofError):
    """A body that is not JSON, or JSON that is refused; the message says what it is and where."""


def parse(body: bytes) -> Any:
    """The value of a JSON body, or `BadJson`; nothing else is ever raised for bytes."""
    if not isinstance(body, bytes):
        raise CallError(f"parse takes the bytes of a body as they arrived, got {type(body).__name__}")
    if orjson is not None:
        value = _quickly(body)
        if value is not _UNSURE:
            return value
    return _slowly(body)


def _quickly(body: bytes) -> Any:
    """The value by orjson, if it is certainly right; `_UNSURE` if it needs a closer look.

    Of a key that comes twice, orjson keeps the last and says nothing. But then what it writes of the value has a colon
    less: each pair has one, those inside of texts are the same, and none of them was hidden in an escape.
    """
    if b"\\" in body and (b"\\u0000" in body or b"\\u003" in body):
        return _UNSURE
    if body.count(b"[") + body.count(b"{") > DEEPEST or _LONG in body.translate(_FLAT):
        return _UNSURE
    try:
        value = orjson.loads(body)
        return value if orjson.dumps(value).count(b":") == body.count(b":") else _UNSURE
    except (ValueError, TypeError):
        return _UNSURE


def _slowly(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        # not chained: the error of the codec carries the whole body
        raise BadJson(f"not UTF-8 at byte {error.start}") from None
    try:
        value = _value(body, text)
    except json.JSONDecodeError as error:
        raise BadJson(f"no JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise _too_deep() from None
    if "\\u" in text:
        _check_escapes(text)
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(text)
    return value


def _value(body: bytes, text: str) -> Any:
    """The numbers are looked at one by one only if there may be a large one, for each look is a call."""
    flat = body.translate(_FLAT)
    large = _LONG in flat or _EXPONENT in flat or _PLUS_EXPONENT in flat
    decoder = _careful if large else _quick
    if text[:1] in ("{", "["):
        value, end = decoder.raw_decode(text)
        if end == len(text):
            return value
    # spaces around it, a bare value, or nonsense
    return decoder.decode(text)


def _check_escapes(text: str) -> None:
    if _SUSPICIOUS.search(text):
        good = _GOOD_ESCAPES.match(text)
        end = good.end() if good else 0
        if end != len(text):
            what = "NUL" if text.startswith("\\u0000", end) else "a lone surrogate"
            raise BadJson(f"{what} at character {end}")


def _check_depth(text: str) -> None:
    """Take the innermost brackets away, as often as is allowed: nothing may be left. The text is known to be JSON."""
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text)).replace("{", "[").replace("}", "]")
    for _ in range(DEEPEST):
        brackets = brackets.replace("[]", "")
        if not brackets:
            return
    raise _too_deep()


def _too_deep() -> BadJson:
    return BadJson(f"nested deeper than {DEEPEST}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BadJson(f"the key {_shown(twice)} twice in one object")
    return found


def _integer(text: str) -> int:
    if len(text) <= 18:
        return int(text)
    # the length first: int() takes quadratic time, and refuses more than 4300 digits with an error of its own
    if len(text) > 20 or not _SMALLEST <= (value := int(text)) <= _LARGEST:
        raise BadJson(f"the number {text[:24]}… is outside of 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value - value != 0:
        raise BadJson(f"the number {text[:24]}… is outside of a double")
    return value


def _constant(text: str) -> NoReturn:
    raise BadJson(f"{text} is no JSON")


def _shown(key: str) -> str:
    return ascii(key if len(key) <= 40 else key[:40] + "…")


_quick = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)
_careful = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_constant)
