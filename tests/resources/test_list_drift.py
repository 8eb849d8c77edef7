"""Edits by hand of what an apply cannot express: keys of list items, names, unions. They are undone, on both servers."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.resources import Action, Control, Desired, Owner
from tests.conformance.manifests import GROUP, shapes
from tests.support.waiting import eventually

NAMESPACE = "default"
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
DEPLOYMENT = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
DAEMON_SET = BUILTIN[GroupVersionKind("apps", "v1", "DaemonSet")]
BUDGET = BUILTIN[GroupVersionKind("policy", "v1", "PodDisruptionBudget")]
SCALER = BUILTIN[GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")]
CRON_JOB = BUILTIN[GroupVersionKind("batch", "v1", "CronJob")]
INGRESS = BUILTIN[GroupVersionKind("networking.k8s.io", "v1", "Ingress")]
SHAPE = RESTMapping(GroupVersionKind(GROUP, "v1", "Shape"), plural="shapes", namespaced=True)
KINDS = (SERVICE, DEPLOYMENT, DAEMON_SET, BUDGET, SCALER, CRON_JOB, INGRESS, SHAPE)
POD = "/spec/template/spec"
APP = f"{POD}/containers/0"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "x"}},
}
POD_SPEC: Manifest = {
    "containers": [
        {
            "name": "app",
            "image": "app:1",
            "ports": [{"containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
            "env": [{"name": "MODE", "value": "fast"}, {"name": "LEVEL", "value": "info"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
            "lifecycle": {"preStop": {"exec": {"command": ["drain"]}}},
            "volumeMounts": [
                {"name": "work", "mountPath": "/work"},
                {"name": "work", "mountPath": "/tmp"},
            ],
        },
        {"name": "log", "image": "log:1"},
    ],
    "volumes": [{"name": "work", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [SPREAD],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
    "imagePullSecrets": [{"name": "pull"}],
}
APP_ONLY: Manifest = {"name": "app", "image": "app:1"}
CONTENT: dict[str, tuple[RESTMapping, Manifest]] = {
    "service": (
        SERVICE,
        {
            "type": "NodePort",
            "selector": {"app": "x"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080},
                {"name": "admin", "port": 90, "targetPort": 9090},
            ],
        },
    ),
    "one port": (SERVICE, {"selector": {"app": "x"}, "ports": [{"port": 80}]}),
    "deployment": (
        DEPLOYMENT,
        {
            "replicas": 0,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC},
        },
    ),
    "daemons": (
        DAEMON_SET,
        {
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}},
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [APP_ONLY]}},
        },
    ),
    "budget": (BUDGET, {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}),
    "scaler": (
        SCALER,
        {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 50},
                    },
                }
            ],
        },
    ),
    "cron job": (
        CRON_JOB,
        {
            "schedule": "@daily",
            "jobTemplate": {
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [APP_ONLY]}}}
            },
        },
    ),
    "ingress": (
        INGRESS,
        {
            "rules": [{"host": "a.example.com"}],
            "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}},
        },
    ),
    "shape": (
        SHAPE,
        {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}], "names": ["x", "y"]},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What a person does to an object: JSON patch operations, as `replace` of a path by a value or as a list."""

    content: str
    replace: dict[str, Any] = field(default_factory=dict)
    operations: tuple[dict[str, Any], ...] = ()

    @property
    def patch(self) -> list[dict[str, Any]]:
        found = [{"op": "replace", "path": path, "value": v} for path, v in self.replace.items()]
        return [*self.operations, *found]


