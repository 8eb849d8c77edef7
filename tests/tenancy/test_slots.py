"""Tenants that several managers share: each is written by one, and all that it has carries the label of its slot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.operations import ChangeFreeze
from apis.tenancy import GROUP, Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.proxy import Fail, Match
from ctrlruntime.sharding import SLOT_LABEL, slot_of
from internal.tenancy.tenant import applier
from internal.tenancy.tenant.slots import SLOTS_LABELLED
from manager.controllers import change_freezes
from tests.support.freezes import freeze_until, frozen
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    REGISTRY,
    SECRET,
    TenancyHarness,
    config_map,
    is_ready,
)
from tests.tenancy.members import FIRST, SECOND, USERS, Members, changed_in_turn, kind_of, named

EXTRA = {"planId": "plan", "password": {"column": "plan", "sensitive": True}}
REPORT = f"tenantregistries.{GROUP}/status"
POD = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
}
WEB = {
    "id": "web",
    "nameTemplate": "{{ .uid }}-web",
    "waitForReady": False,
    "spec": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": POD},
    },
}


@dataclass(slots=True)
class Shared:
    """Two managers at work on a fleet of four tenants, two for each."""

    members: Members
    harness: TenancyHarness
    uids: list[str]

    @property
    def tenants(self) -> list[str]:
        return [f"{uid}-app" for uid in self.uids]

    def slot(self, uid: str) -> str:
        return str(slot_of(f"{uid}-app", namespace=self.harness.namespace))

    @staticmethod
    def places(uid: str) -> list[tuple[RESTMapping, str]]:
        """Return where a tenant is, and all that it has."""
        return [
            (Tenant.mapping(), f"{uid}-app"),
            (SECRET, f"{uid}-app-values"),
            (SECRET, f"{uid}-app-generated"),
            (CONFIG_MAP, f"{uid}-cm"),
            (DEPLOYMENT, f"{uid}-web"),
        ]

    async def objects(self, uid: str) -> dict[str, dict[str, Any]]:
        """Return all that a tenant has, and itself."""
        found = {name: await self.harness.get(kind, name) for kind, name in self.places(uid)}
        return {name: obj for name, obj in found.items() if obj is not None}

    async def label(self, kind: RESTMapping, name: str, value: str | None) -> None:
        """Change the label of a slot as a person does."""
        await self.harness.client.patch(
            kind,
            name,
            {"metadata": {"labels": {SLOT_LABEL: value}}},
            namespace=self.harness.namespace,
            type=PatchType.MERGE,
        )

    async def labelled(self, kind: RESTMapping, name: str, value: str) -> None:
        """Wait until an object has this label."""
        await self.harness.eventually(
            partial(self.harness.get, kind, name),
            lambda seen: seen["metadata"].get("labels", {}).get(SLOT_LABEL) == value,
        )

    async def fill(self) -> None:
        """Make registry and template, and wait until all tenants are ready."""
        await self.harness.registry(extraValueMappings=EXTRA)
        await self.template(
            configMaps=[config_map("cm", "{{ .uid }}-cm")],
            deployments=[WEB],
            generate={"token": {"length": 16}},
        )
        await self.harness.ready(*self.tenants)

    async def template(self, **content: object) -> None:
        """Create the template, or replace its content."""
        spec = {"registryId": REGISTRY, **content}
        await self.harness.put(
            TenantTemplate.mapping(),
            {
                "apiVersion": TenantTemplate.gvk().api_version,
                "kind": "TenantTemplate",
                "metadata": {"name": "app", "namespace": self.harness.namespace},
                "spec": spec,
            },
        )


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with TenancyHarness.start(tmp_path, manager=False, users=USERS) as harness:
        space = harness.namespace
        uids = [*named(FIRST, space, "-app", 2), *named(SECOND, space, "-app", 2)]
        harness.rows(*uids)
        yield Shared(Members(harness), harness, uids)


@pytest.mark.criterion("SH-20")
async def test_all_that_a_tenant_has_carries_its_slot_and_each_tenant_is_written_by_one(
    shared: Shared,
) -> None:
    members = shared.members
    async with members.both():
        await shared.fill()
        await members.silent()
        for uid in shared.uids:
            found = await shared.objects(uid)
            labels = {
                name: each["metadata"]["labels"].get(SLOT_LABEL) for name, each in found.items()
            }
            assert labels == dict.fromkeys(labels, shared.slot(uid))
            assert len(labels) == 5
            assert found[f"{uid}-web"]["spec"]["template"]["metadata"] == POD["metadata"]
        for user, own in (("manager", shared.uids[:2]), ("member", shared.uids[2:])):
            wrote = members.writes(user)
            children = {each.name for each in wrote if kind_of(each) == "configmaps"}
            assert children == {f"{uid}-cm" for uid in own}
            statuses = {e.name for e in wrote if kind_of(e) == "tenants" and e.verb == "patch"}
            assert statuses == {f"{uid}-app" for uid in own}
    rest = shared.harness.mark()
    async with members.both():  # a restart of both finds nothing to write
        await members.silent()
        assert [e for e in members.requests(rest) if e.verb not in ("get", "list")] == []


@pytest.mark.criterion("SH-20")
async def test_a_label_that_was_taken_off_or_changed_is_reclaimed_by_the_manager_of_the_right_slot(
    shared: Shared,
) -> None:
    harness, members = shared.harness, shared.members
    async with members.both():
        await shared.fill()
        await members.silent()
        uid, other = shared.uids[0], shared.slot(shared.uids[-1])
        before = await shared.objects(uid)
        places = [
            (CONFIG_MAP, f"{uid}-cm"),
            (Tenant.mapping(), f"{uid}-app"),
            (SECRET, f"{uid}-app-values"),
            (SECRET, f"{uid}-app-generated"),
        ]
        mark = harness.mark()
        for kind, name in places:
            for wrong in (None, other):
                await shared.label(kind, name, wrong)
                await shared.labelled(kind, name, shared.slot(uid))
        await members.silent()
        # Whoever of the two leads reports in the registry what lacks its label, and that it has it again.
        reports = [
            user for user in USERS for each in members.writes(user, mark) if each.resource == REPORT
        ]
        assert len({*reports}) <= 1
        assert [each for each in members.writes("member", mark) if each.resource != REPORT] == []
        after = await shared.objects(uid)
        for name, each in before.items():
            assert after[name]["metadata"]["uid"] == each["metadata"]["uid"]
            assert after[name].get("data") == each.get("data")
    assert "Label of another slot" in (harness.folder / "member.log").read_text()


@pytest.mark.criterion("SH-20")
async def test_labels_that_are_taken_off_all_objects_at_once_come_back_and_nothing_is_made_anew(
    shared: Shared,
) -> None:
    harness, members = shared.harness, shared.members
    async with members.both():
        await shared.fill()
        await members.silent()
        before = {uid: await shared.objects(uid) for uid in shared.uids}
        mark = harness.mark()
        places = [(uid, *place) for uid in shared.uids for place in shared.places(uid)]
        await asyncio.gather(*(shared.label(kind, name, None) for _, kind, name in places))
        for uid, kind, name in places:
            await shared.labelled(kind, name, shared.slot(uid))
        await members.silent()
        for uid, objects in before.items():
            after = await shared.objects(uid)
            assert {name: each["metadata"]["uid"] for name, each in after.items()} == {
                name: each["metadata"]["uid"] for name, each in objects.items()
            }
            assert after[f"{uid}-cm"]["data"] == objects[f"{uid}-cm"]["data"]
        names = {name: shared.uids.index(uid) < 2 for uid, _, name in places}
        wrote = [each for user in USERS for each in members.writes(user, mark)]
        found = [each for each in wrote if each.name in names and each.user != "admin"]
        assert {(each.name, each.user == "manager") for each in found} == {*names.items()}
        done = Counter((each.resource, each.name) for each in found if each.code < 400)
        assert max(done.values()) <= 2
        assert {each.verb for each in found} <= {"apply", "patch"}


@pytest.mark.criterion("SH-22")
async def test_a_fleet_from_before_gets_one_write_an_object_and_an_undivided_manager_works_on(
    shared: Shared,
) -> None:
    harness, members = shared.harness, shared.members
    await harness.start_manager()
    await shared.fill()
    await harness.idle()
    await harness.stop_manager()
    mark = harness.mark()
    async with members.member("manager", FIRST):
        await harness.registry_condition(
            "SlotsLabelled", "False", "LabelsMissing", message="2 of 4 tenants"
        )
        async with members.member("member", SECOND):
            await harness.registry_condition("SlotsLabelled", "True", "AllLabelled")
            await members.silent()
            for uid in shared.uids:
                found = await shared.objects(uid)
                labels = [each["metadata"]["labels"].get(SLOT_LABEL) for each in found.values()]
                assert labels == [shared.slot(uid)] * 5
    written = [
        (kind_of(each), each.name)
        for user in ("manager", "member")
        for each in members.writes(user, mark)
        if kind_of(each) != "tenantregistries"
    ]
    assert len(written) == len(set(written)) == 5 * len(shared.uids)
    await harness.start_manager()
    mark = harness.mark()
    await harness.eventually(
        lambda: harness.client.get(TenantRegistry, REGISTRY, namespace=harness.namespace),
        lambda seen: find_condition(seen.status.conditions, SLOTS_LABELLED) is None,
    )
    await harness.idle()
    assert {kind_of(each) for each in harness.writes(mark)} <= {"tenantregistries", "leases"}


@pytest.mark.criterion("SH-22")
async def test_objects_that_lost_the_label_while_no_manager_ran_are_not_left_behind(
    shared: Shared,
) -> None:
    """Without an owner reference, as in another namespace, nothing but the manager removes them."""
    harness, members = shared.harness, shared.members
    uid, place = shared.uids[0], harness.place("further")
    await harness.make_namespace(place)
    async with members.both():
        await harness.registry()
        entry = config_map("cm", "{{ .uid }}-cm", targetNamespace=place)
        await harness.template("app", configMaps=[entry])
        await harness.ready(*shared.tenants)
        await members.silent()
    lost = {"metadata": {"labels": {SLOT_LABEL: None}}}
    await harness.client.patch(CONFIG_MAP, f"{uid}-cm", lost, namespace=place, type=PatchType.MERGE)
    harness.row(uid, active=0)
    await harness.client.delete(Tenant, f"{uid}-app", namespace=harness.namespace)
    async with members.both():
        await harness.gone(Tenant.mapping(), f"{uid}-app")
    assert await harness.get(CONFIG_MAP, f"{uid}-cm", place) is None


@pytest.mark.criterion("SH-22")
async def test_a_tenant_with_an_object_that_cannot_be_labelled_waits_and_no_other_does(
    shared: Shared,
) -> None:
    harness, members = shared.harness, shared.members
    await harness.start_manager()
    await harness.registry()
    await shared.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.ready(*shared.tenants)
    await harness.stop_manager()
    refused = Match(
        user="manager", verb="patch", resource="configmaps", name=f"{shared.uids[0]}-cm"
    )
    proxy = harness.environment.proxy
    rule = proxy.add(Fail(500), refused, times=None)
    async with members.both():
        await harness.registry_condition(
            "SlotsLabelled", "False", "LabelsMissing", message="3 of 4 tenants"
        )
        proxy.remove(rule)
        await harness.registry_condition("SlotsLabelled", "True", "AllLabelled")
    for uid in shared.uids:
        labels = [each["metadata"]["labels"] for each in (await shared.objects(uid)).values()]
        assert [each[SLOT_LABEL] for each in labels] == [shared.slot(uid)] * 2


# -- neighbours in the slots of another manager ------------------------------------------------------


@pytest.mark.criterion("SH-23")
async def test_an_object_in_the_way_of_another_managers_tenant_is_looked_at_again(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert timedelta(seconds=30) == applier.OUT_OF_SIGHT
    monkeypatch.setattr(applier, "OUT_OF_SIGHT", timedelta(seconds=0.2))
    harness, members = shared.harness, shared.members
    one, other = shared.uids[0], shared.uids[-1]
    harness.sql("DELETE FROM tenants WHERE uid NOT IN (?, ?)", one, other)
    async with members.both():
        await harness.registry()
        await harness.template("app", configMaps=[config_map("cm", "cm-{{ .planId }}")])
        names = {f"{uid}-app" for uid in (one, other)}

        async def ready() -> set[str]:
            return {name for name in names if is_ready(await harness.tenant(name))}

        first = await harness.eventually(ready)
        (waiting,) = names - first
        await harness.condition(waiting, "Conflicted", "True")
        harness.row(one if f"{one}-app" in first else other, plan="further")
        await harness.ready(*names)
    place = await harness.client.get(CONFIG_MAP, "cm-basic", namespace=harness.namespace)
    assert place["metadata"]["labels"][SLOT_LABEL] == shared.slot(waiting.removesuffix("-app"))


@pytest.mark.criterion("SH-23")
async def test_objects_are_handed_over_to_a_tenant_of_another_manager_and_stay(
    shared: Shared,
) -> None:
    harness, members = shared.harness, shared.members
    (later,) = named(SECOND, harness.namespace, "-app", 9)[-1:]
    uid = shared.uids[0]
    async with members.both():
        await harness.registry()
        await harness.template("app", configMaps=[config_map("cm", "{{ .host }}")])
        await harness.ready(*shared.tenants)
        place = partial(harness.client.get, CONFIG_MAP, f"{uid}.example.com")
        before = await place(namespace=harness.namespace)
        harness.sql("UPDATE tenants SET uid = ? WHERE uid = ?", later, uid)
        await harness.gone(Tenant.mapping(), f"{uid}-app")
        await harness.ready(f"{later}-app")
        await members.silent()
    after = await place(namespace=harness.namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"][SLOT_LABEL] == shared.slot(later)


# -- what counts over all tenants --------------------------------------------------------------------


@pytest.mark.criterion("SH-25")
async def test_a_rollout_keeps_its_budget_over_the_tenants_of_all_managers(shared: Shared) -> None:
    """One at a time: the leader changes the next tenant when the manager of the one before has reported it ready."""
    harness, members = shared.harness, shared.members
    async with members.both():
        await harness.registry()
        content = {"rollout": {"maxSkew": 1}}
        await shared.template(configMaps=[config_map("cm", "{{ .uid }}-cm")], **content)
        await harness.ready(*shared.tenants)
        await members.silent()
        mark = harness.mark()
        after = config_map("cm", "{{ .uid }}-cm", {"k": "w"})
        await shared.template(configMaps=[after], **content)
        for uid in shared.uids:
            await harness.eventually(
                partial(harness.get, CONFIG_MAP, f"{uid}-cm"), lambda seen: seen["data"]["k"] == "w"
            )
        await harness.ready(*shared.tenants)
        await members.silent()
        assert sorted(changed_in_turn(members.requests(mark))) == sorted(shared.tenants)


@pytest.mark.criterion("SH-33")
async def test_a_registry_that_moves_to_another_namespace_leaves_nothing_behind(
    shared: Shared,
) -> None:
    """The slots of its tenants are others there."""
    harness, members = shared.harness, shared.members
    former, later = harness.namespace, "moved"
    await harness.make_namespace(later)
    async with members.both():
        await shared.fill()
        for kind, name in ((TenantRegistry, REGISTRY), (TenantTemplate, "app")):
            approve = {"metadata": {"annotations": {f"{GROUP}/approve-deletion": "true"}}}
            await harness.client.patch(kind, name, approve, namespace=former)
            await harness.client.delete(kind, name, namespace=former)
        for uid in shared.uids:
            await harness.eventually(partial(shared.objects, uid), lambda seen: not seen)
        harness.namespace = later
        await shared.fill()
        await members.silent()
        for uid in shared.uids:
            found = await shared.objects(uid)
            assert len(found) == 5
            assert {e["metadata"]["labels"].get(SLOT_LABEL) for e in found.values()} == {
                shared.slot(uid)
            }


@pytest.mark.criterion("SH-28")
async def test_a_freeze_counts_what_it_holds_of_the_tenants_of_all_managers(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)
    harness = shared.harness
    await harness.environment.install_crds(ChangeFreeze)
    async with shared.members.both():
        await shared.fill()
        await shared.template(
            configMaps=[config_map("cm", "{{ .uid }}-cm")],
            deployments=[WEB],
            generate={"token": {"length": 16}},
            prune=True,
        )
        await harness.ready(*shared.tenants)
        async with frozen(harness.client, reason="Audit") as freeze:
            await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
            for uid in shared.uids:
                found = await harness.get(CONFIG_MAP, f"{uid}-cm")
                assert found is not None
                kept = {
                    key: found["metadata"][key]
                    for key in ("annotations", "labels", "ownerReferences")
                }
                metadata = {**kept, "name": f"{uid}-copy", "namespace": harness.namespace}
                await harness.client.create(
                    {**found, "metadata": metadata}, field_manager="kubectl"
                )
            await freeze_until(
                harness.client, freeze, lambda each: each.status.held.tenancy == len(shared.uids)
            )
