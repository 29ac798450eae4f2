#!/usr/bin/env python3
"""What is wrong with the QR logins of a user: `python3 scripts/qr_diagnostics.py 139883458 [--cleanup]`.

Looks at the server of QRLOGIN_STORE, or at redis://127.0.0.1:6379/0. Exit code 6 if something is wrong, 5 if the server
cannot be reached. Needs an environment in which qrlogin is installed.
"""

import argparse
import os
import sys

import click
import redis

from appkit.commands import OK, PROBLEMS, UNREACHABLE
from qrlogin.diagnose import show_health
from qrlogin.note import QRDiagnostics


def main() -> int:
    parser = argparse.ArgumentParser(description="What is wrong with the QR logins of a user.")
    parser.add_argument("user_id", metavar="USER_ID")
    parser.add_argument("--cleanup", action="store_true", help="repair, and remove attempts that have ended")
    parser.add_argument("--json", action="store_true", help="print it for a program")
    asked = parser.parse_args()
    url = os.environ.get("QRLOGIN_STORE") or "redis://127.0.0.1:6379/0"
    try:
        diagnostics = QRDiagnostics(redis.Redis.from_url(url))
        if asked.cleanup:
            for line in diagnostics.cleanup(asked.user_id):
                click.echo(line, err=True)
        health = diagnostics.check_session_health(asked.user_id)
    except (redis.RedisError, OSError) as error:
        click.echo(f"Redis cannot be reached ({type(error).__name__}); set QRLOGIN_STORE", err=True)
        return UNREACHABLE
    show_health(health, "json" if asked.json else "table")
    return OK if health["healthy"] else PROBLEMS


if __name__ == "__main__":
    sys.exit(main())
