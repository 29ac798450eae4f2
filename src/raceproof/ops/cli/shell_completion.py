"""Shell completion for names of lifecycles, moves, statuses and targets; it offers nothing where an import fails."""

from collections.abc import Callable, Iterable
from typing import Any

import click

from raceproof.declare.spec import Spec
from raceproof.ops.cli.targets import find_lifecycle, find_lifecycles, find_targets


def complete_lifecycle(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    try:
        names = [spec.name for spec in find_lifecycles(context.params.get("apps") or ())]
    except Exception:
        return []
    return _starting(names, incomplete)


def complete_target(*kinds: type[Any]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the names of declarations of these kinds."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            names = [target.name for target in find_targets(context.params.get("apps") or (), (), *kinds)]
        except Exception:
            return []
        return _starting(names, incomplete)

    return complete


def complete_move(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    spec = _chosen(context)
    return _starting(spec.moves, incomplete) if spec else []


def complete_status(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    spec = _chosen(context)
    return _starting(spec.status_of, incomplete) if spec else []


def _chosen(context: click.Context) -> Spec[Any] | None:
    # behind an option that still lacks its value, click leaves the arguments where they are
    name = context.params.get("lifecycle") or next(iter(context.args), "")
    try:
        return find_lifecycle(context.params.get("apps") or (), name)
    except Exception:
        return None


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
