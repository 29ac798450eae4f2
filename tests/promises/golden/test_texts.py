"""Every text that a documented declaration sends is in the repository: a change of SQL or Lua is seen in review."""

from pathlib import Path

from raceproof.testing import PostgresServer, ValkeyServer, postgres
from tests.promises.golden.recording import FOLDER, all_texts


def test_the_texts_that_are_sent_are_those_in_the_repository(
    postgres_server: PostgresServer, valkey_server: ValkeyServer
) -> None:
    """`python -m tests.promises.golden.recording` writes them anew; then look at the difference."""
    with postgres(16) as older:
        sent = all_texts(postgres_server, older, f"{valkey_server.url.rsplit('/', 1)[0]}/15")
    kept = {str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.*")}
    assert sent.keys() == kept.keys()
    for name, text in sent.items():
        assert text == kept[name], name


def test_a_text_that_is_changed_is_noticed(tmp_path: Path) -> None:
    """The files are what people read: no text is kept twice, and none is without its name."""
    for path in FOLDER.rglob("*.*"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(("-- ", "CREATE ", "ALTER ")), path
        assert text.endswith("\n"), path