CONFIG_MAP_KEY = {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}
EDITS = {
    "port of a Service": Edit(content="service", replace={"/spec/ports/0/port": 81}),
    "its protocol": Edit(content="service", replace={"/spec/ports/1/protocol": "UDP"}),
    "two ports": Edit(
        content="service", replace={"/spec/ports/0/port": 81, "/spec/ports/1/port": 91}
    ),
    "ports swapped": Edit(
        content="service", replace={"/spec/ports/0/port": 90, "/spec/ports/1/port": 80}
    ),
    "a port that is all": Edit(content="one port", replace={"/spec/ports/0/port": 81}),
    "port of a container": Edit(content="deployment", replace={f"{APP}/ports/0/containerPort": 81}),
    "named port of a container": Edit(
        content="deployment", replace={f"{APP}/ports/1/containerPort": 91}
    ),
    "name of a container": Edit(content="deployment", replace={f"{APP}/name": "renamed"}),
    "name and image": Edit(
        content="deployment", replace={f"{APP}/name": "renamed", f"{APP}/image": "app:2"}
    ),
    "name of a variable": Edit(content="deployment", replace={f"{APP}/env/0/name": "SPEED"}),
    "value to valueFrom": Edit(
        content="deployment",
        replace={f"{APP}/env/0": {"name": "MODE", "valueFrom": CONFIG_MAP_KEY}},
    ),
    "emptyDir to configMap": Edit(
        content="deployment",
        replace={f"{POD}/volumes/0": {"name": "work", "configMap": {"name": "c"}}},
    ),
    "name of a volume": Edit(
        content="deployment",
        replace={
            f"{POD}/volumes/0/name": "other",
            f"{APP}/volumeMounts/0/name": "other",
            f"{APP}/volumeMounts/1/name": "other",
        },
    ),
    "path of a mount": Edit(
        content="deployment", replace={f"{APP}/volumeMounts/0/mountPath": "/elsewhere"}
    ),
    "toleration": Edit(content="deployment", replace={f"{POD}/tolerations/0/key": "b"}),
    "spread constraint": Edit(
        content="deployment",
        replace={f"{POD}/topologySpreadConstraints/0/topologyKey": "node"},
    ),
    "host alias": Edit(content="deployment", replace={f"{POD}/hostAliases/0/ip": "10.0.0.2"}),
    "pull secret": Edit(content="deployment", replace={f"{POD}/imagePullSecrets/0/name": "other"}),
    "strategy": Edit(
        content="deployment",
        replace={"/spec/strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}}},
    ),
    "probe": Edit(content="deployment", replace={f"{APP}/readinessProbe": {"grpc": {"port": 80}}}),
    "hook": Edit(
        content="deployment",
        replace={f"{APP}/lifecycle/preStop": {"httpGet": {"path": "/", "port": 80}}},
    ),
    "surge of a DaemonSet": Edit(
        content="daemons",
        replace={"/spec/updateStrategy/rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    ),
    "budget": Edit(
        content="budget",
        operations=(
            {"op": "remove", "path": "/spec/minAvailable"},
            {"op": "add", "path": "/spec/maxUnavailable", "value": 1},
        ),
    ),
    "target of a metric": Edit(
        content="scaler",
        replace={"/spec/metrics/0/resource/target": {"type": "AverageValue", "averageValue": "1"}},
    ),
    "container of a CronJob": Edit(
        content="cron job",
        replace={"/spec/jobTemplate/spec/template/spec/containers/0/name": "renamed"},
    ),
    "rule of an Ingress": Edit(content="ingress", replace={"/spec/rules/0/host": "b.example.com"}),
    "backend of an Ingress": Edit(
        content="ingress",
        replace={"/spec/defaultBackend/service/port": {"name": "http"}},
    ),
    "custom item": Edit(content="shape", replace={"/spec/ports/0/port": 9}),
    "custom protocol": Edit(content="shape", replace={"/spec/ports/1/protocol": "UDP"}),
    "item of a set": Edit(content="shape", replace={"/spec/names/0": "z"}),
}


@asynccontextmanager
async def controls(config: Config) -> AsyncIterator[tuple[Control, Client, Owner]]:
    async with Client.connect(config) as client:
        await install_crds(client, [shapes()])
        cache = Cache(client)
        for kind in KINDS:
            cache.declare(kind, namespaces=[NAMESPACE], track_manager="manager")
        await cache.start()
        await cache.wait_synced(10.0)
        owner: Manifest = await client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "owner", "namespace": NAMESPACE},
            }
        )
        yield Control(cache, field_manager="manager"), client, Owner.of(owner)
        with suppress(NotFound):  # which the sweep of a shared server does not know
            await client.delete(SHAPE, "thing", namespace=NAMESPACE)
        await cache.stop()


def desired(content: str) -> Desired:
    mapping, spec = CONTENT[content]
    metadata = {"name": "thing", "namespace": NAMESPACE}
    manifest = {"apiVersion": mapping.gvk.api_version, "kind": mapping.gvk.kind}
    return Desired(
        mapping=mapping, manifest={**manifest, "metadata": metadata, "spec": copy.deepcopy(spec)}
    )


async def live(client: Client, wanted: Desired) -> Manifest:
    found: Manifest = await client.get(wanted.mapping, "thing", namespace=NAMESPACE)
    return found


async def edit(
    control: Control, client: Client, wanted: Desired, patch: Iterable[Any], who: str
) -> None:
    """Edit as kubectl does, and wait until the control can see it."""
    answer: Manifest = await client.patch(
        wanted.mapping,
        "thing",
        list(patch),
        namespace=NAMESPACE,
        type=PatchType.JSON,
        field_manager=who,
    )
    await seen(control, wanted, answer)


async def seen(control: Control, wanted: Desired, answer: Manifest) -> None:
    def is_seen() -> bool:
        entry = control.look(wanted)
        version = answer["metadata"]["resourceVersion"]
        return entry is not None and int(entry.resource_version) >= int(version)

    await eventually(is_seen)


def content(obj: Manifest) -> object:
    """The content but for what the server allocates, lists of keyed items in the order of their keys."""
    return _ordered(obj["spec"])


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        return {k: _ordered(v) for k, v in value.items() if k != "nodePort"}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=repr)
    return value


