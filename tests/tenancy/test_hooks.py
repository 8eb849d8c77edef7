"""Hooks: Jobs that run before a tenant is made, before it is removed, and after that."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from internal.tenancy.shared.labels import SKIP_HOOKS
from internal.tenancy.tenant.hooks import unreadable_hooks
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map, mapping

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("HOOKS")]
JOB = mapping("batch/v1", "Job")
THEN = "2026-01-02T00:00:00Z"


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def hook(moment: str, name: str = "hook", **fields: object) -> dict[str, Any]:
    container = {"name": "c", "image": "tool:1", "args": ["--tenant", "{{ .uid }}"]}
    return {
        "id": name,
        "moment": moment,
        "nameTemplate": "{{ .uid }}-" + name,
        "spec": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        },
        **fields,
    }


async def template(fleet: Fleet, *hooks: dict[str, Any], **lists: object) -> None:
    kind = TenantTemplate.mapping()
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    metadata = {"name": "app", "namespace": fleet.namespace}
    lists = lists or {"configMaps": [config_map("c", "{{ .uid }}-c")]}
    spec = {"registryId": "registry", "hooks": list(hooks), **lists}
    await fleet.harness.put(kind, {**head, "metadata": metadata, "spec": spec})


async def made(harness: TenancyHarness, *hooks: dict[str, Any]) -> Fleet:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    fleet.row("other", active=0)
    await fleet.registry()
    await template(fleet, *hooks)
    return fleet


async def end(fleet: Fleet, name: str, *, failed: bool = False) -> None:
    """End a Job as the controller of Jobs would."""
    job = await fleet.there(JOB, name)
    before, last = ("FailureTarget", "Failed") if failed else ("SuccessCriteriaMet", "Complete")
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "BackoffLimitExceeded" if failed else "CompletionsReached",
            "message": "by the test",
            "lastTransitionTime": THEN,
            "lastProbeTime": THEN,
        }
        for kind in (before, last)
    ]
    status: dict[str, Any] = {"startTime": job["metadata"]["creationTimestamp"]}
    if failed:
        status |= {"failed": 1}
    else:
        status |= {"succeeded": 1, "completionTime": job["metadata"]["creationTimestamp"]}
    await fleet.harness.client.patch(
        JOB,
        name,
        {"status": {**status, "conditions": conditions}},
        namespace=fleet.namespace,
        type=PatchType.MERGE,
        subresource="status",
    )


async def test_nothing_is_applied_before_the_first_hooks_have_run_one_after_the_other(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, hook("BeforeCreate", "one"), hook("BeforeCreate", "two"))
    running = await fleet.until(Tenant, "a-app", "Ready", "False", "HookRunning")
    assert "The hook one (BeforeCreate) runs" in running.message
    job = await fleet.there(JOB, "a-one")
    assert job["spec"]["activeDeadlineSeconds"] == 600
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["--tenant", "a"]
    assert await fleet.get(JOB, "a-two") is None
    await end(fleet, "a-one")
    await fleet.there(JOB, "a-two")
    assert await fleet.get(CONFIG_MAP, "a-c") is None
    await harness.restart_manager()
    await end(fleet, "a-two")
    await fleet.ready("a-app")
    assert await fleet.get(CONFIG_MAP, "a-c")
    assert (await fleet.read(Tenant, "a-app")).status.completed_hooks == ["one", "two"]
    assert len({job["metadata"]["uid"], (await fleet.get(JOB, "a-one"))["metadata"]["uid"]}) == 1


async def test_a_tenant_that_has_its_resources_runs_no_hook_that_comes_before_them(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness)
    await fleet.ready("a-app")
    await template(
        fleet,
        hook("BeforeCreate", "late"),
        configMaps=[config_map("c", "{{ .uid }}-c"), config_map("d", "{{ .uid }}-d")],
    )
    await fleet.there(CONFIG_MAP, "a-d")
    await fleet.ready("a-app")
    assert await fleet.get(JOB, "a-late") is None


async def test_a_hook_that_fails_stops_the_deletion_and_reports_how_to_go_on(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, hook("BeforeDelete", "backup"), hook("AfterDelete", "report"))
    await fleet.ready("a-app")
    assert await fleet.get(JOB, "a-backup") is None
    fleet.row("a", active=0)
    await end(fleet, "a-backup", failed=True)
    failed = await fleet.until(Tenant, "a-app", "Ready", "False", "HookFailed")
    assert "The hook backup (BeforeDelete) failed" in failed.message
    assert f"annotate tenant a-app {SKIP_HOOKS}=backup" in failed.message
    await fleet.event("HookFailed")
    assert await fleet.get(CONFIG_MAP, "a-c")
    await harness.restart_manager()
    await fleet.until(Tenant, "a-app", "Ready", "False", "HookFailed")
    assert await fleet.get(CONFIG_MAP, "a-c")

    first = (await fleet.get(JOB, "a-backup"))["metadata"]["uid"]
    await harness.client.delete(
        JOB, "a-backup", namespace=fleet.namespace, propagation="Background"
    )
    await fleet.there(JOB, "a-backup", lambda seen: seen["metadata"]["uid"] != first)
    held = {"metadata": {"finalizers": ["tests.example.com/hold"]}}
    await fleet.harness.client.patch(
        CONFIG_MAP, "a-c", held, namespace=fleet.namespace, type=PatchType.MERGE
    )
    await end(fleet, "a-backup")
    removing = await fleet.until(Tenant, "a-app", "Ready", "False", "RemovalPending")
    assert removing.message
    # Recorded while the removal takes its time: the Job may be gone by its ttl before that ends.
    assert (await fleet.read(Tenant, "a-app")).status.completed_hooks == ["backup"]
    await fleet.harness.client.patch(
        CONFIG_MAP,
        "a-c",
        {"metadata": {"finalizers": None}},
        namespace=fleet.namespace,
        type=PatchType.MERGE,
    )
    await fleet.gone(CONFIG_MAP, "a-c")
    await end(fleet, "a-report")
    await fleet.gone(Tenant, "a-app")


async def test_a_hook_that_is_skipped_by_name_lets_the_deletion_go_on(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, hook("BeforeDelete", "backup"), hook("AfterDelete", "report"))
    await fleet.ready("a-app")
    fleet.row("a", active=0)
    await end(fleet, "a-backup", failed=True)
    await fleet.until(Tenant, "a-app", "Ready", "False", "HookFailed")
    skip = {"metadata": {"annotations": {SKIP_HOOKS: "backup"}}}
    await fleet.patch(Tenant, "a-app", skip)
    await fleet.gone(CONFIG_MAP, "a-c")
    await fleet.there(JOB, "a-report")
    assert await fleet.find(Tenant, "a-app")
    await fleet.patch(Tenant, "a-app", {"metadata": {"annotations": {SKIP_HOOKS: "all"}}})
    await fleet.gone(Tenant, "a-app")


async def test_a_spec_that_cannot_be_read_hides_no_hook() -> None:
    spec = {"hooks": [hook("BeforeDelete")], "uid": 7}
    stopped = unreadable_hooks(spec, {})
    assert stopped is not None
    assert stopped.reason == "HookFailed"
    assert unreadable_hooks(spec, {SKIP_HOOKS: "all"}) is None
    assert unreadable_hooks({"uid": 7}, {}) is None


async def test_a_tenant_that_hands_its_objects_over_runs_no_hook_of_removal(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, hook("BeforeDelete", "drop"))
    await fleet.ready("a-app")
    uid = (await fleet.get(CONFIG_MAP, "a-c"))["metadata"]["uid"]
    kind = TenantTemplate.mapping()
    present = await harness.client.get(kind, "app", namespace=fleet.namespace)
    head = {key: present[key] for key in ("apiVersion", "kind", "spec")}
    metadata = {"name": "renamed", "namespace": fleet.namespace}
    await harness.client.create({**head, "metadata": metadata})
    await harness.client.delete(kind, "app", namespace=fleet.namespace)
    await fleet.ready("a-renamed")
    await fleet.gone(Tenant, "a-app")
    assert await fleet.get(JOB, "a-drop") is None
    assert (await fleet.get(CONFIG_MAP, "a-c"))["metadata"]["uid"] == uid


@pytest.mark.criterion("G-T2")
@pytest.mark.parametrize("deleted_by_hand", [False, True])
async def test_g_t2_hooks_of_removal_run_for_a_renamed_row_whose_objects_go(
    harness: TenancyHarness, deleted_by_hand: bool
) -> None:
    """Decided from the objects: those named by the uid are not handed over. `kubectl delete tenant` runs them, too."""
    fleet = await made(harness, hook("BeforeDelete", "backup"), hook("AfterDelete", "report"))
    await fleet.ready("a-app")
    if deleted_by_hand:
        await template(
            fleet,
            hook("BeforeDelete", "backup"),
            hook("AfterDelete", "report"),
            hook("BeforeCreate", "wait"),
        )
        await fleet.ready("a-app")
    fleet.sql("UPDATE tenants SET uid = 'z' WHERE uid = 'a'")
    if deleted_by_hand:
        await fleet.there(JOB, "z-wait")
        await fleet.until(TenantRegistry, "registry", "RemovalPending", "True")
        await harness.client.delete(Tenant, "a-app", namespace=fleet.namespace)
    await fleet.there(JOB, "a-backup")
    assert await fleet.get(CONFIG_MAP, "a-c")
    await harness.restart_manager()
    await fleet.until(Tenant, "a-app", "Ready", "False", "HookRunning")
    await end(fleet, "a-backup")
    await fleet.gone(CONFIG_MAP, "a-c")
    await end(fleet, "a-report")
    await fleet.gone(Tenant, "a-app")


async def test_a_tenant_that_is_deleted_with_its_objects_left_runs_no_hook(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, hook("BeforeDelete", "drop"))
    await fleet.ready("a-app")
    await template(fleet, hook("BeforeDelete", "drop"))
    await harness.client.delete(Tenant, "a-app", namespace=fleet.namespace, propagation="Orphan")
    first = (await fleet.get(CONFIG_MAP, "a-c"))["metadata"]["uid"]
    await fleet.ready("a-app")
    assert (await fleet.get(CONFIG_MAP, "a-c"))["metadata"]["uid"] == first
    assert await fleet.get(JOB, "a-drop") is None


async def test_the_hooks_of_a_tenant_that_goes_are_those_of_its_own_spec(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, hook("BeforeDelete", "drop"))
    await fleet.ready("a-app")
    fleet.row("a", active=0)
    await end(fleet, "a-drop", failed=True)
    await fleet.until(Tenant, "a-app", "Ready", "False", "HookFailed")
    await fleet.template()
    await fleet.until(Tenant, "a-app", "Ready", "False", "HookFailed")
    assert await fleet.get(CONFIG_MAP, "a-c")
    await fleet.patch(Tenant, "a-app", {"metadata": {"annotations": {SKIP_HOOKS: "drop"}}})
    await fleet.gone(Tenant, "a-app")


async def test_a_foreign_job_under_the_name_is_neither_run_nor_removed(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    theirs = hook("BeforeCreate", "one")["spec"]
    metadata = {"name": "a-one", "namespace": fleet.namespace}
    theirs["spec"]["template"]["spec"]["containers"][0]["args"] = ["theirs"]
    await harness.client.create({**theirs, "metadata": metadata})
    fleet.row("a")
    await fleet.registry()
    await template(fleet, hook("BeforeCreate", "one"))
    failed = await fleet.until(Tenant, "a-app", "Ready", "False", "HookFailed")
    assert "in the way" in failed.message
    seen = await fleet.get(JOB, "a-one")
    assert seen["spec"]["template"]["spec"]["containers"][0]["args"] == ["theirs"]
    assert await fleet.get(CONFIG_MAP, "a-c") is None


async def test_a_hook_that_could_not_run_is_refused_with_its_template(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    pod = hook("BeforeCreate", "pod", spec={"apiVersion": "v1", "kind": "Pod"})
    short = hook("AfterDelete", "short")
    short["spec"]["spec"]["ttlSecondsAfterFinished"] = 0
    broken = hook("BeforeDelete", "broken", nameTemplate="{{ nosuch . }}")
    await template(fleet, pod, short, broken)
    found = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    for part in ("hooks.pod: a hook is a batch/v1 Job", "hooks.short: spec.ttl", "hooks.broken: "):
        assert part in found.message, found.message
    assert await fleet.tenants() == []


@pytest.mark.criterion("refused")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metadata": {"namespace": "{{ 'default' }}"}}, "runs in the namespace of its tenant"),
        ({"metadata": {"namespace": "default"}}, "runs in the namespace of its tenant"),
        ({"apiVersion": "v1", "kind": "Pod"}, "is a batch/v1 Job, not a v1 Pod"),
    ],
)
async def test_a_hook_of_a_tenant_that_no_template_made_is_a_job_of_its_namespace(
    harness: TenancyHarness, change: dict[str, Any], why: str
) -> None:
    """The manager may write Jobs everywhere; who may write Tenants in one namespace may not."""
    fleet = await Fleet.make(harness)
    outside = hook("BeforeCreate")
    outside["spec"] |= change
    mark = harness.mark()
    spec = {"uid": fleet.namespace, "templateRef": "none", "hooks": [outside]}
    await fleet.create(Tenant, "a", spec)
    told = await fleet.until(Tenant, "a", "Ready", "False", "HookFailed")
    assert why in told.message
    assert {each.split()[1].partition("/")[0] for each in fleet.writes(mark)}.isdisjoint(
        {"jobs.batch", "pods"}
    )
    assert not await harness.client.list(JOB, "default")


async def test_a_hook_of_a_written_tenant_may_name_the_namespace_that_it_runs_in(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    own = hook("BeforeCreate")
    own["spec"]["metadata"] = {"namespace": fleet.namespace}
    await fleet.create(Tenant, "a", {"uid": "a", "templateRef": "none", "hooks": [own]})
    await fleet.until(Tenant, "a", "Ready", "False", "HookRunning")
    assert len(await harness.client.list(JOB, fleet.namespace)) == 1
