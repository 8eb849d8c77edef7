"""The policy of docs/removal-gate.md, by which members of a group alone approve for a FleetConfig and for orphans."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import APPROVE_ORPHANS
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden, Invalid
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.users import User
from tests.docs.blocks import ROOT

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
OTHER = User(name="other", groups=("system:masters",))
MEMBER = User(name="member", groups=("system:masters", "platform-approvers"))


def policy() -> list[dict[str, Any]]:
    """Return the manifests of the page."""
    page = (ROOT / "docs" / "removal-gate.md").read_text()
    [block] = [
        each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "Policy" in each
    ]
    return list(yaml.safe_load_all(block))


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment("kube-apiserver", users=("admin", OTHER, MEMBER)) as environment:
        if environment.backend.version < (1, 30):
            pytest.skip("admission policies came with Kubernetes 1.30")
        client = environment.client("admin")
        await environment.install_crds(FleetConfig)
        fleet = {"apiVersion": FleetConfig.gvk().api_version, "kind": "FleetConfig", "spec": {}}
        await client.create({**fleet, "metadata": {"name": NAME}})
        await client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane"}}
        )
        for manifest in policy():
            await client.create(manifest)
        yield environment


async def refusal(
    client: Client,
    kind: GroupVersionKind,
    name: str,
    value: str | None,
    subresource: str | None = None,
) -> str:
    """Return why the server refuses an approval; empty if it took it."""
    patch = {"metadata": {"annotations": {APPROVE_ORPHANS: value}}}
    try:
        await client.patch(kind, name, patch, subresource=subresource)
    except (Forbidden, Invalid) as error:
        return str(error)
    return ""


@pytest.mark.criterion("S-F13")
async def test_s_f13_members_of_the_group_alone_approve_for_a_fleet(env: Environment) -> None:
    other, member = env.client("other"), env.client("member")
    number = 0

    async def is_refused() -> bool:
        nonlocal number
        number += 1  # an annotation that stays is not judged
        return bool(await refusal(other, NAMESPACE, "plane", f"digest-{number}"))

    await eventually_holds(is_refused, interval=0.2)  # policies come into force with time
    assert await refusal(other, NAMESPACE, "plane", "status", "status")
    for kind, name in ((NAMESPACE, "plane"), (FleetConfig.gvk(), NAME)):
        assert "set by a member of platform-approvers" in await refusal(other, kind, name, "a")
        assert await refusal(member, kind, name, "a") == ""
        await other.patch(kind, name, {"metadata": {"labels": {"example.com/a": "b"}}})
        assert await refusal(other, kind, name, "b")
        assert await refusal(other, kind, name, None) == ""
