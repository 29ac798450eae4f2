"""`show` and `explain` print a row that can be pasted into a ticket: columns named like secrets stay out of it."""

import json
import sqlite3
from pathlib import Path

from tests.ops.cli.conftest import Cli

DECLARED = """
name = "Vault"
table = "vaults"
key = "key"
statuses = ["shut", "open"]
terminal = ["open"]
[moves.unlock]
from = ["shut"]
to = "open"
where = [["pin", "=", "wanted-canary"]]
"""


def test_secret_columns_are_shown_only_on_request(cli: Cli, tmp_path: Path) -> None:
    """What the row is found by stays readable, whatever it is called."""
    (tmp_path / "vault.toml").write_text(DECLARED)
    with sqlite3.connect(tmp_path / "vault.db") as raw:
        raw.execute("CREATE TABLE vaults (key text PRIMARY KEY, status text, pin text, pwd_hash text, note text)")
        raw.execute("INSERT INTO vaults VALUES ('v-1', 'shut', 'pin-canary', 'hash-canary', 'by the door')")
    raw.close()
    target = (
        "--app",
        str(tmp_path / "vault.toml"),
        "--url",
        f"sqlite:///{tmp_path}/vault.db",
        "Vault",
        "v-1",
    )
    for form in ("table", "json", "jsonl"):
        for command in (("show",), ("explain", "--to", "open")):
            told = cli(*command, *target, "-o", form)
            assert told.exit_code in (0, 3), told.output
            assert "canary" not in told.output, command
    row = json.loads(cli("show", *target, "-o", "json").stdout)["row"]
    assert row == {"key": "v-1", "status": "shut", "pin": "•••", "pwd_hash": "•••", "note": "by the door"}
    assert json.loads(cli("show", *target, "--reveal", "-o", "json").stdout)["row"]["pin"] == "pin-canary"
