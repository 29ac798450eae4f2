"""A lifecycle, declared once: which statuses a kind of row has and which named moves exist.

Rules for whoever declares one (all are checked when the class is made, so a bad one does not import):
  - every status can be reached from an initial one, and every status in `terminal` has no way out;
  - a status without a way out must be listed in `terminal`, if `terminal` is given at all;
  - a move has at least one source and never leads back to one of its sources;
  - two moves do not have the same sources, target and guards, and no column has two roles.

Everything else (SQL, Lua, triggers, history, diagrams, metrics, explain) is derived from the frozen `Spec`.
"""

import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args

from raceproof.declare.build import build_spec, declared_history, known_settings, spec_from_dict
from raceproof.declare.claim_forms import Form
from raceproof.declare.claims import checked_claim
from raceproof.declare.predicate import Where, predicates
from raceproof.declare.problems import names
from raceproof.declare.spec import Backoff, Claimable, Expiry, History, Move, Spec
from raceproof.declare.statuses import declared_status, declared_statuses, members_of, text_of_status
from raceproof.kernel.errors import CallError, DeclarationError
from raceproof.kernel.quoting import literal

S = TypeVar("S", bound=str | Enum)


def move(
    *sources: S, to: S, stamp: str | Iterable[str] = (), sets: str | Iterable[str] = (), where: Where = ()
) -> Move[S]:
    """Declare a move: from any of `sources` to `to`.

    `stamp` columns get the store's clock, `sets` names the columns that a caller may set along with the move, and
    `where` are guards that must hold for every call.
    """
    what = f"move to {to!r}"
    return Move(
        declared_statuses(what, sources),
        declared_status(f"{what}: to", to),
        stamp=names(f"{what}: stamp", stamp),
        sets=names(f"{what}: sets", sets),
        where=predicates(where),
    )


def claimable(
    move: Move[S] | None = None,
    *,
    lease: float,
    at: S | tuple[S, ...] | list[S] = (),
    form: Form | None = None,
    order_by: str | Iterable[str] = (),
    ordering_key: str | None = None,
    where: Where = (),
    attempts: str | None = None,
    max_attempts: int | None = None,
    not_before: str | None = None,
    backoff: Backoff | None = None,
    back: Move[S] | None = None,
    dead_letter: Move[S] | None = None,
) -> Claimable[S]:
    """Declare a claim: rows that are taken by one holder at a time, for `lease` seconds by the store's clock.

    `move` is what claiming does to the status; without it, rows `at` these statuses are claimed and stay there. The same
    claim finds a row whose holder has died. `attempts` is the column that counts claims, `max_attempts` how many a row may
    have, and `dead_letter` the move of a row that has used them up. `back` is the move of a row that is given back.
    `not_before` is the column with the time until which a row backs off, set after a failure by `backoff`. Of the rows with
    the same value in the column `ordering_key`, only the first, in the order of `order_by`, can be claimed.
    """
    return checked_claim(
        move,
        at=at,
        lease=lease,
        form=form,
        order_by=order_by,
        ordering_key=ordering_key,
        where=where,
        attempts=attempts,
        max_attempts=max_attempts,
        not_before=not_before,
        backoff=backoff,
        back=back,
        dead_letter=dead_letter,
    )


class Lifecycle(Generic[S]):
    """Subclass it with your statuses and moves; the class is never instantiated.

    class Command(Lifecycle[Status], table="commands", key="cmd_id", revision="rev"):
        send = move(Status.QUEUED, Status.SEND_FAILED, to=Status.SENT, stamp="sent_at")
    """

    spec: ClassVar[Spec[Any]]

    @known_settings
    def __init_subclass__(
        cls,
        *,
        table: str,
        key: str | Iterable[str] = "id",
        column: str = "status",
        initial: str | Enum | Iterable[str | Enum] | None = None,
        terminal: str | Enum | Iterable[str | Enum] | None = None,
        revision: str | None = None,
        fence: str | None = None,
        tenant: str | None = None,
        history: History | str | bool | None = None,
        expires: Expiry | None = None,
    ) -> None:
        super().__init_subclass__()
        statuses = _statuses(cls)
        what = f"lifecycle {cls.__name__}"
        cls.spec = build_spec(
            name=cls.__name__,
            table=table,
            key=names(f"{what}: key", key),
            column=column,
            statuses=statuses,
            initial=declared_statuses(f"{what}: initial", statuses[:1] if initial is None else initial),
            terminal=None if terminal is None else declared_statuses(f"{what}: terminal", terminal),
            moves={name: value for name, value in vars(cls).items() if isinstance(value, Move)},
            claims={name: value for name, value in vars(cls).items() if isinstance(value, Claimable)},
            revision=revision,
            fence=fence,
            tenant=tenant,
            history=declared_history(f"lifecycle {cls.__name__}: history", history),
            expires=expires,
        )
        for name, bound in (*cls.spec.moves.items(), *cls.spec.claims.items()):
            setattr(cls, name, bound)

    def __init__(self) -> None:
        raise TypeError(
            f"{type(self).__name__} is a declaration: use its moves, as in {type(self).__name__}.spec.moves"
        )

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Spec[str]:
        """The declaration as plain data, for lifecycles that come from a file."""
        return spec_from_dict(data)

    @staticmethod
    def from_toml(path: str | Path) -> Spec[str]:
        """The declaration from a TOML file with the keys of `Spec.to_dict`."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DeclarationError(f"{path}: {error}") from None
        return spec_from_dict(data)


def spec_of(declared: "type[Lifecycle[S]] | Spec[S]") -> Spec[S]:
    """The spec of a lifecycle, whichever way it was declared."""
    if isinstance(declared, Spec):
        return declared
    spec = getattr(declared, "spec", None)
    if isinstance(spec, Spec):
        return spec
    raise CallError(f"{declared!r} is not a lifecycle; pass a Lifecycle class or what Lifecycle.from_toml returned")


def _statuses(cls: type[Lifecycle[Any]]) -> tuple[Any, ...]:
    what = f"lifecycle {cls.__name__}"
    given: list[Any] = []
    for base in getattr(cls, "__orig_bases__", ()):
        for argument in get_args(base):
            if statuses := members_of(f"{what}: statuses", argument):
                for status in statuses:
                    literal(text_of_status(status))
                return statuses
            given.append(argument)
    raise DeclarationError(
        f"{what}: name its statuses as an Enum with text values or as a Literal, as in "
        f"class {cls.__name__}(Lifecycle[Status], …)" + (f"; got {given[0]!r}" if given else "")
    )
