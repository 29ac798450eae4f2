"""What is refused, what is not, and that there is no third way."""

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raceproof.kernel.errors import CallError
from raceproof.webhooks import BadJson, parse, strict_json
from tests.integrations.intake.fix_unhurried import unhurried

REFUSED = {
    "nothing": (b"", "character 0"),
    "not JSON": (b"{'a': 1}", "character 1"),
    "two values": (b"1 2", "character 2"),
    "a comma too many": (b"[1,]", "character 2" if sys.version_info >= (3, 13) else "character 3"),
    "not UTF-8": (b'{"a": "\xff"}', "byte 7"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "byte 0"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "character 0"),
    "a surrogate in UTF-8": (b'"\xed\xa0\x80"', "byte 1"),
    "NUL": (b'{"a": "b\\u0000"}', "NUL at character 8"),
    "NUL in a key": (b'{"\\u0000": 1}', "NUL at character 2"),
    "a bare NUL": (b'"\0"', "character 1"),
    "NUL after an escaped backslash": (b'"\\\\\\u0000"', "NUL at character 3"),
    "a high surrogate alone": (b'"\\ud83d"', "a lone surrogate at character 1"),
    "a low surrogate alone": (b'"\\uDE00"', "a lone surrogate at character 1"),
    "surrogates the wrong way round": (b'"\\ude00\\ud83d"', "a lone surrogate at character 1"),
    "two high ones": (b'"\\ud83d\\ud83d\\ude00"', "a lone surrogate at character 1"),
    "a low one after a pair": (b'"\\ud83d\\ude00\\ude00"', "a lone surrogate at character 13"),
    "a low one after what only looks high": (b'"\\\\ud83d\\ude00"', "a lone surrogate at character 8"),
    "NaN": (b'{"a": NaN}', "NaN"),
    "Infinity": (b"[Infinity]", "Infinity"),
    "-Infinity": (b"-Infinity", "-Infinity"),
    "a key twice": (b'{"amount": 1, "b": 2, "amount": 3}', "'amount' twice"),
    "a key twice, deep inside": (b'[{"a": {"b": [{"c": 1, "c": 1}]}}]', "'c' twice"),
    "a key twice, once with an escape": (b'{"a": 1, "\\u0061": 2}', "'a' twice"),
    "2 to the 63": (b"9223372036854775808", "64 bits"),
    "below minus 2 to the 63": (b"-9223372036854775809", "64 bits"),
    "5000 digits": (b"9" * 5000, "64 bits"),
    "a double too big": (b"1e309", "double"),
    "minus a double too big": (b"[-1.5E+400]", "double"),
    "65 arrays": (b"[" * 65 + b"]" * 65, "deeper than 64"),
    "65 objects": (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
    "65 with brackets in strings": (b'["]]"' + b',["[{\\"]"' * 64 + b"]" * 65, "deeper than 64"),
    "a hundred thousand": (b"[" * 100_000 + b"]" * 100_000, "deeper than 64"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_it_is_refused_and_the_message_says_what_and_where(why: str) -> None:
    """With one kind of error, which does not carry the body."""
    body, says = REFUSED[why]
    with pytest.raises(BadJson) as caught:
        parse(body)
    assert says in str(caught.value)
    assert caught.value.__cause__ is None


ACCEPTED = {
    "an emoji by a pair": (b'"\\ud83d\\ude00"', "😀"),
    "an emoji as it is": ('"😀"'.encode(), "😀"),
    "what only looks like NUL": (b'"\\\\u0000"', "\\u0000"),
    "what only looks like a surrogate": (b'"\\\\ud800"', "\\ud800"),
    "the largest integer": (b"9223372036854775807", 2**63 - 1),
    "the smallest integer": (b"-9223372036854775808", -(2**63)),
    "a large double": (b"1e308", 1e308),
    "a small double": (b"1e-400", 0.0),
    "64 arrays": (b"[" * 64 + b"]" * 64, None),
    "many beside each other": (b"[" + b",".join([b'{"a": []}'] * 500) + b"]", [{"a": []}] * 500),
    "brackets in strings": (json.dumps(["[{" * 100, '"[' * 100]).encode(), ["[{" * 100, '"[' * 100]),
    "the same key in two objects": (b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
    "spaces around": (b" \r\n\t{} \n", {}),
    "just a word": (b"null", None),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_it_is_accepted(what: str) -> None:
    """At the border of each rule, on the good side."""
    body, value = ACCEPTED[what]
    assert parse(body) == (json.loads(body) if value is None else value)


def test_a_message_does_not_repeat_a_long_key() -> None:
    """Nor does it bring anything but ASCII into a log."""
    key = "ключ\n" * 1000
    with pytest.raises(BadJson) as caught:
        parse(f"{{{json.dumps(key)}: 1, {json.dumps(key)}: 2}}".encode())
    assert len(str(caught.value)) < 300
    assert str(caught.value).isascii()
    assert "\n" not in str(caught.value)


GOOD_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
GOOD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | GOOD_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(GOOD_TEXT, inner),
    max_leaves=30,
)


@unhurried
@given(value=GOOD, ascii_only=st.booleans())
def test_what_is_good_comes_back_as_it_was(value: Any, ascii_only: bool) -> None:
    """With escapes and without."""
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


PIECES = st.sampled_from(
    [
        *'[]{},:"\\ue0d8',
        '"a"',
        "\\ud83d",
        "\\ude00",
        "\\u0000",
        "\\\\",
        "NaN",
        "1e999",
        "1",
        "-",
        " ",
        "é",
        "null",
    ]
)


@unhurried
@given(text=st.lists(PIECES, max_size=30).map("".join) | st.text())
@example('{"a":{"a":1},"a":2}')
def test_there_is_no_third_way(text: str) -> None:
    """`BadJson`, or the value that the standard library finds, without anything in it that we promise to refuse."""
    body = text.encode("utf-8", "surrogatepass")
    try:
        value = parse(body)
    except BadJson:
        return
    assert value == json.loads(body)
    _walk(value, 1)


@unhurried
@given(st.binary())
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    """Nothing else is raised."""
    try:
        parse(body)
    except BadJson:
        pass


def _walk(value: Any, depth: int) -> None:
    match value:
        case str():
            assert "\0" not in value
            value.encode()
        case float():
            assert math.isfinite(value)
        case int():
            assert -(2**63) <= value < 2**63
        case list():
            assert depth <= 64
            for inner in value:
                _walk(inner, depth + 1)
        case dict():
            assert depth <= 64
            for key, inner in value.items():
                _walk(key, depth)
                _walk(inner, depth + 1)


@unhurried
@given(depth=st.integers(1, 200), kinds=st.lists(st.booleans(), min_size=200, max_size=200))
def test_the_border_of_nesting_is_exact(depth: int, kinds: list[bool]) -> None:
    """Whatever arrays and objects it is made of."""
    text = "1"
    for is_array in kinds[:depth]:
        text = f'["]",{text}]' if is_array else f'{{"[":{text}}}'
    if depth <= 64:
        assert parse(text.encode()) == json.loads(text)
    else:
        with pytest.raises(BadJson, match="deeper than 64"):
            parse(text.encode())


def told(text: bytes) -> tuple[str, str]:
    """What comes of a body: the value, so that 0, 0.0 and -0.0 are three, or the refusal."""
    try:
        return "accepted", repr(parse(text))
    except BadJson as bad:
        return "refused", str(bad)


def without_orjson(text: bytes) -> tuple[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "orjson", None)
        return told(text)


@pytest.mark.parametrize("body", [body for body, _ in (*REFUSED.values(), *ACCEPTED.values())])
def test_what_is_refused_does_not_depend_on_orjson(body: bytes) -> None:
    """Nor do the words of the refusal."""
    assert told(body) == without_orjson(body)


KEYS = st.sampled_from(["a", "b", "a:", ":", '"', '":', " :", "\\", "é", ""])
WRITTEN_KEYS = KEYS.flatmap(
    lambda key: st.sampled_from(
        [
            json.dumps(key),
            json.dumps(key, ensure_ascii=False),
            '"' + "".join(f"\\u{ord(character):04x}" for character in key) + '"',
            '"' + "".join(f"\\u{ord(character):04X}" for character in key) + '"',
        ]
    )
)
NUMBERS = st.sampled_from(
    [
        *("0", "-0", "-0.0", "1e5", "1E400", "-1e-400", "1.0", "01", "1."),
        *("123456789012345678", "1234567890123456789", "0.1234567890123456789"),
        *("9223372036854775808", "18446744073709551615", "18446744073709551616"),
    ]
)
SPACE = st.sampled_from(["", "", " ", "\n", "\t"])
WRITTEN = st.recursive(
    WRITTEN_KEYS | NUMBERS | st.sampled_from(["null", "true", "NaN", '"\\ud83d"', '"\\u0000"']),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda values: f"[{','.join(values)}]")
        | st.lists(st.tuples(WRITTEN_KEYS, SPACE, SPACE, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f"{k}{s}:{t}{v}" for k, s, t, v in pairs) + "}"
        )
    ),
    max_leaves=20,
)


@unhurried
@given(text=WRITTEN | st.lists(PIECES, max_size=30).map("".join) | st.text())
@example('{"a":1,"a":"\\u003a"}')
@example('{"a" :1,"a": 2}')
@example('{"a":1,"a":":"}')
@example('{"a":"\\":","a":1}')
def test_orjson_changes_neither_a_value_nor_a_refusal(text: str) -> None:
    """Whatever it would take differently is read without it: keys that come twice, however they are written, above all."""
    body = text.encode("utf-8", "surrogatepass")
    assert told(body) == without_orjson(body)


def test_an_ordinary_body_is_read_by_orjson() -> None:
    """Or else all of this would be for nothing."""
    body = json.dumps({"url": "https://a:1", "text": "Привет:\n", "at": [{"id": 1.5}]}).encode()
    assert strict_json._quickly(body) == json.loads(body)


@pytest.mark.parametrize("body", ["{}", None, bytearray(b"{}")], ids=lambda body: type(body).__name__)
def test_something_else_than_bytes_is_the_caller_s_error(body: Any) -> None:
    """It would have failed deep inside, or not at all."""
    with pytest.raises(CallError, match="parse takes the bytes of a body as they arrived, got"):
        parse(body)
