"""What the settings of all applications share: secrets that cannot be blank, names of hosts, and readable errors."""

import sys
from typing import Annotated, Any, TypeVar

import click
from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode

from appkit.hosts import check_name

SHORTEST = 16
"""Characters of a secret, at least."""
GENERATE = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
USAGE = 2


def _check(text: str) -> None:
    if not text.strip():
        raise ValueError(f"is blank: unset it, or set a secret, such as one made by {GENERATE}")
    if len(text.strip()) < SHORTEST:
        raise ValueError(f"is too short: use {SHORTEST} characters or more, such as those made by {GENERATE}")


def _strong(secret: SecretStr) -> SecretStr:
    _check(secret.get_secret_value())
    return secret


def _all_strong(secret: SecretStr) -> SecretStr:
    for one in secret.get_secret_value().split(","):
        _check(one)
    return secret


SecretText = Annotated[SecretStr, AfterValidator(_strong)]
"""A secret that is set: neither blank nor short. An unset variable that became "" must not open a door."""

SecretTexts = Annotated[SecretStr, AfterValidator(_all_strong)]
"""Several secrets with commas between them, each of them neither blank nor short."""


def _names(told: object) -> object:
    if not isinstance(told, str):
        return told
    return tuple(check_name(one.strip()) for one in told.split(",") if one.strip())


HostNames = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]
"""Names under which an application is reached, with commas between them."""

Kind = TypeVar("Kind", bound=BaseSettings)


def load(kind: type[Kind], **more: Any) -> Kind:
    """The settings from the environment, or one line for each that is wrong and the end of the process.

    Values are never printed: some of them are secrets.
    """
    try:
        return kind(**more)
    except ValidationError as error:
        prefix = kind.model_config.get("env_prefix", "")
        for one in error.errors(include_input=False, include_url=False):
            where = "_".join(map(str, one["loc"])).upper()
            name = f"{prefix}{where}" if where else "settings"
            click.echo(f"{name}: {one['msg'].removeprefix('Value error, ')}", err=True)
        sys.exit(USAGE)
