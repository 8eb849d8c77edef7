"""A story with every kind of the manager, and every kind of object that it writes for them.

Besides what `Story` has: tenants with a namespace of their own and each policy, a staged rollout whose content is
recorded, infrastructure with a secret output, an upgrade, disks that grow, sentries with a Pod beside each,
a snapshot, and a Job on a copy of it that runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from internal.cosmos.fullnode.desired_objects import DISRUPTION_BUDGET
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from tests.cosmos.servers.csi import NEVER, Csi
from tests.cosmos.stepclock import BEGIN, StepClock
from tests.rules.harness import LIMIT, Harness, mapping_of
from tests.rules.manager_main import Parts, stub_runs
from tests.rules.story import ROWS, Manifest, Story
from tests.support.waiting import eventually

KINDS = (
    "TenantRegistry",
    "TenantTemplate",
    "Tenant",
    "Instance",
    "InstanceTerraform",
    "InstanceKubernetes",
    "InstanceKubernetesPVC",
    "InstanceInvariants",
    "UpgradeInstanceTask",
    "FleetRollout",
    "CosmosFullNode",
    "ScheduledVolumeSnapshot",
    "StatefulJob",
)
"""The product's kinds that the story has: every one but those of `manager operator`, a program of its own."""
SENTRIES = "sentries"
ENDED = "ended"
"""A Job that has come to its end."""
HOLDING = "holding"
"""A schedule that has a node down."""
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
FURTHER_KINDS = (
    GroupVersionKind("apps", "v1", "ControllerRevision"),
    DISRUPTION_BUDGET.gvk,
    VOLUME_SNAPSHOT.gvk,
)
"""Kinds of objects that the story has besides those of `Story`."""
STUB = Path(__file__).with_name("task_stub.py")


