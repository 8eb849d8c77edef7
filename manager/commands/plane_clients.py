"""Clients of data planes, by the kubeconfigs that the hub has of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import click

from apis.fleet.labels import DATA_PLANE_ID, KUBECONFIG_SECRET
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client import Client, NotFound
from internal.fleet.plane_access import access_of
from internal.fleet.plane_check import NAMESPACE, identify
from internal.fleet.targets import TargetError

SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]


def plane_client(data: Mapping[str, Any]) -> Client:
    """Return a client by the `data` of a kubeconfig's Secret. Raises TargetError for what cannot be used."""
    return Client.connect(access_of(data).config)


async def connect_plane(hub: Client, namespace: str) -> Client | None:
    """Return a client by the kubeconfig of a target namespace; None without one that can be used."""
    try:
        secret = await hub.get(SECRET, KUBECONFIG_SECRET, namespace=namespace)
        return plane_client(secret.get("data") or {})
    except (NotFound, TargetError):
        return None


@asynccontextmanager
async def proved_plane(hub: Client, namespace: str) -> AsyncIterator[tuple[Client, str]]:
    """Connect to the data plane of a target namespace. Yield a client, and the data plane's id.

    Raises ClickException if its kubeconfig cannot be used or leads to another data plane than the one that the
    operator proved, and the client's errors.
    """
    client = await connect_plane(hub, namespace)
    if client is None:
        raise click.ClickException(
            f"namespace {namespace} has no kubeconfig of a data plane that can be used; `fleet top` lists those that have"
        )
    async with client:
        identity = await identify(client)
        recorded = await proved_id(hub, namespace)
        if recorded and recorded != identity:
            raise click.ClickException(
                f"the kubeconfig of namespace {namespace} leads to data plane {identity}, its stack was deployed for "
                f"{recorded}; correct the Secret {KUBECONFIG_SECRET} there. Nothing was changed"
            )
        yield client, identity


async def proved_id(hub: Client, namespace: str) -> str:
    """Return the data plane that the operator proved for a namespace; empty if none. Raises the client's errors."""
    found = await hub.get(NAMESPACE, namespace, metadata_only=True)
    return str((found["metadata"].get("annotations") or {}).get(DATA_PLANE_ID, ""))
