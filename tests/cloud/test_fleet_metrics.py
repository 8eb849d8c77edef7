"""Series of instances and FleetRollouts: they follow the objects, and the dashboard's queries are served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from apis.cloud import Instance
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from internal.cloud.instance.metrics import InstanceMetrics
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.demo.embedded import EmbeddedCluster
from tests.cloud.instance.harness import InstanceHarness, instance
from tests.cloud.instance.test_samples import SAMPLES, until_ready
from tests.cloud.rollouts.harness import NEW, Fleet
from tests.observability.queries import of_alerts, of_dashboard, unserved
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("METRICS-LIVE")

NEVER = {
    "cloud_task_results_total",
    "cloud_task_retries_total",
    "leader_election_master_status",
    "cloud_rollout_instances",
    "cloud_rollout_wave_instances",
    "cloud_rollout_phase",
    "cloud_rollout_halted",
    "cloud_rollout_health_check",
}
"""Runs that were lost, attempts after a failure, the leader of a manager without an election, and what the test
of rollouts has."""


def instances(manager: Manager | None) -> dict[tuple[str, str, str], float]:
    """Counts by version, phase and type."""
    assert manager is not None
    text = manager.metrics.render().decode()
    return {
        (sample.labels["version"], sample.labels["phase"], sample.labels["type"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "cloud_instances"
    }


async def test_instances_are_counted_by_version_phase_and_type(tmp_path: Path) -> None:
    async with InstanceHarness.start(tmp_path) as harness:
        await harness.apply(instance())
        await harness.roll_out()
        await harness.apply(instance("src-2"))
        await harness.roll_out("src-2")
        ready = ("5.1.0", "Ready", "internal")
        await eventually(lambda: instances(harness.manager) == {ready: 2})
        await harness.annotate("src-2", paused="true")
        paused = ("5.1.0", "Paused", "internal")
        await eventually(lambda: instances(harness.manager) == {ready: 1, paused: 1})
        await harness.stop_manager()
        await harness.start_manager()
        await eventually(lambda: instances(harness.manager) == {ready: 1, paused: 1})
        await harness.annotate("src-2", paused=None)
        await harness.delete("src-2")
        for kind in ("InstanceInvariants", "InstanceKubernetes", "InstanceTerraform"):
            await harness.until(
                kind, lambda found: found and found.metadata.deletion_timestamp, "src-2"
            )
            await harness.let_go(kind, "src-2")
        await eventually(lambda: paused not in instances(harness.manager))
        await harness.gone("Instance", "src-2")
        await eventually(lambda: sum(instances(harness.manager).values()) == 1)
        assert instances(harness.manager) == {ready: 1}


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"phase": "Ready", "observedGeneration": 3}, "Ready"),
        ({"phase": "Ready", "observedGeneration": 2}, "Pending"),
        ({"phase": "Ready", "observedGeneration": 4}, "Pending"),
        ({"phase": "Ready"}, "Pending"),
        ({"phase": "Failed", "observedGeneration": 2}, "Failed"),
        ({"phase": ""}, "Pending"),
        ({}, "Pending"),
    ],
)
async def test_a_phase_of_another_generation_does_not_count_as_ready(
    status: dict[str, Any], phase: str
) -> None:
    metadata = {"name": "a", "namespace": "b", "uid": "c", "generation": 3}
    entry = EntryDecoder(Instance.gvk()).decode(
        json.dumps({"metadata": metadata, "status": status}).encode()
    )
    metrics = InstanceMetrics(CollectorRegistry(), [entry])
    counting = asyncio.create_task(metrics.start())
    await asyncio.sleep(0)
    (family,) = metrics.instances.collect()
    assert [each.labels["phase"] for each in family.samples] == [phase]
    counting.cancel()


async def test_every_query_of_rollouts_is_served_by_a_manager(tmp_path: Path) -> None:
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(2)
        waves = [{"name": "first", "percent": 50}, {"name": "rest", "approval": "Manual"}]
        await fleet.roll_out(NEW, waves=waves)
        await fleet.reaches("WaitingForApproval", updated=1)
        check = {"name": "errors", "prometheus": {"url": "http://prometheus", "query": "errors"}}
        # Newer by name, should both be of one second.
        await fleet.roll_out(NEW, "verified", waves=waves, healthChecks=[check])
        await fleet.reaches("Progressing", "verified")
        assert fleet.manager is not None
        text = fleet.manager.metrics.render().decode()
        # The harness runs the controller of FleetRollouts alone.
        assert unserved(text, of_dashboard("cloud-rollouts")) == {"cloud_instances"}
        assert unserved(text, of_alerts("ctrlruntime.cloud.rollouts")) == set()


async def test_every_query_of_tasks_and_instances_is_served_by_a_manager(tmp_path: Path) -> None:
    sample = yaml.safe_load((SAMPLES / "instance.yaml").read_text())
    sample["metadata"]["namespace"] = "default"
    settings = tmp_path / "settings.yaml"
    settings.write_text("kubernetes: {limit: 1}\n")
    async with EmbeddedCluster(tmp_path) as cluster:
        manager = make_manager(await Config.load(cluster.kubeconfig("manager")), name="manager")
        runs = RunsOptions(folder=tmp_path / "runs")
        add_cloud(manager, CloudOptions(runs=runs, settings_file=settings))
        admin = await Config.load(cluster.kubeconfig("admin"))

        async def missing() -> set[str]:
            text, _ = await manager.metrics.scrape()
            return {
                name
                for queries in (
                    of_dashboard("cloud-tasks"),
                    of_dashboard("cloud-rollouts"),
                    of_alerts("ctrlruntime.cloud.tasks"),
                )
                for name in unserved(text.decode(), queries)
            }

        async with manager.running(), Client.connect(admin) as client:
            # Of two instances one waits for the run of the other.
            for name in ("app-1234", "src-2"):
                sample["metadata"]["name"] = name
                sample["spec"]["domain"] = f"{name}.example.com"
                await client.apply(sample, field_manager="people")
            await until_ready(client)
            await eventually(missing, lambda names: names == NEVER)
            results = ['sum by (task, result) (cloud_task_results_total{result="Succeeded"})']
            assert unserved(manager.metrics.render().decode(), iter(results)) == set()
