"""Series of instances and FleetRollouts: they follow the objects, and the dashboard's queries are served."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ctrlruntime.manager import Manager
from tests.cloud.instance.harness import Stage, instance
from tests.cloud.rollouts.harness import NEW, Fleet
from tests.observability.queries import of_alerts, of_dashboard, unserved
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("METRICS-LIVE")


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
    async with Stage.start(tmp_path) as stage:
        await stage.apply(instance())
        await stage.roll_out()
        await stage.apply(instance("src-2"))
        await stage.roll_out("src-2")
        ready = ("5.1.0", "Ready", "internal")
        await eventually(lambda: instances(stage.manager) == {ready: 2})
        await stage.annotate("src-2", paused="true")
        paused = ("5.1.0", "Paused", "internal")
        await eventually(lambda: instances(stage.manager) == {ready: 1, paused: 1})
        await stage.stop_manager()
        await stage.start_manager()
        await eventually(lambda: instances(stage.manager) == {ready: 1, paused: 1})
        await stage.annotate("src-2", paused=None)
        await stage.delete("src-2")
        for kind in ("InstanceInvariants", "InstanceKubernetes", "InstanceTerraform"):
            await stage.until(
                kind, lambda found: found and found.metadata.deletion_timestamp, "src-2"
            )
            await stage.let_go(kind, "src-2")
        await eventually(lambda: paused not in instances(stage.manager))
        await stage.gone("Instance", "src-2")
        await eventually(lambda: sum(instances(stage.manager).values()) == 1)
        assert instances(stage.manager) == {ready: 1}


async def test_every_query_of_rollouts_is_served_by_a_manager(tmp_path: Path) -> None:
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(2)
        waves = [{"name": "first", "percent": 50}, {"name": "rest", "approval": "Manual"}]
        await fleet.roll_out(NEW, waves=waves)
        await fleet.reaches("WaitingForApproval", updated=1)
        assert fleet.manager is not None
        text = fleet.manager.metrics.render().decode()
        # The harness runs the controller of FleetRollouts alone.
        assert unserved(text, of_dashboard("cloud-rollouts")) == {"cloud_instances"}
        assert unserved(text, of_alerts("ctrlruntime.cloud.rollouts")) == set()
