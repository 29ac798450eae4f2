"""Lists in columns, as we write them (JSON in a text), and as an adopted table may have them."""

import json
from typing import Any


def words_in(value: Any) -> list[str]:
    """A list of words: from JSON, an array, or a text with commas."""
    found = _plain(value)
    if isinstance(found, list | tuple):
        return [str(one) for one in found if one is not None]
    return [one.strip() for one in str(found).split(",") if one.strip()] if found else []


def hosts_in(value: Any) -> list[dict[str, Any]]:
    """Hosts with their confidence; a name alone was written by a person."""
    hosts = []
    for one in _listed(_plain(value)):
        if isinstance(one, dict) and "name" in one:
            hosts.append({"name": str(one["name"]), "confidence": float(one.get("confidence") or 0.9)})
        elif isinstance(one, str) and one.strip():
            hosts.append({"name": one.strip(), "confidence": 0.9})
    return hosts


def criteria_in(value: Any) -> list[dict[str, Any]]:
    """Criteria with weight, score and why; those of other code may have another shape, and are left out."""
    wanted = ("criterion", "weight", "score", "why")
    found = _listed(_plain(value))
    return [one for one in found if isinstance(one, dict) and all(name in one for name in wanted)]


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _listed(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
