"""The Secrets that a task may read, for providers that have to hand them over themselves."""

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from apis.references import SecretKeyRef
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound

__all__ = ["SecretReader", "read_keys", "secrets_of"]

SECRET = GroupVersionKind("", "v1", "Secret")

SecretReader: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]
"""The data of a Secret by namespace and name; None if there is none."""


def secrets_of(client: Client) -> SecretReader:
    """Read from the API server, each time."""

    async def read(namespace: str, name: str) -> Mapping[str, bytes] | None:
        try:
            found = await client.get(SECRET, name, namespace=namespace)
        except NotFound:
            return None
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}

    return read


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
