"""Version and cluster of an Instance are changed at once: the upgrade is given where the workload is."""

from __future__ import annotations

import pytest

from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import instance
from tests.cloud.instance.test_deletion import held


def cluster(name: str) -> dict[str, object]:
    return {"kubeconfigFrom": {"name": name, "key": "kubeconfig"}}


@pytest.mark.criterion("G-C6")
async def test_g_c6_an_upgrade_is_given_the_cluster_of_the_workload(
    e2e_harness: E2EHarness,
) -> None:
    outside = e2e_harness.elsewhere
    outside.records["kubernetes"] = {"cluster": "id-a"}
    await e2e_harness.apply(instance(cluster=cluster("a")))
    await e2e_harness.phase("Ready")
    outside.failing["upgrade"] = "the workload is in cluster id-a"
    outside.holding["upgrade"] = "OtherCluster"
    await e2e_harness.apply(instance(cluster=cluster("b"), version="5.2.0"))
    assert "the workload is in cluster id-a" in (await held(e2e_harness)).lower()
    upgrade = outside.started[-1].input
    assert (upgrade.task, upgrade.record) == ("upgrade", {"cluster": "id-a"})
    await e2e_harness.idle()
    assert "kubernetes" not in outside.tasks()[3:]

    outside.failing.clear()
    await e2e_harness.apply(instance(cluster=cluster("a"), version="5.2.0"))
    await e2e_harness.phase("Ready")
    placed = [
        (each.input.task, each.input.spec["cluster"]["kubeconfigFrom"]["name"])
        for each in outside.started[3:]
        if each.input.task in ("upgrade", "kubernetes")
    ]
    assert placed == [("upgrade", "b"), ("upgrade", "a"), ("kubernetes", "a")]


@pytest.mark.criterion("G-C6")
async def test_g_c6_a_run_that_fails_records_the_cluster_it_worked_in(
    e2e_harness: E2EHarness,
) -> None:
    outside = e2e_harness.elsewhere
    outside.held.add("kubernetes")
    outside.reports["kubernetes"] = {"record:cluster": "id-a"}
    await e2e_harness.apply(instance(cluster=cluster("a")))
    await e2e_harness.until("InstanceKubernetes", lambda seen: seen and seen.status.run)
    await e2e_harness.idle()
    outside.failing["kubernetes"] = "not ready within 600 s"
    outside.end("kubernetes")
    seen = await e2e_harness.phase("Failed")
    assert seen.status.records["InstanceKubernetes"] == {"cluster": "id-a"}
    await e2e_harness.apply(instance(cluster=cluster("b")))
    await e2e_harness.until("Instance", lambda _: outside.tasks().count("kubernetes") == 2)
    assert outside.started[-1].input.record == {"cluster": "id-a"}
