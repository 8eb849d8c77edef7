"""Rights of the manager's account that no request takes; those that requests take: tests/tenancy/test_rights.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apis.cloud import FleetRollout
from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User
from ctrlruntime.generate.discovery import find_kinds, load
from tests.backends import SharedServer
from tests.manifests.installation import (
    account_token,
    install,
)
from tests.tenancy.rights_scenario import USER

OWNERS_OF_NOTHING = {GroupVersionKind("apps", "v1", "Deployment"), FleetRollout.gvk()}
"""Kinds that the manager owns nothing by."""


@pytest.mark.criterion("rbac")
async def test_the_right_to_finalizers_is_what_owner_references_take(tmp_path: Path) -> None:
    """Where a server protects owners, an object cannot be given one without it."""
    plugins = {"enable_admission_plugins": ["OwnerReferencesPermissionEnforcement"]}
    async with Environment("kube-apiserver", folder=tmp_path / "s", server=plugins) as server:
        admin = server.client("envtest")
        await install(admin)
        token = await account_token(admin)
        users = ("admin", User(name=USER, token=token))
        async with SharedServer(server.backend).environment(  # type: ignore[arg-type]
            folder=tmp_path / "u", users=users
        ) as environment:
            account = environment.client(USER)
            cloud = {kind.gvk() for kind in find_kinds(load(("apis.cloud",)))}
            for owner in [Tenant.gvk(), TenantTemplate.gvk(), *(cloud - OWNERS_OF_NOTHING)]:
                await account.create(owned_by(owner), dry_run=True)
            for owner in OWNERS_OF_NOTHING:
                with pytest.raises(Forbidden, match="cannot set blockOwnerDeletion"):
                    await account.create(owned_by(owner), dry_run=True)


def owned_by(owner: GroupVersionKind) -> dict[str, Any]:
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": "x",
        "uid": "0d1e6e4e-0000-0000-0000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": "owned", "namespace": "default", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
