"""Whose row it is: a store that is limited to one tenant reads the rows and the history of that tenant alone.

A history keeps a key as one text that begins with the tenant and a colon; a colon in the tenant is escaped, so the text of
one tenant is never the beginning of another's.
"""

from collections.abc import Sequence
from typing import Any

from raceproof.kernel.keys import key_text
from raceproof.kernel.quoting import identifier, parameter


def is_of_tenant(column: str | None, parts: Sequence[Any], tenant: Any) -> bool:
    """Whether a store of this tenant may see the row with this key; `column` is the tenant column, if there is one."""
    return column is None or tenant is None or str(parts[0]) == str(tenant)


def row_of_tenant(column: str | None, tenant: Any, row: str = "t") -> str:
    """The same as a predicate with the parameter `tenant`; empty if there is nothing to compare."""
    return f"{row}.{identifier(column)} = {parameter('tenant')}" if column and tenant is not None else ""


def history_start(tenant: Any) -> str | None:
    """How the keys of this tenant begin in a history; None without one."""
    return None if tenant is None else key_text((tenant, ""))


def entry_of_tenant(tenant: Any, entry: str = "h") -> str:
    """A predicate for the entries of a history, with the parameter `tenant_text`; empty without a tenant."""
    if tenant is None:
        return ""
    start = f"CAST({parameter('tenant_text')} AS text)"
    return f"substr({entry}.key, 1, length({start})) = {start}"
