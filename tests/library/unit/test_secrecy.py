"""One list of secret names, and texts that go out without a piece of a password."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raceproof import column
from raceproof.kernel.secrecy import is_secret, redacted
from raceproof.ops.cli.location import parse_location
from raceproof.ops.cli.options import Run

SECRET = [
    "pwd", "password", "passwd", "passphrase", "db_pass", "userpass", "auth", "x-auth", "authorization",
    "proxy_authorization", "oauth_state", "otp", "totp_seed", "pin", "userPin", "PIN", "jwt", "session",
    "sessionId", "session_string", "PHPSESSID", "hash", "password_hash", "key", "api_key", "apikey",
    "x-api-key", "sshKey", "private_pem", "secret", "webhook_secret", "token", "fence_token",
    "refresh_tokens", "cookie", "signature", "hmac", "csrf", "credential", "DSN", "sentry_dsn", "salt",
]  # fmt: skip
INNOCENT = [
    "id", "status", "shipping", "spinning", "author", "authored_by", "authority", "monkey", "keyboard",
    "footprint", "passed_at", "passenger", "hashtag", "event_id", "ordering_key", "Idempotency-Key",
    "primary_key", "created_at", "x-github-event", "rev", "carrier",
]  # fmt: skip
# whitespace ends a URL, so it cannot stand in one unencoded
in_urls = st.text(st.characters(codec="utf-8").filter(lambda one: not one.isspace()), min_size=1)
anything = st.text(st.characters(codec="utf-8"), min_size=1)


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_speaks_of_a_secret_is_known(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", INNOCENT)
def test_a_name_that_only_contains_such_a_word_is_shown_unless_it_is_hidden(name: str) -> None:
    assert not is_secret(name)
    assert is_secret(name, hidden=[name])


@example("p/w")
@example("p@ss")
@example("p://u:q@x")
@example("a?b#c=d")
@example("password='x")
@given(in_urls)
def test_no_piece_of_a_password_in_a_url_is_left(password: str) -> None:
    for user in ("ann", ""):
        text = f"cannot reach postgresql://{user}:{password}@db.example:5432/shop in 5 s"
        assert redacted(text) == "cannot reach postgresql://***@db.example:5432/shop in 5 s"


@example("a b")
@example("it's \\ 'so'")
@example("://u:p@x")
@given(anything)
def test_no_piece_of_a_quoted_password_is_left(password: str) -> None:
    """As libpq quotes it, and as a dictionary or JSON is printed."""
    quoted = "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"
    assert redacted(f"host=db password={quoted} port=5") == "host=db password=*** port=5"
    assert redacted(f"host=db password = {quoted} port=5") == "host=db password = *** port=5"
    assert redacted(f"{{'host': 'db', 'password': {quoted}}}") == "{'host': 'db', 'password': ***}"


@given(in_urls.filter(lambda text: text[0] not in "'\"" and "://" not in text))
def test_no_piece_of_an_unquoted_password_is_left(password: str) -> None:
    for name in ("password", "PGPASSWORD", "sslpassword", "api_key", "token"):
        assert redacted(f"bad {name}={password} in the settings") == f"bad {name}=*** in the settings"


def test_a_quote_that_is_never_closed_hides_the_rest() -> None:
    assert redacted("host=db password='half of it") == "host=db password=***"


def test_headers_of_a_request_lose_what_they_prove() -> None:
    assert redacted("Authorization: Basic YW5uOnB3, then") == "Authorization: ***, then"
    assert redacted("sent Bearer abc.def-ghi") == "sent Bearer ***"


@pytest.mark.parametrize(
    "text",
    [
        "see https://medium.com/@ann/races",
        "no row has key=5",
        "DETAIL: Key (id)=(5) already exists.",
        "a @ b",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text


def test_a_guard_on_a_secret_column_is_told_without_its_value() -> None:
    """Wherever it is told: in the answer of a move, in `explain`, in a log."""
    assert str(column("session_token") == "canary") == "session_token = •••"
    assert str(column("pin").is_null()) == "pin is null"
    assert str(column("attempts") < 3) == "attempts < 3"


def test_the_command_line_knows_the_same_names() -> None:
    """A secret parameter of the URL, and one that was never told to it."""
    location = parse_location("postgresql://ann:pw-one@db/shop?sslkey=pw-two&pwd=pw-three")
    assert location.secrets >= {"pw-one", "pw-three"}
    run = Run(secrets=set(location.secrets))
    assert "pw-" not in run.redacted("pw-one pw-three redis://:pw-four@cache password='pw-five six'")
