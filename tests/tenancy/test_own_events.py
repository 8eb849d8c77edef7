"""What a pass writes itself starts no further pass, unless the event reports what the pass has not read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, UpdateEvent
from ctrlruntime.envtest.proxy import Match
from ctrlruntime.envtest.proxy.rules import Delay
from ctrlruntime.queue import Request
from ctrlruntime.resources import Desired
from internal.tenancy.tenant.own_events import OwnEvents
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map

KIND = GroupKind("", "ConfigMap")
PASSES = "controller_runtime_reconcile_total"


def passes(harness: TenancyHarness) -> int:
    """How many passes over tenants the manager has made."""
    assert harness.manager is not None
    return sum(
        int(sample.value)
        for metric in harness.manager.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == PASSES and sample.labels["controller"] == "tenant"
    )


async def test_a_tenant_whose_objects_are_ready_at_once_takes_one_pass(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a")
        await harness.registry()
        await harness.template(
            configMaps=[
                config_map("base", "{{ .uid }}-base"),
                config_map("next", "{{ .uid }}-next", dependIds=["base"]),
            ]
        )
        await harness.ready("a-web-app")
        await harness.idle()
        assert passes(harness) == 1


async def test_an_object_that_is_deleted_while_it_is_made_is_made_again(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a")
        await harness.registry()
        match = Match(verb="apply", resource="configmaps", name="a-cm")
        harness.environment.proxy.add(Delay(1.0, when="after"), match)
        await harness.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await harness.eventually(lambda: harness.get(CONFIG_MAP, "a-cm"))
        await harness.client.delete(CONFIG_MAP, "a-cm", namespace=harness.namespace)

        await harness.ready("a-web-app")
        await harness.idle()
        assert await harness.get(CONFIG_MAP, "a-cm") is not None


# -- what is kept from the queue, and what wakes the tenant ------------------------------------------------


def entry(version: str, *, uid: str = "1", name: str = "cm") -> Entry:
    metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version}
    return EntryDecoder(GroupVersionKind("", "v1", "ConfigMap")).decode_manifest(
        {"metadata": metadata}
    )


TENANT = Tenant.from_manifest(
    {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"uid": "a", "templateRef": "app"},
    }
)
REQUEST = Request("a", namespace="default")
DESIRED = Desired(
    mapping=CONFIG_MAP,
    manifest={
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "namespace": "default"},
    },
)


class Woken:
    """Own events, and who was woken by them."""

    def __init__(self) -> None:
        self.tenants: list[Request] = []
        self.events = OwnEvents(lambda tenant, _reason: self.tenants.append(tenant))


def test_the_state_that_the_pass_goes_on_with_wakes_no_controller() -> None:
    woken = Woken()
    with woken.events.of(TENANT) as own:
        own.begin(DESIRED)
        assert woken.events.holds(REQUEST, KIND, CreateEvent(entry("7")))
        own.end(DESIRED)
        own.took(DESIRED, entry("7"))
        own.settled = True
    assert woken.tenants == []


@pytest.mark.parametrize(
    "event",
    [
        UpdateEvent(entry("7"), entry("8")),
        CreateEvent(entry("7", uid="2")),
        DeleteEvent(entry("7")),
    ],
    ids=["newer", "another object", "deleted"],
)
def test_another_state_wakes_the_tenant(event: CreateEvent | UpdateEvent | DeleteEvent) -> None:
    woken = Woken()
    with woken.events.of(TENANT) as own:
        own.begin(DESIRED)
        assert woken.events.holds(REQUEST, KIND, event)
        own.end(DESIRED)
        own.took(DESIRED, entry("7"))
        own.settled = True
    assert woken.tenants == [REQUEST]


def test_what_the_pass_found_in_trouble_may_be_mended_by_its_own_writes() -> None:
    woken = Woken()
    with woken.events.of(TENANT) as own:
        own.begin(DESIRED)
        woken.events.holds(REQUEST, KIND, CreateEvent(entry("7")))
        own.took(DESIRED, entry("7"))
    assert woken.tenants == [REQUEST]


def test_a_pass_that_failed_wakes_the_tenant() -> None:
    woken = Woken()

    def lose() -> None:
        with woken.events.of(TENANT) as own:
            own.begin(DESIRED)
            woken.events.holds(REQUEST, KIND, CreateEvent(entry("7")))
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        lose()
    assert woken.tenants == [REQUEST]


def test_only_the_object_that_is_being_written_is_held_back() -> None:
    woken = Woken()
    event = CreateEvent(entry("7"))
    other = replace(REQUEST, name="b")
    assert not woken.events.holds(REQUEST, KIND, event)
    with woken.events.of(TENANT) as own:
        assert not woken.events.holds(REQUEST, KIND, event)
        own.begin(DESIRED)
        assert not woken.events.holds(other, KIND, event)
        assert not woken.events.holds(REQUEST, GroupKind("", "Secret"), event)
        assert not woken.events.holds(REQUEST, KIND, CreateEvent(entry("7", name="x")))
        own.end(DESIRED)
        assert not woken.events.holds(REQUEST, KIND, event)
    assert not woken.events.holds(REQUEST, KIND, event)
    assert woken.tenants == []
