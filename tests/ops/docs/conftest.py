"""An example is run once, also where several processes share the tests."""

import fcntl
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import generate_docs


@pytest.fixture(scope="session", autouse=True)
def _each_example_is_run_once(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[None]:
    """What an example prints is kept in a folder that the processes of this run have in common."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    run = generate_docs.printed

    @cache
    def printed(name: str) -> str:
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _kept(folder / f"{name}.txt", name)

    def _kept(file: Path, name: str) -> str:
        if not file.exists():
            file.write_text(run(name), encoding="utf-8")
        return file.read_text(encoding="utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generate_docs, "printed", printed)
        yield
