"""The objects whose leaves are mutated: those of the story, and one of each kind that the story does not have."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from internal.named_secrets import Purpose
from tests.rules.harness import LIMIT, is_observed, mapping_of
from tests.rules.spec_leaves import Leaf, leaves_of
from tests.rules.story import KUBECONFIG, Story
from tests.support.waiting import eventually

CLOUDY = "cloudy"
"""The Instance with infrastructure, whose children are mutated as well."""
TOKEN = {"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "t"}}


@dataclass(frozen=True, slots=True)
class Subject:
    """An object, and which part of its spec is mutated there."""

    kind: str
    name: str
    only: tuple[str, ...] = ()
    """The first steps of the leaves; () means all."""
    but: tuple[str, ...] = ()
    """The first steps of leaves that another subject has."""

    def __str__(self) -> str:
        return "-".join((self.kind, *self.only))

    def leaves(self) -> list[Leaf]:
        """Return the leaves that are mutated here."""
        return [
            leaf
            for leaf in leaves_of(self.kind)
            if (not self.only or leaf.path[0] in self.only) and leaf.path[0] not in self.but
        ]

    async def create(self, story: Story) -> dict[str, Any]:
        """Create the object where the story does not have it, wait until it is observed; return its spec."""
        client = story.harness.client
        if self.kind in CHILDREN or self.name == CLOUDY:
            labels = {Purpose.TERRAFORM.value: "true"}
            metadata = {**_metadata(story, "hcp"), "labels": labels}
            await client.create({**TOKEN, "metadata": metadata})
            await client.create(_cloudy(story))
        elif self.kind in ALONE:
            gvk = mapping_of(self.kind).gvk
            metadata = _metadata(story, self.name)
            if not mapping_of(self.kind).namespaced:
                metadata.pop("namespace")
            spec = copy.deepcopy(ALONE[self.kind])
            await client.create(
                {
                    "apiVersion": gvk.api_version,
                    "kind": self.kind,
                    "metadata": metadata,
                    "spec": spec,
                }
            )
        return await self._observed(story)

    async def _observed(self, story: Story) -> dict[str, Any]:
        mapping = mapping_of(self.kind)
        namespace = story.namespace if mapping.namespaced else None
        live = await eventually(
            lambda: story.harness.get(mapping, self.name, namespace=namespace or ""),
            lambda found: found is not None and is_observed(found),
            timeout=LIMIT,
        )
        assert live is not None
        return dict(live["spec"])


CHILDREN = (
    "InstanceTerraform",
    "InstanceKubernetes",
    "InstanceKubernetesPVC",
    "InstanceInvariants",
)
STORY = ("TenantRegistry", "TenantTemplate", "Instance", "CosmosFullNode")
ALONE: dict[str, dict[str, Any]] = {
    "Tenant": {
        "uid": "byhand",
        "templateRef": "none",
        "variables": {"plan": "basic"},
        "configMaps": [
            {
                "id": "greeting",
                "nameTemplate": "{{ .uid }}-greeting",
                "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "{{ .plan }}"}},
            }
        ],
    },
    "UpgradeInstanceTask": {"instanceName": "shop", "toVersion": "5.2.0"},
    "ScheduledVolumeSnapshot": {
        "fullNodeRef": {"name": "shop"},
        "schedule": "0 4 1 1 *",
        "volumeSnapshotClassName": "csi",
    },
    "StatefulJob": {
        "selector": {"taken": "by-hand"},
        "podTemplate": {"spec": {"containers": [{"name": "pack", "image": "tools:v1"}]}},
        "volumeClaimTemplate": {"storageClassName": "standard"},
    },
    "FleetConfig": {},
    "ChangeFreeze": {"reason": "a rule is checked", "namespaces": ["elsewhere"]},
    "FleetRollout": {"targetVersion": "5.1.0", "selector": {"team": "nobody"}},
}
"""Specs of what people write besides the story."""


def subjects_of(kind: str) -> list[Subject]:
    """Return where the leaves of a kind are mutated; each leaf is in one of them."""
    if kind == "Instance":
        apart = ("infrastructure", "upgrade")
        return [
            Subject(kind, "shop", but=apart),
            *(Subject(kind, CLOUDY, (part,)) for part in apart),
        ]
    if kind in CHILDREN:
        return [Subject(kind, CLOUDY)]
    if kind in STORY:
        return [Subject(kind, "shop")]
    return [Subject(kind, "fleet" if kind == "FleetConfig" else "byhand")]


def _metadata(story: Story, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": story.namespace}


def _cloudy(story: Story) -> dict[str, Any]:
    """Return an Instance that has every child."""
    return {
        "apiVersion": "cloud.ctrlruntime.dev/v1",
        "kind": "Instance",
        "metadata": {**_metadata(story, CLOUDY), "labels": {"instance-type": "internal"}},
        "spec": {
            "version": "5.1.0",
            "domain": "cloudy.example.com",
            "infrastructure": {
                "gcp": {"zone": "us-central1-f"},
                "terraform": {
                    "organization": "acme",
                    "tokenFrom": {"name": "hcp", "key": "token"},
                    "module": {"source": "acme/instance", "outputs": ["zone"]},
                },
            },
            "cluster": {
                "kubeconfigFrom": {"name": KUBECONFIG, "key": "kubeconfig"},
                "namespace": story.namespace,
                "bundle": {
                    "manifests": [
                        {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "metadata": {"name": "cloudy"},
                            "data": {"version": "${version}"},
                        }
                    ]
                },
                "disks": {"maxSize": "10Gi", "usage": {"url": "http://127.0.0.1:1/usage"}},
            },
            "debug": {"enableDeletionProtection": False},
        },
    }
