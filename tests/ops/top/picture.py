"""Draws docs/images/top.svg: `python -m tests.ops.top.picture docs/images/top.svg`, on an SQLite file of its own."""

import asyncio
import re
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from raceproof import connect
from tests.ops.doctor.conftest import Ill, schema
from tests.ops.top.shop import MARKUP, fill, top

_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


async def drawn(page: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as raw:
            for text in schema("sqlite"):
                raw.executescript(text)
            with connect(f"sqlite:///{path}") as db:
                ill = Ill(f"sqlite:///{path}", db, raw, lambda *_: None)
                fill(ill)
                raw.execute("UPDATE ill_jobs SET id = 'job-30', claimed_by = 'worker-2' WHERE id = ?", (MARKUP,))
                raw.execute("DELETE FROM ill_history WHERE key = ?", (MARKUP,))
                app: Any = top(ill, every=2.0)
                app.sub_title = "sqlite:///shop.db"
                async with app.run_test(size=(118, 32)) as pilot:
                    while app.looks < 1:
                        await pilot.pause(0.02)
                    await pilot.press(page)
                    await pilot.pause()
                    # a picture that fetches its fonts from elsewhere would not be ours alone
                    return _FONTS.sub("", str(app.export_screenshot(title="raceproof top"))) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(asyncio.run(drawn(sys.argv[2] if len(sys.argv) > 2 else "1")))
