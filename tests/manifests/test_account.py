"""The manager as the service account of dist/install.yaml on the real server: nothing is forbidden to
it, nothing it may is left unused."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User
from tests.audit.ledger import Ledger, read
from tests.audit.rights import granted
from tests.audit.suites import NOT_REQUESTED
from tests.audit.verdict import Share, judge
from tests.backends import SharedServer
from tests.manifests.installation import account_token, install, installed, manifests
from tests.tenancy.life import USER, LeadersWorld, cases, live, served_kinds
from tests.tenancy.world import SUITE, permissive

pytestmark = pytest.mark.xdist_group("manifests")


@contextlib.asynccontextmanager
async def resident(folder: Path, real: SharedServer) -> AsyncIterator[LeadersWorld]:
    """The real server; the account itself, by its token."""
    async with real.environment(folder=folder / "admin", users=("admin",)) as first:
        admin = first.client("admin")
        async with installed(admin):
            token = await account_token(admin)
            users = ("admin", User(name=USER, token=token))
            async with real.environment(folder=folder, proxy=True, users=users) as environment:
                yield LeadersWorld(environment, folder, options=permissive(folder))


NOT_ON_1_20 = {
    "cronjobs.batch",
    "horizontalpodautoscalers.autoscaling",
    "poddisruptionbudgets.policy",
}
"""Served by the old server in other versions only; tests/tenancy/test_rights.py has them."""


@pytest.mark.criterion("rbac")
@pytest.mark.timeout(240)
async def test_on_the_real_server_nothing_is_forbidden_and_nothing_unused(
    real_server: SharedServer, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "asked.jsonl")
    async with resident(tmp_path, real_server) as world:
        chosen = cases(await served_kinds(world.client))
        ledger.lacks(SUITE, NOT_ON_1_20)
        with ledger.watch(world.environment.proxy.log, suite=SUITE, users=[USER]) as audited:
            await live(world, chosen)
    ledger.flush()
    assert audited.refused == []
    verdict = judge(read(ledger.place), [Share(SUITE, granted(manifests()))], NOT_REQUESTED)
    assert [str(right) for _, right in verdict.unused] == []
    assert {right.resource for right in verdict.unjudged} == NOT_ON_1_20


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
            await account.create(owned_by("Tenant"), dry_run=True)
            with pytest.raises(Forbidden, match="cannot set blockOwnerDeletion"):
                await account.create(owned_by("TenantTemplate"), dry_run=True)


def owned_by(kind: str) -> dict[str, Any]:
    reference = {
        "apiVersion": Tenant.gvk().api_version,
        "kind": kind,
        "name": "x",
        "uid": "0d1e6e4e-0000-0000-0000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": "owned", "namespace": "default", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