@dataclass(frozen=True, slots=True)
class FullStory(Story):
    """One team's namespace, with everything. `begin` returns once the snapshot is made."""

    clock: StepClock
    csi: Csi

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, folder: Path, namespace: str, name: str) -> AsyncIterator[Self]:
        """Start a harness, and the story in it; return when everything is ready."""
        clock = StepClock()
        runs = stub_runs(folder, STUB)
        parts = Parts(clock=clock, runs=runs, foreign=frozenset({"own"}))
        async with Harness.start(folder, nodes=True, parts=parts) as harness:
            driver = harness.environment.config("envtest", direct=True)
            async with Csi.start(driver, claims=False, clock=clock.now) as csi:
                story = cls(harness, namespace, name, clock, csi)
                await story.begin()
                await story.complete()
                await story.upgrade()
                clock.step(hours=1)
                await story.complete()
                yield story

    def own_kinds(self) -> Sequence[str]:
        return KINDS

    def expected(self) -> dict[str, int]:
        return dict.fromkeys(KINDS, 1) | {
            "Tenant": len(ROWS),
            "CosmosFullNode": 2,
            "StatefulJob": 2,
        }

    async def pending(self) -> list[str]:
        """Until the first snapshot is due, Jobs on copies wait for it, and no upgrade was requested."""
        found = await super(FullStory, self).pending()
        early = self.clock.now() == BEGIN
        later = ("StatefulJob/", "1 of UpgradeInstanceTask ", "1 of FleetRollout ")
        return [each for each in found if not (early and each.startswith(later))]

    async def upgrade(self) -> None:
        """Request another version of the application."""
        await self.client.create(
            {
                "apiVersion": "cloud.ctrlruntime.dev/v1",
                "kind": "FleetRollout",
                "metadata": self._metadata(),
                "spec": {"targetVersion": "5.2.0"},
            }
        )

    async def take_node_down(self) -> Manifest:
        """Let a snapshot begin that never becomes ready. Return its schedule, which has a finalizer now."""
        self.csi.default.ready_after = NEVER
        await self.client.create(self._schedule(HOLDING, deletePod=True))
        schedule = mapping_of("ScheduledVolumeSnapshot")
        await self.harness.settled(schedule, HOLDING, namespace=self.namespace)
        self.clock.step(hours=1)
        found = await eventually(
            lambda: self.client.get(schedule.gvk, HOLDING, namespace=self.namespace),
            lambda found: found["metadata"].get("finalizers"),
            timeout=LIMIT,
        )
        return dict(found)

    def written(self) -> set[str]:
        return {each.resource.partition("/")[0] for each in self.harness.writes()}

    @property
    def client(self) -> Client:
        return self.harness.client

    async def objects(self) -> dict[str, Manifest]:
        found = await super(FullStory, self).objects()
        for gvk in FURTHER_KINDS:
            found |= await self._listed(gvk, self.namespace)
        for namespace in (f"{uid}-own" for uid in ROWS):
            found |= await self._listed(CONFIG_MAP, namespace)
            found[f"Namespace/{namespace}"] = dict(await self.client.get(NAMESPACE, namespace))
        return found

    async def _listed(self, gvk: GroupVersionKind, namespace: str) -> dict[str, Manifest]:
        listed = await self.client.list(gvk, namespace)
        return {f"{gvk.kind}/{namespace}/{each['metadata']['name']}": dict(each) for each in listed}

    # -- what people write ---------------------------------------------------------------------

    def manifests(self) -> list[Manifest]:
        return [
            *super(FullStory, self).manifests(),
            self._sentries(),
            self._schedule(),
            self._job(self.name),
            self._job(ENDED),
        ]

    def _registry(self) -> Manifest:
        made = super(FullStory, self)._registry()
        made["spec"]["extraValueMappings"]["secret"] = {"column": "url", "sensitive": True}
        return made

    def _template(self) -> Manifest:
        made = super(FullStory, self)._template()
        spec = made["spec"]
        spec["rollout"] = {"maxSkew": 10}
        spec["configMaps"] += [
            self._config_map("merged", patchStrategy="merge"),
            self._config_map("replaced", patchStrategy="replace"),
            self._config_map("once", creationPolicy="Once"),
            self._config_map("kept", deletionPolicy="Retain"),
            self._config_map("abroad", targetNamespace="{{ .uid }}-own", dependIds=["own"]),
        ]
        spec["namespaces"] = [
            {
                "id": "own",
                "nameTemplate": "{{ .uid }}-own",
                "labelsTemplate": {"tenant": "{{ .uid }}"},
                "spec": {"apiVersion": "v1", "kind": "Namespace"},
            }
        ]
        spec["secrets"] = [
            {
                "id": "session",
                "nameTemplate": "{{ .uid }}-session",
                "annotationsTemplate": {"plan": "{{ .plan }}"},
                "spec": {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "stringData": {"key": "{{ .secret }}"},
                },
            }
        ]
        return made

    def _config_map(self, name: str, **fields: object) -> Manifest:
        return {
            "id": name,
            "nameTemplate": f"{{{{ .uid }}}}-{name}",
            "labelsTemplate": {"plan": "{{ .plan }}"},
            "annotationsTemplate": {"example.com/plan": "{{ .plan }}"},
            "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"id": name}},
            **fields,
        }

    def _instance(self) -> Manifest:
        made = super(FullStory, self)._instance()
        spec = made["spec"]
        spec["infrastructure"] = {"terraform": {}}
        usage = {"method": "GET", "url": "https://usage.example.com"}
        spec["cluster"]["disks"] = {"maxSize": "1Ti", "usage": usage}
        return made

    def _sentries(self) -> Manifest:
        made = super(FullStory, self)._node_set()
        made["metadata"]["name"] = SENTRIES
        made["metadata"]["labels"] = {"team": "validators"}
        made["spec"] |= {
            "type": "Sentry",
            "replicas": 1,
            "service": {"maxP2PExternalAddresses": 1},
            "additionalVersionedPods": [
                {
                    "name": "beside",
                    "metadata": {"labels": {"beside": "yes"}},
                    "spec": {"containers": [{"name": "beside", "image": "beside:v1"}]},
                }
            ],
        }
        return made

    def _schedule(self, name: str | None = None, **fields: object) -> Manifest:
        return {
            "apiVersion": "cosmos.ctrlruntime.dev/v1",
            "kind": "ScheduledVolumeSnapshot",
            "metadata": self._metadata(name),
            "spec": {
                "fullNodeRef": {"name": self.name},
                "schedule": "0 * * * *",
                "volumeSnapshotClassName": "fast",
                "minAvailable": 1,
                **fields,
            },
        }

    def _job(self, name: str) -> Manifest:
        annotations = {} if name == ENDED else {"ctrlruntime.dev/simulate": "Hang"}
        return {
            "apiVersion": "cosmos.ctrlruntime.dev/v1",
            "kind": "StatefulJob",
            "metadata": {**self._metadata(name), "labels": {"team": "validators"}},
            "spec": {
                "selector": {"cosmos.ctrlruntime.dev/source": self.name},
                "jobTemplate": {"ttlSecondsAfterFinished": 86400},
                "podTemplate": {
                    "metadata": {"annotations": annotations},
                    "spec": {"containers": [{"name": "pack", "image": "tools:v1"}]},
                },
                "volumeClaimTemplate": {"storageClassName": "standard"},
            },
        }
