"""An exemption from a freeze is the freeze's: who may edit a registry alone requests it and gets nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from apis.operations import Exemption, ExemptionState, FrozenKind, FrozenSystem
from apis.tenancy import TenantRegistry
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, UpdateEvent
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.rollout import Freeze, FrozenObject
from internal.operations.exemptions import (
    KINDS,
    MOST_REQUESTS,
    ExemptionRequests,
    exemption_events,
    exemption_statuses,
    hold_for,
)
from manager.controllers import change_freezes
from manager.kinds import KINDS as ALL
from tests.manifests.installation import RBAC, manifests
from tests.support.freezes import freeze_until, frozen, grant, requesting
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.rollout_fleet import content, updated

pytestmark = pytest.mark.criterion("S-F12")

NOW = datetime(2026, 12, 24, tzinfo=UTC)
EVERY_KIND = pytest.mark.parametrize(
    ("system", "kind"), [(system, kind) for system, kinds in KINDS.items() for kind in kinds]
)


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


@pytest.mark.asyncio(loop_scope="module")
async def test_an_editor_of_a_registry_cannot_exempt_it(
    harness: TenancyHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)
    fleet = await Fleet.make(harness)
    fleet.rows("a")
    await fleet.registry()
    await fleet.template(**content("one"))
    await fleet.ready("a-app")
    async with await editor(fleet) as bob, frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await fleet.template(**content("two"))
        await harness.eventually(lambda: annotates(bob, fleet, freeze))
        with pytest.raises(Forbidden):
            await grant(bob, freeze, "TenantRegistry", fleet.namespace, "registry")
        command = f"manager freeze exempt {freeze} TenantRegistry/registry -n {fleet.namespace}"
        await fleet.until(
            TenantRegistry, "registry", "TenantsSynced", "False", "Frozen", message=command
        )
        found = await freeze_until(harness.client, freeze, lambda each: each.status.exemptions)
        (wish,) = found.status.exemptions
        assert (wish.kind, wish.namespace, wish.name, wish.state) == (
            "TenantRegistry",
            fleet.namespace,
            "registry",
            "Requested",
        )
        await harness.idle()
        assert await updated(fleet, "two") == set()
        await grant(harness.client, freeze, "TenantRegistry", fleet.namespace, "registry")
        await harness.eventually(lambda: updated(fleet, "two"), bool)
        await freeze_until(
            harness.client, freeze, lambda each: each.status.exemptions[0].state == "Granted"
        )


async def annotates(bob: Client, fleet: Fleet, freeze: str) -> bool:
    """Whether bob could annotate the registry: the server takes a moment to learn of his role."""
    try:
        await bob.patch(TenantRegistry, "registry", requesting(freeze), namespace=fleet.namespace)
    except Forbidden:
        return False
    return True


async def editor(fleet: Fleet) -> Client:
    """A client of bob, who has the shipped role of editors of registries and no other."""
    role = next(
        each
        for each in manifests()
        if each["metadata"]["name"].endswith("tenantregistry-editor-role")
    )
    await fleet.harness.client.apply(role, field_manager="test", force=True)
    rbac = f"{RBAC}/v1"
    binding = {
        "apiVersion": rbac,
        "kind": "RoleBinding",
        "metadata": {"name": "bob", "namespace": fleet.namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "bob"}],
    }
    await fleet.harness.client.apply(binding, field_manager="test", force=True)
    config = fleet.harness.environment.config("admin")
    return Client.connect(
        replace(config, extra_headers={**config.extra_headers, "Impersonate-User": "bob"})
    )


def entry(kind: FrozenKind, name: str = "a", wish: str = "") -> Entry:
    """An object with an annotation that requests an exemption."""
    gvk = next(each.gvk() for each in ALL if each.gvk().kind == kind)
    metadata = {"name": name, "namespace": "bank", "uid": name, "resourceVersion": "1"}
    metadata |= requesting(wish)["metadata"] if wish else {}
    head = {"apiVersion": gvk.api_version, "kind": gvk.kind}
    return EntryDecoder(gvk).decode_manifest({**head, "metadata": metadata})


def test_every_kind_that_can_be_exempted_is_of_one_system() -> None:
    assert sorted(kind for kinds in KINDS.values() for kind in kinds) == sorted(FrozenKind)


@EVERY_KIND
def test_only_the_freeze_exempts_an_object(system: FrozenSystem, kind: FrozenKind) -> None:
    def hold(freeze: Freeze, found: Entry) -> str:
        waiting = hold_for([freeze], system.value, "bank", found, NOW)
        return "" if waiting is None else waiting.message

    freeze = Freeze(name="audit")
    assert hold(freeze, entry(kind)) == freeze.describe()
    command = f"`manager freeze exempt audit {kind}/a -n bank`"
    assert command in hold(freeze, entry(kind, wish="audit"))
    assert "no freeze that holds it" in hold(freeze, entry(kind, wish="other"))
    exempt = replace(freeze, exempt=frozenset({FrozenObject(kind, "bank", "a")}))
    assert hold(exempt, entry(kind)) == ""
    assert hold(exempt, entry(kind, "b", wish="audit")) != ""


@EVERY_KIND
def test_requests_come_change_and_go_with_the_objects(
    system: FrozenSystem, kind: FrozenKind
) -> None:
    requests, freeze = ExemptionRequests(), Freeze(name="audit")

    def names() -> list[str]:
        return [item.name for item in requests.of(freeze, system)]

    assert not requests.observe(CreateEvent(entry(kind)))
    assert requests.observe(UpdateEvent(entry(kind), entry(kind, wish="audit")))
    assert names() == ["a"]
    assert requests.observe(UpdateEvent(entry(kind, wish="audit"), entry(kind, wish="other")))
    assert names() == []
    for number in range(MOST_REQUESTS + 2):
        requests.observe(CreateEvent(entry(kind, f"b{number:03}", wish="audit")))
    assert len(names()) == MOST_REQUESTS
    for number in range(MOST_REQUESTS + 2):
        assert requests.observe(DeleteEvent(entry(kind, f"b{number:03}", wish="audit")))
    assert names() == []


@EVERY_KIND
def test_an_exemption_has_an_event_when_it_is_requested_granted_and_revoked(
    system: FrozenSystem, kind: FrozenKind
) -> None:
    other = next(item for item in FrozenKind if item not in KINDS[system])
    item = Exemption(kind=kind, namespace="bank", name="a", reason="leak", by="ann")
    wish = Exemption(kind=kind, namespace="bank", name="a")
    kept = exemption_statuses((), [replace_kind(item, other)], (), system_of(other), NOW)

    def reasons(granted: Sequence[Exemption], wanted: Sequence[Exemption]) -> list[str]:
        nonlocal kept
        after = exemption_statuses(kept, granted, wanted, system, NOW)
        events = exemption_events(kept, after)
        assert [each.kind for each in after if each.kind not in KINDS[system]] == [other]
        kept = after
        assert all(f"{kind} bank/a" in note for _, note in events)
        return [reason for reason, _ in events]

    assert reasons([], [wish]) == ["ExemptionRequested"]
    assert reasons([], [wish]) == []
    assert reasons([item], []) == ["ExemptionGranted"]
    assert {each.by for each in kept if each.state is ExemptionState.GRANTED} == {"ann"}
    assert reasons([], []) == ["ExemptionRevoked"]


def replace_kind(item: Exemption, kind: FrozenKind) -> Exemption:
    return item.model_copy(update={"kind": kind})


def system_of(kind: FrozenKind) -> FrozenSystem:
    return next(system for system, kinds in KINDS.items() if kind in kinds)
