"""What every kind of the manager does alike: it pauses, reconciles on request, and reports what it cannot read.

One row for each kind; the columns are what a user sees. The specs of the CRDs let everything in here, so that an object
can be stored that its controller cannot read.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from apis.fleet.fleetconfig import NAME
from apis.health import RULES, Health, state_of
from apis.tenancy import Tenant
from ctrlruntime.envtest.idle import idle
from ctrlruntime.lifecycle import PerUID
from ctrlruntime.manager import Manager
from internal.fleet.stack_builder import StackOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from tests.docs.blocks import table, words
from tests.rules.harness import NAMESPACE, Harness, crds, is_observed, mapping_of, verdicts
from tests.rules.samples import samples
from tests.support.manager_harness import make_manager
from tests.support.memories import holders, kept_of_gone, mentions
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

PAUSED = "ctrlruntime.dev/paused"
NOW = "ctrlruntime.dev/reconcile-now"
FLEET_CONFIG = {"spec": {"targetNamespace": NAMESPACE}}


@dataclass(frozen=True, slots=True)
class Row:
    """What a kind does."""

    observes: bool = False
    """Its status goes on showing what there is while it is paused; else it has the condition Paused alone."""
    handled: str = "lastHandledReconcile"
    """The field of the status that reports a request to reconcile."""
    writers: int = 1
    """Controllers that report it; 0: runs that are under way are reported as well."""


ALIKE = Row()
INSTANCE = Row(observes=True, writers=0)
SUBRESOURCE = Row(observes=True, handled="lastHandledReconcileNow")
ROWS = {
    **dict.fromkeys(("TenantRegistry", "TenantTemplate", "Tenant"), ALIKE),
    **dict.fromkeys(("CosmosFullNode", "ScheduledVolumeSnapshot", "StatefulJob"), ALIKE),
    **dict.fromkeys(("FleetRollout", "FleetConfig"), ALIKE),
    "ChangeFreeze": Row(writers=3),  # one of each system
    "Instance": INSTANCE,
    **dict.fromkeys(("InstanceTerraform", "InstanceKubernetes"), SUBRESOURCE),
    **dict.fromkeys(("InstanceKubernetesPVC", "InstanceInvariants"), SUBRESOURCE),
    "UpgradeInstanceTask": SUBRESOURCE,
}


@dataclass(slots=True)
class Scene:
    """Every controller of the product, and objects of each kind."""

    harness: Harness
    operator: Manager
    others: list[object]
    """What managers of other tests in this process keep of objects named as a FleetConfig has to be."""

    async def put(self, kind: str, spec: dict[str, Any] | None = None, **annotations: str) -> str:
        """Create an object of a kind; return its name."""
        name = NAME if kind == "FleetConfig" else f"{kind.lower()}-{len(annotations)}"
        mapping = mapping_of(kind)
        sample = FLEET_CONFIG if kind == "FleetConfig" else samples()[kind][0]
        head = {"apiVersion": mapping.gvk.api_version, "kind": kind}
        scope = {"namespace": NAMESPACE} if mapping.namespaced else {}
        keys = {"paused": PAUSED, "now": NOW}
        metadata = {
            "name": name,
            **scope,
            "annotations": {keys[key]: value for key, value in annotations.items()},
        }
        spec = sample["spec"] if spec is None else spec
        await self.harness.client.create({**head, "metadata": metadata, "spec": spec})
        return name

    async def annotate(self, kind: str, name: str, **annotations: str | None) -> None:
        keys = {"paused": PAUSED, "now": NOW}
        patch = {
            "metadata": {"annotations": {keys[key]: each for key, each in annotations.items()}}
        }
        mapping = mapping_of(kind)
        place = NAMESPACE if mapping.namespaced else None
        await self.harness.client.patch(mapping, name, patch, namespace=place)

    async def live(self, kind: str, name: str) -> dict[str, Any]:
        return await self.harness.get(mapping_of(kind), name) or {}

    async def idle(self) -> None:
        await self.harness.idle()
        await idle(self.operator, self.harness.client)

    async def paused(self, kind: str, name: str) -> str:
        """Return the status of the condition Paused; empty: it is not there."""
        status = (await self.live(kind, name)).get("status") or {}
        found = [each for each in status.get("conditions") or () if each["type"] == "Paused"]
        return found[0]["status"] if found else ""

    async def conditions(self, kind: str, name: str) -> dict[str, str]:
        """Return the status of each condition."""
        status = (await self.live(kind, name))["status"]
        return {each["type"]: each["status"] for each in status["conditions"]}

    async def wipe(self, kind: str, name: str, condition: str) -> None:
        """Remove a condition by hand."""
        mapping, status = mapping_of(kind), (await self.live(kind, name))["status"]
        left = [each for each in status["conditions"] if each["type"] != condition]
        place = NAMESPACE if mapping.namespaced else None
        patch = {"status": {"conditions": left}}
        await self.harness.client.patch_status(mapping, name, patch, namespace=place)

    @contextlib.asynccontextmanager
    async def cleared(self, kind: str, name: str) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.harness.discard(mapping_of(kind), name)
            await self.idle()


def loosened(crd: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD whose spec takes everything."""
    made = copy.deepcopy(crd)
    for version in made["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema.pop("x-kubernetes-validations", None)
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema["properties"]["spec"] = anything
    return made


def unreadable(kind: str) -> dict[str, Any]:
    """Return a spec with an object where there is to be a text, a number or a list."""
    fields = crds()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    name = next(name for name, each in fields["properties"].items() if each["type"] != "object")
    sample = FLEET_CONFIG if kind == "FleetConfig" else samples()[kind][0]
    return {**sample["spec"], name: {"an": "object"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    others = holders("of no object", NAME)
    async with Harness.start(tmp_path_factory.mktemp("lifecycle"), manager=False) as harness:
        for crd in crds().values():
            await harness.client.apply(loosened(dict(crd)), field_manager="test", force=True)
        await harness.start_manager()
        operator = make_manager(harness.environment.config("manager"), name="operator")
        add_operator(
            operator, OperatorOptions(stack=StackOptions(image="stack:v1"), status_delay=0.0)
        )
        async with operator.running():
            yield Scene(harness, operator, others)


@pytest.mark.criterion("L-1")
async def test_every_kind_has_its_row_here_and_in_the_documents() -> None:
    assert set(ROWS) == set(crds())
    rows = table("docs/conditions.md", "pause of every kind")
    shown = {kind: words(field) for kinds, _, field in rows for kind in kinds.split(", ")}
    assert shown == {kind: [row.handled] for kind, row in ROWS.items()}


@pytest.mark.criterion("L-1")
@pytest.mark.parametrize("kind", ROWS)
async def test_a_paused_object_gets_nothing_but_its_status_until_it_is_resumed(
    scene: Scene, kind: str
) -> None:
    since, mapping = scene.harness.mark(), mapping_of(kind)
    name = await scene.put(kind, paused="true", now="1")
    async with scene.cleared(kind, name):
        await eventually(lambda: scene.paused(kind, name), lambda found: found == "True")
        await scene.idle()
        written = {each.resource for each in scene.harness.writes(since)}
        assert written == {f"{mapping.plural}.{mapping.gvk.group}/status"}
        live = await scene.live(kind, name)
        conditions = {each["type"] for each in live["status"]["conditions"]}
        assert ("Ready" in conditions) is ROWS[kind].observes
        assert ROWS[kind].handled not in live["status"]
        assert state_of(live).health is Health.WAITING or ROWS[kind].observes, live["status"]
        since = scene.harness.mark()
        await scene.annotate(kind, name, paused=None)
        await eventually(lambda: scene.paused(kind, name), lambda found: found == "False")
        live = await scene.harness.settled(mapping, name)
        assert is_observed(live), live.get("status")
        await scene.idle()
        assert (await scene.live(kind, name))["status"][ROWS[kind].handled] == "1"


@pytest.mark.criterion("L-1", "U-1")
@pytest.mark.parametrize("kind", ROWS)
async def test_an_object_is_reconciled_on_request_once(scene: Scene, kind: str) -> None:
    """And each condition that is wiped by hand comes back."""
    name = await scene.put(kind)
    async with scene.cleared(kind, name):
        live = await scene.harness.settled(mapping_of(kind), name)
        assert is_observed(live), live.get("status")
        assert "Ready" in {each["type"] for each in live["status"]["conditions"]}
        await scene.idle()
        assert await scene.paused(kind, name) == ""
        since = scene.harness.mark()
        await scene.annotate(kind, name, now="2")
        field = ROWS[kind].handled
        await eventually(
            lambda: scene.live(kind, name), lambda found: found["status"].get(field) == "2"
        )
        await scene.idle()
        writes = scene.harness.writes(since)
        assert len(writes) == ROWS[kind].writers or not ROWS[kind].writers, writes
        status = (await scene.live(kind, name))["status"]
        shown = {each["type"]: each["status"] for each in status["conditions"]}
        assert shown["Ready"] == "False" or RULES[kind].always <= shown.keys(), status
        for lost in shown:
            await scene.wipe(kind, name, lost)
            await eventually(lambda: scene.conditions(kind, name), shown.__eq__)


@pytest.mark.criterion("L-1")
@pytest.mark.parametrize("kind", ROWS)
async def test_an_object_that_cannot_be_read_reports_the_field_and_is_left_alone(
    scene: Scene, kind: str
) -> None:
    since, mapping = scene.harness.mark(), mapping_of(kind)
    name = await scene.put(kind, unreadable(kind), now="3")
    async with scene.cleared(kind, name):
        field = ROWS[kind].handled
        await eventually(
            lambda: scene.live(kind, name),
            lambda found: (found.get("status") or {}).get(field) == "3",
        )
        live = await scene.harness.settled(mapping, name)
        assert {each["reason"] for each in verdicts(live)} == {"InvalidSpec"}, live.get("status")
        await scene.idle()
        assert {each.verb for each in scene.harness.writes(since)} <= {"patch"}


@pytest.mark.criterion("L-3")
@pytest.mark.parametrize("kind", ROWS)
async def test_nothing_is_kept_of_an_object_that_is_gone(scene: Scene, kind: str) -> None:
    # Paused, an Instance has no subresources, which have its name and would outlive it here.
    paused = {"paused": "true"} if kind == "Instance" else {}
    name, mapping = await scene.put(kind, None, **paused), mapping_of(kind)
    async with scene.cleared(kind, name):
        live = await scene.harness.settled(mapping, name)
        assert is_observed(live), live.get("status")
    uid = live["metadata"]["uid"]
    besides = scene.others if name == NAME else []
    assert mentions(uid, name, besides=besides) == set()


@pytest.mark.criterion("L-3")
async def test_what_is_kept_of_an_object_that_is_gone_is_found(scene: Scene) -> None:
    manager = scene.harness.manager
    assert manager is not None
    memory = PerUID[int](manager.cache.informer(Tenant))
    assert memory.put("of-no-tenant", 2) == 2
    assert kept_of_gone(manager) == []
    memory._kept["of-no-tenant"] = 1
    found, named = kept_of_gone(manager), mentions("of-no-tenant", "x")
    memory.forget("of-no-tenant")
    assert (found, named) == (["of-no-tenant"], {"ctrlruntime.lifecycle.memory.PerUID"})
