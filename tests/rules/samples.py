"""A valid manifest of each kind, to start mutations from."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from tests.rules.harness import ROOT, mapping_of

Manifest = dict[str, Any]

SHIPPED = {
    "TenantRegistry": ("tenantregistry",),
    "TenantTemplate": ("tenanttemplate", "tenanttemplate-jobs"),
    "Tenant": ("tenant",),
    "FleetRollout": ("fleetrollout-monthly", "fleetrollout-patch"),
    "Instance": ("instance", "instance-gcp"),
    "CosmosFullNode": ("cosmosfullnode", "cosmosfullnode-sentry", "cosmosfullnode-versions"),
    "ScheduledVolumeSnapshot": ("scheduledvolumesnapshot",),
    "StatefulJob": ("statefuljob",),
    "ChangeFreeze": ("changefreeze",),
}
"""The files of config/samples."""

WRITTEN_BY_INSTANCES: dict[str, Manifest] = {
    "InstanceTerraform": {"terraform": {}},
    "InstanceKubernetes": {"version": "5.1.0"},
    "InstanceKubernetesPVC": {"version": "5.1.0"},
    "InstanceInvariants": {"version": "5.1.0"},
    "UpgradeInstanceTask": {"instanceName": "src-1", "toVersion": "5.2.0"},
}
"""Specs of the kinds that people seldom write, by kind."""


@cache
def samples() -> dict[str, list[Manifest]]:
    """Return samples by kind."""
    found = {
        kind: [
            yaml.safe_load((ROOT / "config" / "samples" / f"{file}.yaml").read_text())
            for file in files
        ]
        for kind, files in SHIPPED.items()
    }
    for kind, spec in WRITTEN_BY_INSTANCES.items():
        gvk = mapping_of(kind).gvk
        found[kind] = [{"apiVersion": gvk.api_version, "kind": kind, "spec": spec}]
    return found
