"""The architecture gate (A13) finds what note 001 forbids, in every spelling that a tired person would use."""

from pathlib import Path

import pytest

from imagebot.verify_code import entry_points, forbidden, modules

FORBIDDEN = {
    "from os.path import *": "import *",
    "import asyncpg": "a handler imports asyncpg",
    "import sqlalchemy.orm": "a handler imports sqlalchemy.orm",
    "from sqlalchemy import text": "a handler imports sqlalchemy.text",
    "from appkit.database import Database": "a handler imports appkit.database",
    "from appkit import database": "a handler imports appkit.database",
    "from imagebot import money": "a handler imports imagebot.money",
    "async def f():\n    import sqlite3": "a handler imports sqlite3",
    "import time\nasync def f():\n    time.sleep(5)": "time.sleep in async code",
    "from time import sleep\nasync def f():\n    sleep(5)": "time.sleep in async code",
    "from time import sleep as nap\nasync def f():\n    if 1:\n        nap(5)": "time.sleep in async code",
    "import time as t\nasync def f():\n    t.sleep(5)": "time.sleep in async code",
    "import urllib.request\nasync def f():\n    urllib.request.urlopen('x')": "urllib.request.urlopen in async",
    "from urllib.request import urlopen\nasync def f():\n    urlopen('x')": "urllib.request.urlopen in async",
    "import requests\nasync def f():\n    requests.get('x')": "requests.get in async code",
    "import subprocess\nasync def f():\n    subprocess.run([])": "subprocess.run in async code",
    'q = "SELECT pg_try_advisory_lock(4294967295, 1)"': "an advisory lock of its own",
    'q = "SELECT pg_advisory_lock($1)"': "an advisory lock of its own",
    "from decimal import Decimal": "Decimal",
    "import decimal": "Decimal",
    "import json\njson.dumps({}, default=float)": "lets a Decimal through",
    "from json import dumps\ndumps({}, default=str)": "lets a Decimal through",
}
ALLOWED = (
    "import asyncio\nasync def f():\n    await asyncio.sleep(5)",
    "import time\ndef f():\n    time.sleep(5)",
    "import asyncio, time\nasync def f():\n    await asyncio.to_thread(time.sleep, 5)",
    "import time\nasync def f():\n    def g():\n        time.sleep(5)\n    return g",
    "import json\njson.dumps({})",
    "from imagebot.services import DatabaseService",
)
PROGRAMS = (
    "from aiohttp import web\nweb.run_app(web.Application())",
    "from aiohttp.web import run_app\nrun_app(None)",
    "from aiohttp import web\nsite = web.TCPSite",
    "import asyncio\nasync def f():\n    await asyncio.start_server(f, port=1)",
    "if __name__ == '__main__':\n    print()",
)


def module(folder: Path, source: str) -> Path:
    """A tree with one handler in it."""
    place = folder / "handlers"
    place.mkdir()
    (place / "one.py").write_text(source)
    return folder


@pytest.mark.parametrize("source", FORBIDDEN)
def test_a_forbidden_pattern_is_found_however_it_is_spelled(source: str, tmp_path: Path) -> None:
    found = list(forbidden(modules(module(tmp_path, source))))
    assert len(found) == 1
    assert FORBIDDEN[source] in found[0]


@pytest.mark.parametrize("source", ALLOWED)
def test_what_is_allowed_is_not_found(source: str, tmp_path: Path) -> None:
    assert list(forbidden(modules(module(tmp_path, source)))) == []


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_second_entry_point_is_found(source: str, tmp_path: Path) -> None:
    tree = module(tmp_path, source)
    (tree / "main_render.py").write_text("from aiohttp import web\nsite = web.TCPSite")
    found = list(entry_points(modules(tree), "main_render.py"))
    assert found
    assert all(one.startswith("one.py:") for one in found)