@pytest.mark.criterion("R-5")
@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_by_hand_is_undone(api_config: Config, name: str) -> None:
    done = EDITS[name]
    wanted = desired(done.content)
    async with controls(api_config) as (control, client, owner):
        await control.ensure(wanted, owner)
        before = await live(client, wanted)
        await edit(control, client, wanted, done.patch, "kubectl-edit")
        outcome = await control.ensure(wanted, owner)
        assert (outcome.action, outcome.conflict) == (Action.UPDATED, "")
        after = await live(client, wanted)
        assert content(after) == content(before)
        assert (await control.ensure(wanted, owner)).action is Action.UNCHANGED


def added(path: str, value: object) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


SIDECAR = {"name": "mesh", "image": "mesh:1"}
OTHERS: dict[str, tuple[str, list[dict[str, Any]], str, str]] = {
    "a sidecar": (
        "deployment",
        added(f"{POD}/containers/-", SIDECAR),
        "name of a container",
        "mesh:1",
    ),
    "a sidecar in front": ("deployment", added(f"{APP}", SIDECAR), "", "mesh:1"),
    "a variable": (
        "deployment",
        added(f"{APP}/env/-", {"name": "X", "value": "x"}),
        "value to valueFrom",
        "'X'",
    ),
    "a volume": (
        "deployment",
        added(f"{POD}/volumes/-", {"name": "own", "emptyDir": {}}),
        "emptyDir to configMap",
        "'own'",
    ),
    "a port": (
        "service",
        added("/spec/ports/-", {"name": "mesh", "port": 15090, "protocol": "TCP"}),
        "port of a Service",
        "15090",
    ),
    "a port beside one that went": (
        "deployment",
        added(f"{APP}/ports/-", {"name": "mesh", "containerPort": 15090}),
        "",
        "15090",
    ),
    "a custom item": (
        "shape",
        added("/spec/ports/-", {"port": 7, "name": "c"}),
        "custom item",
        "'port': 7",
    ),
}
GONE: dict[str, list[dict[str, Any]]] = {
    "a sidecar in front": [
        {"op": "replace", "path": f"{POD}/containers/1/name", "value": "renamed"}
    ],
    "a port beside one that went": [{"op": "remove", "path": f"{APP}/ports/0"}],
}


@pytest.mark.criterion("R-5")
@pytest.mark.parametrize("unowned", [False, True], ids=["another manager", "a webhook"])
@pytest.mark.parametrize("name", OTHERS)
async def test_what_others_added_stays(api_config: Config, name: str, unowned: bool) -> None:
    which, patch, then, there = OTHERS[name]
    wanted = desired(which)
    async with controls(api_config) as (control, client, owner):
        await control.ensure(wanted, owner)
        await edit(control, client, wanted, patch, "mesh")
        if unowned:
            await disown(control, client, wanted, "mesh")
        assert (await control.ensure(wanted, owner)).conflict == ""
        before = await live(client, wanted)
        await edit(
            control, client, wanted, EDITS[then].patch if then else GONE[name], "kubectl-edit"
        )
        assert (await control.ensure(wanted, owner)).action is Action.UPDATED
        after = await live(client, wanted)
        assert there in repr(after["spec"])
        assert content(after) == content(before)
        assert (await control.ensure(wanted, owner)).action is Action.UNCHANGED


async def disown(control: Control, client: Client, wanted: Desired, manager: str) -> None:
    """Leave what a manager added without an owner, as what a mutating webhook adds is."""
    managed = (await live(client, wanted))["metadata"]["managedFields"]
    kept = [each for each in managed if each["manager"] != manager]
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": kept}]
    await edit(control, client, wanted, patch, "admin")


@pytest.mark.criterion("R-5")
@pytest.mark.parametrize("name", ["port", "item"])
async def test_what_another_manager_applied_stays_and_is_named(
    api_config: Config, name: str
) -> None:
    """Where the server takes both both stay; where it takes one, the outcome names manager and field."""
    which = {"port": "service", "item": "shape"}[name]
    wanted = desired(which)
    async with controls(api_config) as (control, client, owner):
        await control.ensure(wanted, owner)
        await edit(
            control, client, wanted, [{"op": "remove", "path": "/spec/ports/0"}], "kubectl-edit"
        )
        first = copy.deepcopy(CONTENT[which][1]["ports"][0])
        first["port"] = 7
        manifest = {**wanted.manifest, "spec": {"ports": [{**first, "protocol": "TCP"}]}}
        answer: Manifest = await client.apply(manifest, kind=wanted.mapping, field_manager="mesh")
        await seen(control, wanted, answer)
        outcome = await control.ensure(wanted, owner)
        ports = [each["port"] for each in (await live(client, wanted))["spec"]["ports"]]
        assert 7 in ports
        if name == "item":
            assert sorted(ports) == [1, 2, 7]
        else:
            assert outcome.action is Action.CONFLICT
            assert '.spec.ports[port=7,protocol="TCP"] by mesh' in outcome.conflict
