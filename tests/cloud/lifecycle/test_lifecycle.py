"""The life of an instance on a real API server, from `kubectl apply` to gone, as the diagram has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.eventually import eventually_holds
from internal.cloud.keys import instance_key
from tests.argocd.lua import evaluate
from tests.backends import SharedServer
from tests.cloud.lifecycle.e2e_environment import (
    DEPLOYMENT,
    JOB,
    NAME,
    ROOT,
    SECRET,
    Scenery,
    image_of,
)
from tests.cloud.lifecycle.watch_recorder import Seen

PATIENCE = 150.0
OLD, NEW = "5.1.0", "5.2.0"
SMALL, LARGE = "n2-standard-8", "n2-standard-16"
CHAIN = ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants")
UPGRADED = ("UpgradeInstanceTask", "InstanceKubernetes", "InstanceInvariants")
STATES = ("Pending", "Creating", "Created", "Started", "Done")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
POD = GroupVersionKind("", "v1", "Pod")

Steps = list[tuple[str, str]]


def told(*kinds: str) -> Steps:
    """The events of one run of each kind, one after another."""
    return [(kind, state) for kind in kinds for state in STATES]


@pytest.mark.criterion(
    "SG-03", "SG-06", "SG-07", "SG-08", "SG-26", "SG-61", "SG-62", "SG-72", "SG-75"
)
async def test_the_life_of_an_instance(real_server: SharedServer, tmp_path: Path) -> None:
    async with Scenery.set_up(real_server, tmp_path) as scenery:
        await from_apply_to_ready(scenery)
        await a_machine_type_is_for_terraform_alone(scenery)
        await a_version_is_migrated_to_before_the_workload_follows(scenery)
        await the_last_is_torn_down_first(scenery)


async def from_apply_to_ready(scenery: Scenery) -> None:
    await scenery.apply(scenery.instance(version=OLD, machine=SMALL))
    instance = await ready(scenery, 1)
    await events_are(scenery, told(*CHAIN))
    each_is_made_once_the_one_before_is_ready(scenery, instance)
    assert runs(scenery) == {"terraform": 1, "kubernetes": 1, "invariants": 1}

    status = instance.status
    assert (status["phase"], status["version"]) == ("Ready", OLD)
    assert [(c["kind"], c["ready"]) for c in status["children"]] == [(k, True) for k in CHAIN]
    project = f"project_id of {instance_key(scenery.namespace, NAME)}"
    assert status["outputs"]["project_id"] == project
    assert scenery.application.settings == {
        "externalURL": f"https://{scenery.namespace}.example.com",
        "project": project,
    }
    assert await deployed(scenery) == OLD
    assert scenery.application.rolled_at(0), "nobody used the kubeconfig that Terraform gave"
    health_is_told(scenery, "Instance", *CHAIN)


async def a_machine_type_is_for_terraform_alone(scenery: Scenery) -> None:
    before = {kind: scenery.chronicle.last(kind).moment for kind in CHAIN[1:]}
    events = told(*CHAIN)
    await scenery.apply(scenery.instance(version=OLD, machine=LARGE))
    await ready(scenery, 2)
    await events_are(scenery, [*events, *told("InstanceTerraform")])
    assert {kind: scenery.chronicle.last(kind).moment for kind in CHAIN[1:]} == before
    assert runs(scenery) == {"terraform": 2, "kubernetes": 1, "invariants": 1}
    assert machines(scenery) == [SMALL, LARGE]
    health_is_told(scenery, "Instance", *CHAIN)


async def a_version_is_migrated_to_before_the_workload_follows(scenery: Scenery) -> None:
    application, chronicle = scenery.application, scenery.chronicle
    terraform = chronicle.last("InstanceTerraform").moment
    asked, rolled = len(application.story), len(application.rolled_at(0))
    await scenery.apply(scenery.instance(version=NEW, machine=LARGE))
    instance = await ready(scenery, 3)
    events = told(*CHAIN, "InstanceTerraform", *UPGRADED)
    await events_are(scenery, events)
    assert instance.status["version"] == NEW
    assert await deployed(scenery) == NEW
    assert chronicle.last("InstanceTerraform").moment == terraform
    done = {"terraform": 2, "kubernetes": 2, "invariants": 2, "upgrade": 1}
    assert runs(scenery) == done

    story = application.story[asked:]
    upgrade = [what for what, _when in story if what != "GET /settings"]
    assert list(dict.fromkeys(upgrade)) == [
        "GET /healthz",
        "POST /backup",
        "POST /migrate",
        "GET /version",
    ]
    assert [upgrade.count(step) for step in ("POST /backup", "POST /migrate")] == [1, 1]
    when = dict(story)
    since = application.rolled_at(0)[rolled:]
    assert when["POST /migrate"] < since[0] < when["GET /version"] < when["GET /settings"]

    upgraded = chronicle.first("UpgradeInstanceTask", lambda seen: seen.ready)
    follows = chronicle.first("InstanceKubernetes", lambda seen: version(seen) == NEW)
    assert upgraded.moment < follows.moment
    health_is_told(scenery, "Instance", *CHAIN, "UpgradeInstanceTask")


async def the_last_is_torn_down_first(scenery: Scenery) -> None:
    chronicle = scenery.chronicle
    open_to_deletion = scenery.instance(version=NEW, machine=LARGE, protected=False)
    await scenery.apply(open_to_deletion)
    await ready(scenery, 4)
    await scenery.do("delete", "instances.cloud.ctrlruntime.dev", NAME, "--wait=false")
    await chronicle.until("Instance", lambda seen: seen.change == "DELETED", timeout=PATIENCE)
    order = (*reversed(CHAIN), "Instance")
    gone = {kind: chronicle.first(kind, lambda seen: seen.change == "DELETED") for kind in order}
    assert sorted(order, key=lambda kind: gone[kind].moment) == list(order)
    torn_down = [step for kind in reversed(CHAIN) for step in told(kind)]
    events = told(*CHAIN, "InstanceTerraform", *UPGRADED)
    await events_are(scenery, [*events, *torn_down])
    assert scenery.application.settings == {}
    assert scenery.hcp.fake_state.workspaces == {}
    await nothing_is_left(scenery)


# -- what is seen ---------------------------------------------------------------------------------


async def ready(scenery: Scenery, generation: int) -> Seen:
    """The instance, ready for its latest spec."""

    def is_so(seen: Seen) -> bool:
        return seen.ready and seen.generation == generation

    return await scenery.chronicle.until("Instance", is_so, timeout=PATIENCE)


async def events_are(scenery: Scenery, expected: Steps) -> None:
    """All of them, ever. They are sent beside the work, so the last may come a little later."""

    async def is_so() -> bool:
        steps = await scenery.steps()
        assert steps == expected, steps
        return True

    await eventually_holds(is_so, timeout=60, interval=0.1)


def each_is_made_once_the_one_before_is_ready(scenery: Scenery, instance: Seen) -> None:
    links = [scenery.chronicle.first(kind) for kind in CHAIN]
    ends = [scenery.chronicle.first(kind, lambda seen: seen.ready) for kind in CHAIN]
    for end, following in zip(ends, [*links[1:], instance], strict=True):
        assert end.moment < following.moment, (end.kind, following.kind)


def runs(scenery: Scenery) -> dict[str, int]:
    """How many runs of each task there ever were."""
    made = {seen.name: seen.manifest for seen in scenery.chronicle.of_kind("Job")}
    tasks = [job["metadata"]["labels"]["cloud.ctrlruntime.dev/task"] for job in made.values()]
    return {task: tasks.count(task) for task in tasks}


def machines(scenery: Scenery) -> list[str]:
    """What was asked of Terraform, run by run."""
    asked = [run.version.document() for run in scenery.hcp.fake_state.runs.values()]
    return [each["module"]["instance"]["blue_machine_type"] for each in asked]


def version(seen: Seen) -> str:
    return str(seen.manifest["spec"]["version"])


async def deployed(scenery: Scenery) -> str:
    """The version in the instance's cluster."""
    found = await scenery.client.get(DEPLOYMENT, "frontend", namespace=scenery.cluster)
    return image_of(found).rpartition(":")[2]


