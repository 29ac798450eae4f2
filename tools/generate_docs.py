"""The generated parts of README.md and docs/: `make docs` writes them, `--check` tells which are stale and fails.

A part stands between `<!-- generated: KIND WORDS -->` and `<!-- end -->`; its kind is one of the functions in `KINDS`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from raceproof.attempts.request import start_request
from raceproof.claims.answers import Claim
from raceproof.claims.request import claim_request
from raceproof.declare.lifecycle import Lifecycle
from raceproof.declare.predicate import EpochGuard
from raceproof.declare.spec import Spec
from raceproof.deliveries import DeliveryState, SendPermit
from raceproof.deliveries.request import send_request
from raceproof.inbox import Inbox
from raceproof.inbox.arrival import Arrival
from raceproof.kernel.lua import constants_of
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.redis import RedisDialect
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Program, Rows, prepare, source
from raceproof.leases import Lease, LeaseGranted
from raceproof.leases.request import holder_request, lease_request
from raceproof.moves.request import request
from raceproof.ops.cli.statements import Shown, statements_of
from raceproof.ops.diagram import mermaid
from raceproof.programs import Programs
from raceproof.schema import Dialect, backfill
from raceproof.schema import ddl as ddl_of
from raceproof.testing.packs import PACKS
from tools import core_page, mutate

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"

_PART = re.compile(r"^<!-- generated: (.+?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_REGION = re.compile(r"^\s*(?:#|--) docs: (\w+)\n", re.MULTILINE)


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "apps").glob("*/README.md")),
    ]


def fill(text: str) -> str:
    """A page with its generated parts written anew."""
    return _PART.sub(lambda part: f"<!-- generated: {part[1]} -->\n{_render(part[1])}\n<!-- end -->", text)


def parts(text: str) -> list[str]:
    """What the page has generated, as its markers say it."""
    return _PART.findall(text)


def _render(what: str) -> str:
    kind, *words = what.split()
    return KINDS[kind](*words).strip("\n")


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


# Examples


def example(name: str, region: str = "") -> str:
    """A file of docs/examples, or the part of it between `# docs: REGION` and the next such line."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    if region:
        _, *found = _REGION.split(text)
        text = dedent(dict(zip(found[::2], found[1::2], strict=True))[region])
    language = "sql" if text.startswith("CREATE") else {".py": "python"}.get(Path(name).suffix, "toml")
    return _fence(language, _REGION.sub("", text))


@cache
def printed(name: str) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return done.stdout


def output(name: str) -> str:
    return _fence("text", printed(name))


def _command() -> Spec[Any]:
    """The lifecycle of the examples, as its TOML form declares it."""
    return Lifecycle.from_toml(EXAMPLES / "command.toml")


# Statements


def statements(store: str, *names: str) -> str:
    """What one call of `Command.ack` sends to a store, as `raceproof sql --statements` tells it: those with these names."""
    found = statements_of(_command().moves["ack"], store)
    if missing := set(names) - {one.name for one in found}:
        raise SystemExit(f"no statement {', '.join(missing)} is sent to {store}")
    return _fence("sql", "\n\n".join(_statement(one) for one in found if one.name in names))


def _statement(shown: Shown) -> str:
    title = f"-- {shown.name}, {shown.note}" if shown.note else f"-- {shown.name}"
    if shown.keys:
        keys = [f"-- KEYS[{place}] {key}" for place, key in enumerate(shown.keys, 1)]
        arguments = [f"-- ARGV[{place}] {value or repr('')}" for place, value in enumerate(shown.parameters, 1)]
        return "\n".join([title, *keys, *arguments, constants_of(shown.text)]).rstrip()
    values = ", ".join(f"{place} {value}" for place, value in enumerate(shown.parameters, 1))
    return "\n".join([title, *([f"-- {values}"] if values else []), f"{shown.text};"])


