"""The installation of dist/install.yaml: its objects, its service account, and what that may do.

For every suite that runs the manager with exactly the roles that are shipped:

    async with installed(client):
        token = await account_token(client)
        ...
        assert forbidden(log.entries(mark)) == []
        assert unused(log.entries(mark)) == set()
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.proxy.log import LogEntry, Row

Manifest = dict[str, Any]
Right = tuple[str, str]
"""A verb and a resource as the proxy's log writes it: ``("patch", "deployments.apps/status")``."""

ROOT = Path(__file__).parent.parent.parent
INSTALLER = ROOT / "dist" / "install.yaml"
NAMESPACE = "ctrlruntime-system"
ACCOUNT = "ctrlruntime-controller-manager"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")


def manifests() -> list[Manifest]:
    """Every object of the installation, in its order."""
    return [each for each in yaml.safe_load_all(INSTALLER.read_text()) if each]


def of_kind(kind: str) -> list[Manifest]:
    """Those of one kind."""
    return [each for each in manifests() if each["kind"] == kind]


async def install(client: Client, *, deployment: bool = False, user: str = "") -> None:
    """Everything, the Deployment only if asked for: tests run the manager themselves.

    `user`, if given, gets what the service account gets, for servers where tokens are made up.
    """
    await install_crds(client, of_kind("CustomResourceDefinition"))
    for manifest in manifests():
        skipped = manifest["kind"] == "Deployment" and not deployment
        if manifest["kind"] != "CustomResourceDefinition" and not skipped:
            if user and manifest["kind"].endswith("Binding"):
                subject = {"kind": "User", "apiGroup": RBAC, "name": user}
                manifest["subjects"].append(subject)
            await client.apply(manifest, field_manager="install", force=True)


async def uninstall(client: Client) -> None:
    """Everything but the definitions and the namespace, which would take a while to go."""
    for manifest in reversed(manifests()):
        if manifest["kind"] in ("CustomResourceDefinition", "Namespace"):
            continue
        metadata = manifest["metadata"]
        with contextlib.suppress(NotFound):
            await client.delete(
                GroupVersionKind.of(manifest), metadata["name"], metadata.get("namespace")
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
    answer = await client.create_subresource(SERVICE_ACCOUNT, ACCOUNT, NAMESPACE, "token", request)
    return str(answer["status"]["token"])


# -- what is granted, and what is used -----------------------------------------------------------


def granted() -> set[Right]:
    """What the roles that are bound to the service account let it do, aggregated ones left out."""
    roles = {(each["kind"], each["metadata"]["name"]): each for each in manifests()}
    rights: set[Right] = set()
    for bound in (*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding")):
        ref = bound["roleRef"]
        for rule in roles[ref["kind"], ref["name"]].get("rules") or ():
            rights |= rights_of(rule)
    return rights


def rights_of(rule: Manifest) -> set[Right]:
    """One rule, taken apart."""
    names = {
        _resource(group, resource) for group in rule["apiGroups"] for resource in rule["resources"]
    }
    return {(verb, name) for verb in rule["verbs"] for name in names}


def _resource(group: str, resource: str) -> str:
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource


def used(entries: Iterable[LogEntry | Row], user: str = "manager") -> set[Right]:
    """The rights that requests took: an apply is a patch, and a create where it made the object."""
    rights: set[Right] = set()
    for entry in entries:
        if entry.user != user or entry.resource.startswith("/") or entry.code == 403:
            continue
        verb = "patch" if entry.verb == "apply" else entry.verb
        rights.add((verb, entry.resource))
        if entry.verb == "apply" and entry.code == 201:
            rights.add(("create", entry.resource))
    return rights


def forbidden(entries: Iterable[LogEntry], user: str = "manager") -> list[str]:
    """Requests that were refused for want of a right."""
    return [
        f"{entry.verb} {entry.resource} {entry.namespace}/{entry.name}"
        for entry in entries
        if entry.user == user and entry.code == 403
    ]


NOT_REQUESTED = frozenset(
    {
        # Asked of the authorizer by an admission plugin, OwnerReferencesPermissionEnforcement, when
        # an object gets an owner that must not go before it: no request names them.
        ("update", "tenants.tenancy.ctrlruntime.dev/finalizers"),
        ("update", "tenantregistries.tenancy.ctrlruntime.dev/finalizers"),
    }
)


READS = ("get", "list", "watch")


def unused(entries: Iterable[LogEntry], user: str = "manager") -> set[Right]:
    """What is granted and was never used.

    The three ways to read what is watched count as one: each shows what the others show, and which
    of them is asked for depends on the server (the first list may come by the watch).
    """
    found = used(entries, user)
    read = {resource for verb, resource in found if verb in READS}
    found |= {(verb, resource) for resource in read for verb in READS}
    return granted() - NOT_REQUESTED - found
