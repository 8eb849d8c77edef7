"""Clients of data planes, by the kubeconfigs that the hub has of them."""

from __future__ import annotations

from typing import Final

from apis.fleet.labels import KUBECONFIG_SECRET
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from internal.fleet.plane_access import access_of
from internal.fleet.targets import TargetError

SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]


async def connect_plane(hub: Client, namespace: str) -> Client | None:
    """Return a client by the kubeconfig of a target namespace; None without one that can be used."""
    try:
        secret = await hub.get(SECRET, KUBECONFIG_SECRET, namespace=namespace)
        return Client.connect(access_of(secret.get("data") or {}).config)
    except (NotFound, TargetError):
        return None