_GUARDS, _LEAVE, _COUNTING = ("kernel", "guards.lua"), ("claims", "leave.lua"), ("kernel", "counting.lua")
_SHARED = {"moves": (_GUARDS, _LEAVE), "claims": (_COUNTING,), "leases": (_COUNTING,)}
"""What a script is made of beside its own file."""


def lua(primitive: str = "moves") -> str:
    shared = [source(f"raceproof.{package}", name) for package, name in _SHARED.get(primitive, ())]
    return _fence("lua", "".join([*shared, source(f"raceproof.{primitive}", "redis.lua")]))


def ddl(what: str, dialect: Dialect) -> str:
    made: dict[str, Callable[[], list[str]]] = {
        "history": lambda: ddl_of(_command(), dialect=dialect, only="tables"),
        "guards": lambda: ddl_of(_command(), dialect=dialect, only="guards"),
        "claims": lambda: ddl_of(_declared("jobs").Job.work, dialect=dialect, only="indexes"),
        "backfill": lambda: backfill(_declared("jobs").Job, dialect=dialect),
        "attempts": lambda: ddl_of(_declared("logins").logins, dialect=dialect, only="indexes"),
        "leases": lambda: ddl_of(Lease("any"), dialect=dialect),
        "inbox": lambda: ddl_of(Inbox(), dialect=dialect),
    }
    return _fence("sql", "\n".join(made[what]()))


def guard() -> str:
    """What the guard of a leader adds to the WHERE of a write on PostgreSQL."""
    predicate = EpochGuard("postgres", "raceproof_lease", "<name>", 0)
    return _fence("sql", prepare("", predicate.text("leader"), "dollar").text)


# Statements of the other primitives: their programs are run against a store that gives these rows


class Call(NamedTuple):
    """A call of a primitive, by the name of the method that makes it."""

    method: str
    program: Program[Any]
    rows: Mapping[str, Rows] = {}


def sent(primitive: str, store: str, *wanted: str) -> str:
    """What calls of a primitive send to a store: `METHOD/STATEMENT …`, for what the examples declare."""
    dialects = {"postgres": PostgresDialect("dollar", 18), "sqlite": SqliteDialect("question"), "redis": RedisDialect()}
    found: dict[str, Shown] = {}
    for call in _CALLS[primitive](Programs(dialects[store])):
        for one in _traced(call):
            found.setdefault(f"{call.method}/{one.name}", one)
    if missing := [name for name in wanted if name not in found]:
        raise SystemExit(f"{', '.join(missing)} is not sent to {store}; sent are {', '.join(found)}")
    return _fence("sql", "\n\n".join(_statement(found[name]) for name in wanted))


def _traced(call: Call) -> Iterator[Shown]:
    try:
        statement = next(call.program)
        while True:
            begins = statement.name == "begin"
            text = "BEGIN IMMEDIATE" if begins and statement.params else statement.text
            if statement.keys:
                text = ""  # a script, which its page shows in full
            values = () if begins else statement.params
            told = tuple("NULL" if value is None else _UUID.sub("<token>", str(value)) for value in values)
            name = statement.name.split()[0]
            yield Shown(name, text, told, tuple(statement.keys), call.method)
            statement = call.program.send(call.rows.get(name, ()))
    except StopIteration:
        return


_UUID = re.compile("[0-9a-f]{32}")