def health_is_told(scenery: Scenery, *kinds: str) -> None:
    """Argo CD sees progress on the way, health at the end, and nothing else."""
    shipped = yaml.safe_load((ROOT / "config/argocd/argocd-cm.yaml").read_text())["data"]
    for kind in kinds:
        script = shipped[f"resource.customizations.health.cloud.ctrlruntime.dev_{kind}"]
        said: list[Any] = [
            evaluate(script, seen.manifest)["status"] for seen in scenery.chronicle.of_kind(kind)
        ]
        assert set(said) == {"Progressing", "Healthy"}, (kind, said)
        assert said[-1] == "Healthy", (kind, said)


async def nothing_is_left(scenery: Scenery) -> None:
    """Neither beside the instance nor in its cluster; Pods go a little after their Jobs."""
    client = scenery.client

    async def names(kind: GroupVersionKind, namespace: str) -> set[str]:
        found = await client.list(kind, namespace, metadata_only=True)
        return {str(each["metadata"]["name"]) for each in found}

    async def is_so() -> bool:
        for kind in (JOB, POD):
            assert not await names(kind, scenery.namespace)
        secrets = await names(SECRET, scenery.namespace)
        assert {name for name in secrets if not name.startswith("default-token-")} == {"hcp"}
        assert await names(CONFIG_MAP, scenery.namespace) <= {"kube-root-ca.crt"}
        assert await names(CONFIG_MAP, scenery.cluster) <= {"kube-root-ca.crt"}
        for kind in (DEPLOYMENT, POD):
            assert not await names(kind, scenery.cluster)
        return True

    await eventually_holds(is_so, timeout=60, interval=0.1)
    kinds = ("Instance", *CHAIN, "UpgradeInstanceTask", "Job")
    assert not [kind for kind in kinds if scenery.chronicle.is_present(kind)]
