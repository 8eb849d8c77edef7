"""The installation with one account for all systems: its objects, its account, and what that may do.

The accounts by system have a part of its rights each, see tests/manifests/test_system_accounts.py.

For every suite that runs the manager with exactly the roles that are shipped:

    async with installed(client):
        token = await account_token(client)
"""

from __future__ import annotations

import contextlib
import copy
import functools
import shutil
import subprocess
from collections.abc import AsyncIterator, Collection, Iterable
from pathlib import Path
from typing import Any

import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import install_crds
from manager.manifests import folders as made
from tests.envtest.kubectl.binaries import provisioned

Manifest = dict[str, Any]

ROOT = Path(__file__).parent.parent.parent
INSTALLER = ROOT / "dist" / "install-all.yaml"
NAMESPACE = "ctrlruntime-system"
ACCOUNT = "ctrlruntime-controller-manager"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
RBAC = "rbac.authorization.k8s.io"
DEPLOY = "Deployment"
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")


def manifests() -> list[Manifest]:
    """Every object of the installation, in its order."""
    return kustomized("with-webhooks")


def installer() -> list[Manifest]:
    """Every object of dist/install-all.yaml, which has accounts by system."""
    return copy.deepcopy(_parsed())


def of_webhooks() -> list[Manifest]:
    """The configuration of the webhooks, their Service, and the rights to serve them."""
    return [each for each in manifests() if "webhook" in each["metadata"]["name"]]


def without_webhooks() -> list[Manifest]:
    """All other objects of the installation."""
    return [each for each in manifests() if "webhook" not in each["metadata"]["name"]]


@functools.cache
def _parsed() -> list[Manifest]:
    return [each for each in yaml.load_all(INSTALLER.read_text(), yaml.CSafeLoader) if each]


def kustomized(folder: str) -> list[Manifest]:
    """What kubectl makes of a folder of config/."""
    return copy.deepcopy(_built(folder))


def namespaced(folder: Path, namespaces: Iterable[str]) -> list[Manifest]:
    """What kubectl makes of config/namespaced for these namespaces; `folder` gets a copy of config/."""
    config = folder / "config"
    shutil.copytree(ROOT / "config", config)
    (config / "namespaced" / "namespaces.txt").write_text("\n".join(namespaces))
    made.generate(config)
    return _kustomize(config / "namespaced")


@functools.cache
def _built(folder: str) -> list[Manifest]:
    return _kustomize(ROOT / "config" / folder)


def _kustomize(folder: Path) -> list[Manifest]:
    command = [str(provisioned()), "kustomize", str(folder)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def of_kind(kind: str) -> list[Manifest]:
    """Those of one kind."""
    return [each for each in manifests() if each["kind"] == kind]


async def install(client: Client, *, deployment: bool = False, users: Collection[str] = ()) -> None:
    """Everything; the Deployment and the webhooks that it serves only on request: tests run the manager themselves.

    `users` get what the service account gets, for servers where tokens are made up.
    """
    await install_crds(client, of_kind("CustomResourceDefinition"))
    left_out = {"CustomResourceDefinition"} if deployment else {"CustomResourceDefinition", DEPLOY}
    objects = manifests() if deployment else without_webhooks()
    await add(client, [m for m in objects if m["kind"] not in left_out], users=users)


async def add(client: Client, objects: Iterable[Manifest], *, users: Collection[str] = ()) -> None:
    """Apply objects; `users` get what is bound to the service account."""
    subjects = [{"kind": "User", "apiGroup": RBAC, "name": user} for user in users]
    for manifest in objects:
        if manifest["kind"].endswith("Binding"):
            manifest = {**manifest, "subjects": [*manifest["subjects"], *subjects]}
        await client.apply(manifest, field_manager="install", force=True)


async def uninstall(client: Client, objects: Collection[Manifest] = ()) -> None:
    """Everything, or these objects, but the definitions and the namespace, which would take a while to go."""
    kept = ("CustomResourceDefinition", "Namespace")
    await remove(client, [each for each in objects or manifests() if each["kind"] not in kept])


async def remove(client: Client, objects: Collection[Manifest]) -> None:
    """Delete objects, the last first, as far as they are there."""
    for manifest in reversed([*objects]):
        metadata = manifest["metadata"]
        with contextlib.suppress(NotFound):
            await client.delete(
                GroupVersionKind.of(manifest), metadata["name"], namespace=metadata.get("namespace")
            )


@contextlib.asynccontextmanager
async def installed(client: Client, *, deployment: bool = False) -> AsyncIterator[None]:
    """Installed for as long as this lasts."""
    await install(client, deployment=deployment)
    try:
        yield
    finally:
        await uninstall(client)


async def account_token(client: Client, seconds: int = 3600) -> str:
    """A token of the manager's service account, by TokenRequest."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = await client.create_subresource(
        SERVICE_ACCOUNT, ACCOUNT, "token", request, namespace=NAMESPACE
    )
    return str(answer["status"]["token"])
