"""A small fleet with something of everything, for the browser and for the screenshots of docs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from apis.cloud import FleetRollout, Instance, InstanceTerraform
from apis.tenancy import Tenant
from internal.cloud.runs.local.supervisor import LOG
from tests.console.harness import INSTANCE, TENANT, Harness, ready


def resource(name: str, kind: str, *needs: str) -> dict[str, Any]:
    """A resource of a tenant."""
    return {"id": name, "dependIds": list(needs), "spec": {"apiVersion": "v1", "kind": kind}}


SHOP = {
    **TENANT,
    "registryId": "customers",
    "configMaps": [resource("settings", "ConfigMap")],
    "secrets": [resource("credentials", "Secret")],
    "deployments": [
        resource("database", "Deployment", "credentials"),
        resource("web", "Deployment", "settings", "database"),
    ],
    "services": [resource("entry", "Service", "web")],
}
SHOP_STATUS = {
    **ready(False, "NotAllResourcesReady", "database was not ready within 300 s"),
    "desiredResources": 5,
    "readyResources": 2,
    "appliedResources": [
        "ConfigMap/default/settings@settings",
        "Secret/default/credentials@credentials",
    ],
    "failedResourceIds": ["database"],
    "skippedResourceIds": ["web", "entry"],
}
ROLLOUT = {
    "phase": "Progressing",
    "targetVersion": "5.2.0",
    "total": 40,
    "updated": 9,
    "changing": 2,
    "waiting": 29,
    "wave": "early",
    "message": "29 wait for wave rest",
    "waves": [
        {"name": "internal", "instances": 4, "updated": 4, "ready": 4},
        {"name": "early", "instances": 12, "updated": 9, "ready": 7},
        {"name": "rest", "instances": 40, "updated": 9, "ready": 7},
    ],
}

RUN = "terraform-3f9a"
CREATED = (
    ("google_compute_network.main", 11),
    ("google_compute_subnetwork.nodes", 23),
    ("google_container_cluster.main", 312),
    ("google_sql_database_instance.main", 287),
    ("google_compute_global_address.ingress", 4),
    ("google_container_node_pool.default", 96),
)
"""Resources that the log of the run has created, and after how many seconds."""


async def fill(console: Harness) -> None:
    """Put the fleet into the cache."""
    for number in range(12):
        version, phase = ("5.2.0", "Ready") if number < 4 else ("5.1.3", "Ready")
        phase = {5: "Running", 7: "Failed", 8: "Waiting"}.get(number, phase)
        status: dict[str, Any] = {"phase": phase, "version": version}
        if phase == "Ready":
            status |= ready(True)
        if phase == "Failed":
            status["message"] = "terraform: quota of addresses is used up"
        await console.put(Instance, f"customer-{number:02}", INSTANCE, status)
    for number in range(6):
        await console.put(Tenant, f"tenant-{number:02}-web", TENANT, ready(True))
    await console.put(Tenant, "tenant-06-shop", SHOP, SHOP_STATUS)
    waves = [
        {"name": "internal", "percent": 10, "soakSeconds": 3600},
        {"name": "early", "percent": 30, "soakSeconds": 86400},
        {"name": "rest", "percent": 100, "approval": "Manual"},
    ]
    await console.put(FleetRollout, "november", {"targetVersion": "5.2.0", "waves": waves}, ROLLOUT)
    run = {"runID": RUN, "state": "Started", "message": "applying: 7 of 19 resources"}
    run["logs"] = f"/var/lib/manager/runs/customer-05/{RUN}/log"
    await console.put(
        InstanceTerraform,
        "customer-05",
        {"domain": "acme.example.com"},
        {"phase": "Running", "run": {**run, "startedAt": "2026-11-23T10:00:00.000000Z"}},
    )


async def write_log(console: Harness, runs: Path) -> None:
    """Write what the run of `customer-05` has printed to its place below the folder of runs."""
    found = await console.client.get(InstanceTerraform, "customer-05", namespace="default")
    file = runs / str(found.metadata.uid) / RUN / LOG
    file.parent.mkdir(parents=True)
    lines = ["Terraform used the selected providers to generate the following execution plan."]
    lines += ["Plan: 19 to add, 0 to change, 0 to destroy."]
    for name, seconds in CREATED:
        lines += [f"{name}: Creating...", f"{name}: Creation complete after {seconds}s"]
    lines += ["google_dns_record_set.app: Creating..."]
    await asyncio.to_thread(file.write_text, "\n".join([*lines, ""]))
