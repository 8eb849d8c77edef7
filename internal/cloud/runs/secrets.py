"""The Secrets that a task may read, for providers that have to hand them over themselves."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from apis.references import SecretKeyRef

__all__ = ["SecretReader", "read_keys"]

SecretReader: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]
"""The data of a Secret by namespace and name; None if there is none."""


async def read_keys(
    reader: SecretReader, namespace: str, refs: Iterable[SecretKeyRef]
) -> dict[tuple[str, str], bytes]:
    """Return the keys that there are, by Secret and key; every Secret is read once."""
    wanted: dict[str, set[str]] = {}
    for ref in refs:
        wanted.setdefault(ref.name, set()).add(ref.key)
    values: dict[tuple[str, str], bytes] = {}
    for name, keys in wanted.items():
        data = await reader(namespace, name) or {}
        values.update({(name, key): data[key] for key in keys if key in data})
    return values
