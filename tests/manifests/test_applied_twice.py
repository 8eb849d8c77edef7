"""The installation is applied again, server-side, beside the controllers of the cluster: no field has two owners."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from tests.manifests.conftest import Kubectl
from tests.manifests.installation import RBAC, Manifest, uninstall, without_webhooks
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("U-5")]

CLUSTER_ROLE = GroupVersionKind(RBAC, "v1", "ClusterRole")
AGGREGATED = "ctrlruntime-manager-aggregated-role"
FURTHER: Manifest = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRole",
    "metadata": {
        "name": "further-kind",
        "labels": {"tenancy.ctrlruntime.dev/aggregate-to-manager": "true"},
    },
    "rules": [{"apiGroups": ["batch.example.com"], "resources": ["jobs"], "verbs": ["get"]}],
}


async def test_u_5_a_second_apply_conflicts_with_no_controller(
    real: Environment, kubectl: Kubectl, tmp_path: Path
) -> None:
    objects = [each for each in without_webhooks() if each["kind"] != "CustomResourceDefinition"]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects))
    (tmp_path / "further.yaml").write_text(yaml.safe_dump(FURTHER))
    files, client = str(tmp_path / "all.yaml"), real.client("admin")
    try:
        await kubectl("apply", "--server-side", "-f", files)
        await kubectl("apply", "--server-side", "-f", str(tmp_path / "further.yaml"))

        async def aggregated() -> bool:
            """Other tests' roles may have the label as well."""
            found = await client.get(CLUSTER_ROLE, AGGREGATED)
            return all(rule in (found.get("rules") or ()) for rule in FURTHER["rules"])

        await eventually(aggregated)
        await kubectl("apply", "--server-side", "-f", files)
        await kubectl("apply", "--server-side", "--force-conflicts", "-f", files)
        assert await aggregated()
    finally:
        await uninstall(client, [*objects, FURTHER])
