"""Members come and go by the replicas of their Deployment, as an autoscaler changes them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.nodes.kinds import DEPLOYMENT, RUN_LOCAL
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding.leases import member_of
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.kinds import KINDS
from tests.docs.blocks import ROOT
from tests.support.waiting import eventually


@pytest.mark.criterion("SH-32")
async def test_each_replica_is_a_member_with_its_share_of_the_slots(tmp_path: Path) -> None:
    around = Environment("embedded-process", nodes=True, run_local=True, folder=tmp_path)
    async with around as environment:
        await environment.install_crds(*KINDS)
        client = environment.client("envtest")
        await client.create(_deployment(environment.kubeconfig("envtest")))
        assert await eventually(lambda: _shares(client), [64].__eq__, timeout=90)
        for replicas, shares in ((3, [21, 21, 22]), (2, [32, 32])):
            patch = {"spec": {"replicas": replicas}}
            await client.patch(DEPLOYMENT, "members", patch, namespace="default")
            assert await eventually(lambda: _shares(client), shares.__eq__, timeout=90)


async def _shares(client: Client) -> list[int]:
    """Return how many slots each member at work has, the least first."""
    leases = await client.list(LEASE, "default", labels=GROUP_LABEL)
    members = [member for each in leases if (member := member_of(each)) is not None]
    return sorted(len(each.announced.held) for each in members if each.holder)


def _deployment(kubeconfig: Path) -> dict[str, Any]:
    """Return a Deployment of one member, whose name is its Pod's."""
    off = "--metrics-bind-address=0 --health-probe-bind-address=0"
    election = "--leader-elect --leader-election-namespace=default"
    flags = f"--kubeconfig={kubeconfig} --system=tenancy {off} {election} --shards"
    command = f"exec {sys.executable} -m manager run {flags} --shard-name=$POD"
    pod = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = {
        "name": "manager",
        "image": "local",
        "command": ["sh", "-c", command],
        "env": [pod, {"name": "PYTHONPATH", "value": str(ROOT)}],
    }
    labels = {"app": "members"}
    metadata = {"labels": labels, "annotations": {RUN_LOCAL: "true"}}
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "Deployment"}
    return {**head, "metadata": {"name": "members", "namespace": "default"}, "spec": spec}