def _declared(module: str) -> Any:
    """An example's module, for what it declares."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return import_module(module)


def _claims(programs: Programs) -> Iterator[Call]:
    job, claims = _declared("jobs").Job, programs.claims
    claim = job.work
    asked = claim_request(claim, limit=10, by="<by>")
    held = [Claim("<job_id>", claim, "<fence>", "<by>", 1, "QUEUED", 0.0, None)]
    row = ("<job_id>", "QUEUED", "<job_id>")
    found: dict[str, Any] = {
        "move.table": [(False, False)],
        "move.types": [("job_id", "text"), ("result", "text"), ("fence", "bigint")],
        "claim.due": [row],
        "claim.take": [("<job_id>", 1, 1, None)],
        "claim.spent": [row],
        "claim.dead_letter": [("<job_id>", 3, None)],
    }
    if programs.dialect.name == "redis":
        found = dict.fromkeys(("claim.acquire", "claim.dead_letter"), (0, 0))
        found |= {key: [[b"missing"]] for key in ("claim.one", "claim.renew", "claim.give_back")}
    yield Call("claim", claims.acquire(asked), found)
    yield Call("claim", claims.dead_letter(asked), found)
    yield Call("claim_one", claims.one(asked, "<job_id>"), found)
    yield Call("renew", claims.renew(held, claim.lease, None, "<token>"), found)
    yield Call("fail", claims.give_back(held, [1.0], False, "<reason>", None), found)
    yield Call("release", claims.give_back(held, [0.0], True, "<reason>", None), found)
    yield Call("offer", claims.offer(claim, [("<job_id>",)]), found)
    if programs.dialect.name == "postgres":
        asked_moves = [request(job.finish, one, set={"result": "<result>"}) for one in held]
        yield Call("move_many", programs.moves.many(asked_moves), found | {"move.fenced": [(1, "RUNNING", None)]})


def _deliveries(programs: Programs) -> Iterator[Call]:
    pictures, deliveries = _declared("pictures"), programs.deliveries
    for prefix, delivery in (("", pictures.picture), ("receipt:", pictures.receipt)):
        asked = send_request(delivery, "<job_id>", by="<by>")
        permit = SendPermit("<job_id>", delivery, asked.parts, "<fence>", "<by>", 1, DeliveryState.SENDING, False, 0.0)
        found: dict[str, Rows] = {"delivery.look": [("sending", None, None, True, False)]}
        yield Call(prefix + "begin_delivery", deliveries.take(asked), found)
        for method, state in (
            ("sending", DeliveryState.SENDING),
            ("delivered", DeliveryState.DELIVERED),
            ("not_sent", DeliveryState.FAILED),
            ("uncertain", DeliveryState.UNCERTAIN),
        ):
            yield Call(prefix + method, deliveries.mark(permit, state, "<error>", None), found)
        yield Call(prefix + "resolve", deliveries.resolve(asked, DeliveryState.DELIVERED, "<error>"), found)


def _attempts(programs: Programs) -> Iterator[Call]:
    attempts = _declared("logins").logins
    asked = start_request(attempts, "<user_id>", "<login_id>", by="<by>")
    found: dict[str, Any] = {
        "attempt.look": [("pending", "<user_id>", True, True, "<the open one>")],
        "move.fast": [("pending", None)],
        "move.write": [(None, "<the open one>")],
        "attempt.insert": [("<login_id>",)],
        "attempt.pointer": [b"<the open one>"],
        "attempt.start": b"<the open one>",
    }
    yield Call("start_attempt", programs.attempts.start(asked), found)


def _leases(programs: Programs) -> Iterator[Call]:
    lease, leases = Lease("<name>"), programs.leases
    found: dict[str, Any] = {}
    if programs.dialect.name == "redis":
        found = {key: [0, b"", b"0", b""] for key in ("lease.acquire", "lease.renew", "lease.release")}
    held = holder_request(LeaseGranted(lease, "<by>", 0, 0.0))
    yield Call("acquire_lease", leases.acquire(lease_request(lease, "<by>", None)), found)
    yield Call("renew_lease", leases.renew(held), found)
    yield Call("release_lease", leases.release(held), found)


def _inbox(programs: Programs) -> Iterator[Call]:
    arrival = Arrival("<source>", "<event_id>", b"<body>", ordering_key="<ordering_key>")
    found: dict[str, Any] = {"inbox.duplicates": [("<source>", "<event_id>")]}
    if programs.dialect.name == "redis":
        found = {"inbox.receive": [1]}
    yield Call("receive", programs.inbox.receive(Inbox(), [arrival], None), found)
    yield Call("forget_events", programs.inbox.forget(Inbox(), 1000, None))


_CALLS: dict[str, Callable[[Programs], Iterator[Call]]] = {
    "attempts": _attempts,
    "claims": _claims,
    "deliveries": _deliveries,
    "inbox": _inbox,
    "leases": _leases,
}


def mutations(promise: str) -> str:
    """The edits that break a promise, each with the test that notices."""
    found = [one for one in mutate.mutations() if one.promise == promise]
    return "\n".join(f"- {one.name}: `{one.test.split()[0]}`" for one in found) or "- none yet"


def diagram(declared: str = "") -> str:
    """The lifecycle of the examples, or the one of an application, named as `module:class`."""
    if not declared:
        return _fence("mermaid", mermaid(_command()))
    module, _, name = declared.partition(":")
    return _fence("mermaid", mermaid(getattr(import_module(module), name).spec))


# Figures

_SHOWN = (
    "one caller · PostgreSQL, asyncpg · bind · history off",
    "one caller · PostgreSQL, asyncpg · bind · history on",
    "one caller · SQLite, sqlite3 · bind · history off",
    "one caller · Redis, redis-py · bind · history off",
    "64 callers · PostgreSQL ÷ asyncpg on 8 warm connections · history off",
    "64 callers · SQLite ÷ one commit for each · history off",
    "64 callers · Redis ÷ redis.asyncio's pool · history off",
)


def bench() -> str:
    """The figures that the README shows, with the command that measured them."""
    latest, page = ROOT / "bench" / "latest.json", ROOT / "docs" / "bench.md"
    if not latest.exists():
        return "Not measured yet: `make bench` writes `bench/latest.json`, and `make docs` this table."
    found = {result["name"]: result for result in json.loads(latest.read_text(encoding="utf-8"))}
    if missing := [name for name in _SHOWN if name not in found]:
        raise SystemExit(f"bench/latest.json has no {missing}; choose others in {Path(__file__).name}")
    told = re.search(r"Written by `(.+?)` on (\S+?);", page.read_text(encoding="utf-8"))
    source = f"`{told[1]}` on {told[2]}" if told else "`make bench`"
    lines = [f"Measured by {source}; machine, versions and method: [docs/bench.md](docs/bench.md).", ""]
    lines += ["| comparison | ours, moves/s | reference | ratio | quartiles |", "|---|---:|---:|---:|---:|"]
    for name in _SHOWN:
        one = found[name]
        low, high = one["spread"]
        lines.append(
            f"| {name} | {one['ours']:,.0f} | {one['reference']:,.0f} | {one['ratio']:.2f} | {low:.2f}–{high:.2f} |"
        )
    return "\n".join(lines)


def cli(*command: str) -> str:
    """The help of the command line, or of one of its commands."""
    done = subprocess.run(
        [sys.executable, "-c", "from raceproof.ops.cli import main; main()", *command, "--help"],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return _fence("text", done.stdout.replace("Usage: -c", "Usage: raceproof"))


def packs(promise: str) -> str:
    """The scenarios that are explored for a promise."""
    found = [f"`{pack.name}`" for pack in PACKS if promise in pack.promises]
    return f"Explored by `make explore`: {', '.join(found)}; what they have exhausted: [certificates](certificates.md)."


KINDS: dict[str, Callable[..., str]] = {
    "bench": bench,
    "cli": cli,
    "core": core_page.page,
    "ddl": ddl,
    "diagram": diagram,
    "example": example,
    "guard": guard,
    "lua": lua,
    "mutations": mutations,
    "output": output,
    "packs": packs,
    "sent": sent,
    "statements": statements,
}


def stale() -> Iterator[tuple[Path, str]]:
    """The pages that are not as they should be, with their new text."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = fill(text)
        if filled != text:
            yield page, filled


def main(arguments: list[str]) -> int:
    found = list(stale())
    for page, text in found:
        print(("stale: " if arguments == ["--check"] else "wrote ") + str(page.relative_to(ROOT)))
        if arguments != ["--check"]:
            page.write_text(text, encoding="utf-8")
    return int(bool(found) and arguments == ["--check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
