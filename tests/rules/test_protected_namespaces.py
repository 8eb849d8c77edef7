"""Protected namespaces hold for every kind of every system: the object says so, and nothing is written for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api import KindRef
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.client.protected_namespaces import NamespaceProtected, ProtectedNamespaces
from ctrlruntime.controller.error_status import ErrorStatus
from ctrlruntime.controller.refresh_unconfirmed import RefreshUnconfirmed
from ctrlruntime.generate.setup import NOWHERE
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from manager.controllers.error_status import UnprotectedOnly
from manager.controllers.tenancy_options import TenancyOptions
from manager.manifests.folders import SYSTEMS
from manager.options import RunOptions
from manager.serving.operator_run import OperatorRun
from tests.rules.harness import Harness, crds, mapping_of
from tests.rules.samples import samples
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("S-F15")
LOOP = pytest.mark.asyncio(loop_scope="module")

OPTIONS = RunOptions(
    own_namespace="the-managers",
    tenancy=TenancyOptions(protected_namespaces=frozenset({"vault-*"})),
)
PLACES = ("kube-system", "kube-public", "kube-node-lease", "the-managers", "vault-1")
NAMESPACED = sorted(kind for kind in samples() if mapping_of(kind).namespaced)
REQUIRED: dict[str, dict[str, Any]] = {
    "InstanceKubernetesPVC": {"disks": {"maxSize": "1Ti", "usage": {"url": "http://usage.example"}}}
}
OWNED = [BUILTIN[GroupVersionKind("", "v1", kind)] for kind in ("Pod", "Service", "ConfigMap")]


@dataclass(slots=True)
class Guarded(Harness):
    """A manager with the options of `manager run` for namespaces."""

    options: RunOptions = OPTIONS

    def make_manager(self, config: Config, logger: FilteringBoundLogger) -> Manager:
        protected = self.options.manager_options().protected
        return make_manager(config, logger=logger, name="manager", protected=protected)

    async def put(self, kind: str, namespace: str, name: str = "x") -> dict[str, Any]:
        """Create the sample of a kind in a namespace, which is made."""
        head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        with contextlib.suppress(AlreadyExists):
            await self.client.create(head)
        sample = samples()[kind][0]
        spec = {**sample["spec"], **REQUIRED.get(kind, {})}
        metadata = {"name": name, "namespace": namespace}
        return await self.client.create({**sample, "metadata": metadata, "spec": spec})

    async def left(self, namespace: str) -> list[str]:
        """What sets of nodes own in a namespace."""
        lists = [await self.client.list(each, namespace) for each in OWNED]
        return sorted(
            f"{item['metadata']['name']}{item['metadata'].get('deletionTimestamp', '')}"
            for each in lists
            for item in each
            if item["metadata"]["name"] != "kube-root-ca.crt"
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with Guarded.start(tmp_path_factory.mktemp("harness"), nodes=True) as started:
        yield started


def test_s_f15_every_namespaced_kind_of_the_systems_is_tried() -> None:
    systems = set(crds()) - {"FleetConfig"}  # of the operator, which has namespaces for targets
    assert set(NAMESPACED) == {kind for kind in systems if mapping_of(kind).namespaced}


@LOOP
@pytest.mark.parametrize("kind", NAMESPACED)
@pytest.mark.parametrize("namespace", PLACES)
async def test_s_f15_an_object_in_a_protected_namespace_says_so_and_nothing_is_made(
    harness: Guarded, kind: str, namespace: str
) -> None:
    since = harness.mark()
    await harness.put(kind, namespace, f"x-{kind.lower()}")
    mapping = mapping_of(kind)

    async def says_so() -> str:
        found = await harness.client.get(mapping, f"x-{kind.lower()}", namespace=namespace)
        conditions = (found.get("status") or {}).get("conditions") or []
        texts = [each["message"] for each in conditions if each["reason"] == "NamespaceProtected"]
        return "".join(texts)

    said = await eventually(says_so)
    assert f"--allow-protected-namespace {namespace}" in said
    await harness.idle()
    written = [each for each in harness.writes(since) if each.namespace == namespace]
    assert {each.resource for each in written} == {f"{mapping.plural}.{mapping.gvk.group}/status"}
    await harness.client.delete(mapping, f"x-{kind.lower()}", namespace=namespace)


@LOOP
async def test_s_f15_an_upgrade_leaves_what_is_there(
    tmp_path: Path,
) -> None:
    allowing = RunOptions(allow_protected_namespaces=frozenset({"kube-system"}))
    sets = mapping_of("CosmosFullNode")
    async with Guarded.start(tmp_path, nodes=True, manager=False) as harness:
        harness.options = allowing
        await harness.start_manager()
        await harness.put("CosmosFullNode", "kube-system")
        await harness.idle()
        made = await harness.left("kube-system")
        assert made
        await harness.stop_manager()
        harness.options = OPTIONS
        await harness.start_manager()
        scaled = {"spec": {"replicas": 0}}
        await harness.client.patch(sets, "x", scaled, namespace="kube-system")
        await harness.idle()
        assert await harness.left("kube-system") == made


@pytest.mark.parametrize(
    ("options", "namespace", "protected"),
    [
        (OPTIONS, "kube-system", True),
        (OPTIONS, "the-managers", True),
        (OPTIONS, "default", False),
        (OPTIONS, "", False),
        (RunOptions(allow_protected_namespaces=frozenset({"kube-system"})), "kube-system", False),
        (RunOptions(allow_protected_namespaces=frozenset({"kube-system"})), "kube-public", True),
        (OperatorRun(), "kube-system", True),
    ],
)
def test_s_f15_every_command_with_a_manager_has_the_rule(
    options: RunOptions | OperatorRun, namespace: str, protected: bool
) -> None:
    assert options.manager_options().protected.is_protected(namespace) is protected


def test_s_f15_a_namespace_counts_as_in_itself() -> None:
    with pytest.raises(NamespaceProtected, match="'kube-system' is protected"):
        ProtectedNamespaces().check(GroupKind("", "Namespace"), "kube-system", namespace="")
    ProtectedNamespaces().check(GroupKind("", "Node"), "kube-system", namespace="")


def served(kind: KindRef) -> bool:
    """Whether objects of the kind are in namespaces."""
    return isinstance(kind, type) and kind.mapping().namespaced


def writes_only_its_status(name: str) -> bool:
    """Whether a controller writes no object but the status of its own, if any."""
    return name == "cosmoscache" or name.endswith("-approvals")


async def test_s_f15_every_controller_of_namespaced_objects_passes_over_those_in_protected_namespaces() -> (
    None
):
    passed: list[str] = []
    for system in SYSTEMS.values():
        manager = Manager(NOWHERE, OPTIONS.manager_options())
        try:
            system.add(manager)
            for controller in manager.controllers:
                kind = controller.primary
                if kind is None or not served(kind):
                    continue
                if not writes_only_its_status(controller.name):
                    reconciler = controller._worker._reconciler
                    if isinstance(reconciler, RefreshUnconfirmed):
                        reconciler = reconciler._reconciler
                    assert isinstance(reconciler, (ErrorStatus, UnprotectedOnly)), controller.name
                    assert reconciler.protected == manager.options.protected
                    passed.append(controller.name)
        finally:
            manager.close()
            await manager.live_client.close()
    assert len(passed) > len(NAMESPACED)


async def test_s_f15_a_second_controller_of_a_kind_leaves_them_to_the_first() -> None:
    seen: list[str] = []

    class Seeing:
        async def reconcile(self, request: Request) -> None:
            seen.append(request.namespace)

    guarded = UnprotectedOnly(Seeing(), OPTIONS.manager_options().protected)
    for place in (*PLACES, "default"):
        await guarded.reconcile(Request(namespace=place, name="x"))
    assert seen == ["default"]
