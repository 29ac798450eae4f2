"""Log lines without secrets, tracebacks included."""

import logging
from urllib.parse import unquote

from pydantic import SecretStr

from imagebot.settings import Settings


class Redacting(logging.Formatter):
    """Whatever a library puts into a message, the secrets of the settings do not leave the process this way."""

    def __init__(self, inner: logging.Formatter, settings: Settings) -> None:
        super().__init__()
        self._inner = inner
        told = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
        password = settings.database.partition("://")[2].rpartition("@")[0].partition(":")[2]
        direct = settings.direct_database_url.partition("://")[2].rpartition("@")[0].partition(":")[2]
        told += [password, unquote(password), direct, unquote(direct)]
        self._secrets = sorted({one for one in told if len(one) >= 4}, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        line = self._inner.format(record)
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return line


def redact_logs(settings: Settings) -> None:
    """Put it before everything that the root logger writes."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Redacting(handler.formatter or logging.Formatter(), settings))
