"""The one way to a Secret that an object of a user names, in every system.

Whoever may edit such an object need not have a right to Secrets, and names the server that gets them. So a Secret is
read for a purpose only with the label of it, which takes a right to write the Secret.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apis.references import SecretKeyRef
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest
from ctrlruntime.client import Client, NotFound

__all__ = [
    "NamedKey",
    "Purpose",
    "SecretRefused",
    "allow_command",
    "labelled_secrets",
    "named_keys",
    "read_named",
    "refusal_of",
]

SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]


class Purpose(StrEnum):
    """What a Secret may be used for. The value is the key of its label, whose value is `true`."""

    DATABASE = "tenancy.ctrlruntime.dev/database"
    """Registries may connect to databases with it."""
    REQUESTS = "cloud.ctrlruntime.dev/requests"
    """Requests of instances may send it in headers."""
    CLUSTER = "cloud.ctrlruntime.dev/cluster"
    """Instances may open the cluster of a kubeconfig in it."""
    TERRAFORM = "cloud.ctrlruntime.dev/terraform"
    """Terraform of instances gets it: a token, or variables."""

    @property
    def selector(self) -> str:
        """Return the selector of the Secrets with the label."""
        return f"{self.value}=true"


class SecretRefused(Exception):
    """A Secret has no label of the purpose. The message has the command that sets it."""


@dataclass(frozen=True, slots=True, order=True)
class NamedKey:
    """One key of a Secret that an object names, or with the key None all of them."""

    name: str
    key: str | None
    purpose: Purpose


def named_keys(references: Iterable[SecretKeyRef], purpose: Purpose) -> list[NamedKey]:
    """Return keys that are named for a purpose."""
    return [NamedKey(each.name, each.key, purpose) for each in references]


def refusal_of(namespace: str, name: str, missing: Collection[Purpose]) -> str:
    """Return what is wrong with a Secret without these labels, and the command that sets them."""
    labels = " ".join(each.selector for each in sorted(missing))
    return (
        f"The Secret {name!r} has no label {labels}: nothing is read from it or sent; "
        f"{allow_command(namespace, name, missing)}"
    )


def allow_command(namespace: str, name: str, purposes: Collection[Purpose]) -> str:
    """Return the advice with the command that sets the labels."""
    labels = " ".join(each.selector for each in sorted(purposes))
    return f"to allow it: kubectl -n {namespace} label secret {name} {labels}"


async def read_named(
    client: Client, namespace: str, keys: Iterable[NamedKey]
) -> dict[tuple[str, str], bytes]:
    """Return the values of the keys that there are, by Secret and key; every Secret is read once.

    Raises SecretRefused for one without the label of each purpose, and what the client raises.
    """
    wanted: dict[str, list[NamedKey]] = {}
    for each in keys:
        wanted.setdefault(each.name, []).append(each)
    found: dict[tuple[str, str], bytes] = {}
    for name, named in sorted(wanted.items()):
        secret = await _read(client, namespace, name)
        if secret is None:
            continue
        missing = {each.purpose for each in named} - _purposes(secret)
        if missing:
            raise SecretRefused(refusal_of(namespace, name, missing))
        data = _data(secret)
        names = data.keys() if any(each.key is None for each in named) else {e.key for e in named}
        found |= {(name, key): data[key] for key in names if key in data}
    return found


def labelled_secrets(
    client: Client,
) -> Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]:
    """Return a reader, by namespace and name, of Secrets that have the label of any purpose: None for others.

    It reads again what `read_named` has checked for a run that is about to start.
    """

    async def read(namespace: str, name: str) -> Mapping[str, bytes] | None:
        secret = await _read(client, namespace, name)
        return None if secret is None or not _purposes(secret) else _data(secret)

    return read


async def _read(client: Client, namespace: str, name: str) -> Manifest | None:
    try:
        return await client.get(SECRET, name, namespace=namespace)
    except NotFound:
        return None


def _data(secret: Manifest) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}


def _purposes(secret: Manifest) -> set[Purpose]:
    labels = secret["metadata"].get("labels") or {}
    return {each for each in Purpose if labels.get(each.value) == "true"}
