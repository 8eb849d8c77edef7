"""Every condition of our three kinds, on happy and on failing paths; pause and reconcile-now.

The last test lists all reasons in the code and fails for one that no test waits for.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import Condition
from tests.tenancy.fleet import Fleet, Kind
from tests.tenancy.harness import CONFIG_MAP, DEPLOYMENT, REGISTRY, TenancyHarness, config_map

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def deployment(resource: str = "app", **fields: object) -> dict[str, Any]:
    """A template entry: a Deployment, which stays not ready, as nobody runs it."""
    pod = {
        "metadata": {"labels": {"app": "{{ .uid }}"}},
        "spec": {"containers": [{"name": "web", "image": "{{ .image }}"}]},
    }
    return {
        "id": resource,
        "nameTemplate": "{{ .uid }}-" + resource,
        "spec": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"selector": {"matchLabels": {"app": "{{ .uid }}"}}, "template": pod},
        },
        **fields,
    }


def refused_service() -> dict[str, Any]:
    """A template entry that the API server refuses: its port does not exist."""
    return {
        "id": "svc",
        "nameTemplate": "{{ .uid }}-svc",
        "spec": {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"ports": [{"port": 99999, "protocol": "TCP"}]},
        },
    }


async def run(fleet: Fleet, name: str, replicas: int) -> None:
    """Report a Deployment's replicas, in the place of its controller."""
    live = await fleet.there(DEPLOYMENT, name)
    counts = {f"{word}Replicas": replicas for word in ("ready", "available", "updated")}
    status = {
        "observedGeneration": live["metadata"]["generation"],
        "replicas": replicas,
        **counts,
    }
    await fleet.harness.client.patch_status(
        DEPLOYMENT, name, {"status": status}, namespace=fleet.namespace
    )


def fit_for_people(*conditions: Condition) -> None:
    """A sentence, with an end, and nothing of the machinery in it."""
    for condition in conditions:
        assert condition.message[:1].isupper() or condition.message[:1].isdigit(), condition
        assert "Traceback" not in condition.message
        assert "object at 0x" not in condition.message


# -- Tenant ------------------------------------------------------------------------------------


@pytest.mark.criterion("ready-progressing-degraded")
@pytest.mark.criterion("FAULT-B32", "FAULT-B33")
async def test_a_tenant_starts_gets_ready_declines_and_recovers(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(
        configMaps=[config_map("cm", "{{ .uid }}-cm", dependIds=["app"])],
        deployments=[deployment()],
    )

    # starting up: under way, and not Degraded for that
    ready = await fleet.until(Tenant, "a-app", "Ready", "False", "NotAllResourcesReady")
    assert "1 waiting" in ready.message
    assert "1 blocked" in ready.message
    assert "app" in ready.message
    under_way = await fleet.until(Tenant, "a-app", "Progressing", "True", "Reconciling")
    healthy = await fleet.until(Tenant, "a-app", "Degraded", "False", "Healthy")
    await fleet.until(Tenant, "a-app", "Conflicted", "False", "NoConflict")
    fit_for_people(ready, under_way, healthy)
    assert await fleet.get(CONFIG_MAP, "a-cm") is None

    # ready
    await run(fleet, "a-app", 1)
    ready = await fleet.until(Tenant, "a-app", "Ready", "True", "Reconciled")
    assert ready.message == "All 2 resources are ready."
    done = await fleet.until(Tenant, "a-app", "Progressing", "False", "ReconcileComplete")
    still = await fleet.until(Tenant, "a-app", "Degraded", "False", "Healthy")
    assert still.last_transition_time == healthy.last_transition_time, "it did not change"
    fit_for_people(ready, done, still)

    # a pod is lost: not ready, degraded, but not failed
    await run(fleet, "a-app", 0)
    lost = await fleet.until(Tenant, "a-app", "Degraded", "True", "ResourcesNotReady")
    assert "0 of 1 replicas" in lost.message
    await fleet.until(Tenant, "a-app", "Ready", "False", "NotAllResourcesReady")
    tenant = await fleet.read(Tenant, "a-app")
    assert tenant.status.failed_resources == 0

    # and is back
    await run(fleet, "a-app", 1)
    await fleet.until(Tenant, "a-app", "Ready", "True", "Reconciled")
    await fleet.until(Tenant, "a-app", "Degraded", "False", "Healthy")


@pytest.mark.criterion("failures-conflicts")
@pytest.mark.criterion("FAULT-B33")
async def test_failures_and_conflicts_of_a_tenant_are_distinguished(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    foreign = {"name": "a-cm", "namespace": fleet.namespace}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": foreign, "data": {"k": "theirs"}}
    await harness.client.create(theirs)
    fleet.row("a")
    await fleet.registry()
    maps = [config_map("cm", "{{ .uid }}-cm"), config_map("other", "{{ .uid }}-other")]
    await fleet.template(configMaps=maps)

    # in conflict: a foreign object of that name
    conflicted = await fleet.until(Tenant, "a-app", "Conflicted", "True", "ResourceConflict")
    assert "cm (" in conflicted.message
    assert "belongs to" in conflicted.message
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesConflicted")
    await fleet.until(Tenant, "a-app", "Degraded", "True", "ResourceConflicts")
    tenant = await fleet.read(Tenant, "a-app")
    assert tenant.status.conflicted_resource_ids == ["cm"]
    assert tenant.status.failed_resources == 0
    assert tenant.status.ready_resources == 1
    assert (await fleet.event("ResourceConflict"))["regarding"]["name"] == "a-app"

    # in conflict and failed
    await fleet.template(configMaps=maps, services=[refused_service()])
    both = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailedAndConflicted")
    assert "99999" in both.message
    await fleet.until(Tenant, "a-app", "Degraded", "True", "ResourceFailuresAndConflicts")
    assert "svc" in (await fleet.event("ResourceFailed"))["note"]

    # failed only: the foreign object goes, and nobody has to help
    assert (await fleet.get(CONFIG_MAP, "a-cm"))["data"] == {"k": "theirs"}
    await fleet.delete(CONFIG_MAP, "a-cm")
    failed = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    await fleet.until(Tenant, "a-app", "Degraded", "True", "ResourceFailures")
    await fleet.until(Tenant, "a-app", "Conflicted", "False", "NoConflict")
    fit_for_people(conflicted, both, failed)

    # mended
    await fleet.template(configMaps=maps)
    await fleet.until(Tenant, "a-app", "Ready", "True", "Reconciled")
    await fleet.until(Tenant, "a-app", "Degraded", "False", "Healthy")
    tenant = await fleet.read(Tenant, "a-app")
    assert tenant.status.failed_resource_ids == []
    assert tenant.status.conflicted_resource_ids == []


@pytest.mark.criterion("degraded-reasons")
async def test_a_tenant_that_cannot_be_worked_on_reports_why(harness: TenancyHarness) -> None:
    """Tenants made by hand, since registries make none that are wrong in themselves."""
    fleet = await Fleet.make(harness)
    known = {"uid": "x", "templateRef": "none"}
    loop = [
        config_map("one", "x-one", dependIds=["two"]),
        config_map("two", "x-two", dependIds=["one"]),
    ]
    await fleet.create(Tenant, "loop", {**known, "configMaps": loop})
    missing = [config_map("one", "y-one", dependIds=["nobody"])]
    await fleet.create(Tenant, "missing", {**known, "configMaps": missing})
    secret = {"secretName": "vars-values", "names": ["password"]}
    maps = [config_map("cm", "vars-cm")]
    await fleet.create(Tenant, "vars", {**known, "configMaps": maps, "sensitiveVariables": secret})

    cycle = await fleet.until(Tenant, "loop", "Degraded", "True", "DependencyCycle")
    assert "one" in cycle.message
    assert "two" in cycle.message
    await fleet.until(Tenant, "loop", "Ready", "False", "DependencyError")
    lacking = await fleet.until(Tenant, "missing", "Degraded", "True", "DependencyError")
    assert "nobody" in lacking.message
    without = await fleet.until(Tenant, "vars", "Ready", "False", "VariablesBuildError")
    assert "vars-values" in without.message
    await fleet.until(Tenant, "vars", "Degraded", "True", "VariablesBuildError")
    await fleet.until(Tenant, "vars", "Progressing", "False", "ReconcileComplete")
    assert (await fleet.event("DependencyError"))["type"] == "Warning"

    # who asks for a reconcile is answered, even then
    await fleet.annotate(Tenant, "loop", reconcile_now="t1")
    await handled(fleet, Tenant, "loop", "t1")

    # each recovers as soon as it can: by then, tries by themselves are more than two minutes apart
    for number in range(7):
        await fleet.annotate(Tenant, "vars", reconcile_now=f"t{number}")
        await handled(fleet, Tenant, "vars", f"t{number}")
    await asyncio.sleep(2.1)  # the first of them was due after so long
    labels = {"tenancy.ctrlruntime.dev/values": "true"}
    named = {"name": "vars-values", "namespace": fleet.namespace, "labels": labels}
    secret_manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": named}
    await harness.client.create({**secret_manifest, "data": {"password": "cGFzcw=="}})
    await fleet.until(Tenant, "vars", "Ready", "True", "Reconciled")
    await fleet.until(Tenant, "vars", "Degraded", "False", "Healthy")
    loop[1]["dependIds"] = []
    await fleet.patch(Tenant, "loop", {"spec": {"configMaps": loop}})
    await fleet.until(Tenant, "loop", "Ready", "True", "Reconciled")


# -- TenantRegistry ------------------------------------------------------------------------------


@pytest.mark.criterion("registry-ready")
async def test_a_registry_reports_what_is_wrong_with_its_source(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c")
    fleet.row("off", active=0)
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    ready = await fleet.until(
        TenantRegistry, "registry", "Ready", "True", "DatabaseConnected", message="3 of 4 rows"
    )
    await fleet.ready("a-app", "b-app", "c-app")

    # a changed message is no transition
    await second_after(ready)
    fleet.row("d")
    more = await fleet.until(
        TenantRegistry, "registry", "Ready", "True", "DatabaseConnected", message="4 of 5 rows"
    )
    assert more.last_transition_time == ready.last_transition_time

    # one mistake after the other, each with its own words
    fleet.sql("CREATE TABLE large AS SELECT * FROM tenants")
    fleet.sql("UPDATE large SET plan = zeroblob(9 * 1024 * 1024)")
    fleet.sql("CREATE VIEW huge AS SELECT * FROM large")
    for source, reason, word in (
        ({"table": "nowhere"}, "UnknownTable", "nowhere"),
        ({"table": "huge"}, "ValueTooLarge", "huge"),
        ({"path": "nothing.sqlite"}, "DatabaseUnreachable", "nothing.sqlite"),
        ({"path": "/etc/hostname"}, "SourceNotAllowed", "outside"),
    ):
        await fleet.patch(TenantRegistry, "registry", {"spec": {"source": fleet.source(**source)}})
        wrong = await fleet.until(TenantRegistry, "registry", "Ready", "False", reason)
        assert word in wrong.message
        assert "Tenants stay as they are" in wrong.message
        fit_for_people(wrong)
    await second_after(ready)
    await fleet.patch(TenantRegistry, "registry", {"spec": {"source": fleet.source()}})
    back = await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")
    assert since(back) > since(ready), "it has been False in between"

    mappings = {"uid": "uid", "activate": "enabled"}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"valueMappings": mappings}})
    wrong = await fleet.until(TenantRegistry, "registry", "Ready", "False", "UnknownColumn")
    assert "'enabled'" in wrong.message
    mappings = {"uid": "uid", "activate": "active"}
    extra: dict[str, Any] = {"valueMappings": mappings, "extraValueMappings": {"hubId": "plan"}}
    await fleet.patch(TenantRegistry, "registry", {"spec": extra})
    wrong = await fleet.until(TenantRegistry, "registry", "Ready", "False", "InvalidMappings")
    assert "'hubId'" in wrong.message

    # whatever was wrong, nothing was lost
    assert await fleet.tenants() == ["a-app", "b-app", "c-app", "d-app"]
    registry = await fleet.read(TenantRegistry, "registry")
    assert (registry.status.desired, registry.status.ready) == (4, 4)


@pytest.mark.criterion("registry-rows-and-guard")
async def test_a_registry_counts_rows_that_are_wrong_and_deletions_that_wait(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c", "d", "e", "f")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.until(TenantRegistry, "registry", "RowsValid", "True", "AllRowsValid")
    free = await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False", "NothingHeld")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")
    await fleet.ready("a-app", "f-app")

    fleet.add_row(None)
    wrong = await fleet.until(TenantRegistry, "registry", "RowsValid", "False", "InvalidRows")
    assert "1 row with MissingUid" in wrong.message
    fleet.sql("DELETE FROM tenants WHERE uid IS NULL")
    await fleet.until(TenantRegistry, "registry", "RowsValid", "True", "AllRowsValid")

    await second_after(free)
    fleet.sql("UPDATE tenants SET active = 0 WHERE uid IN ('a', 'b', 'c')")
    held = await fleet.until(
        TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions"
    )
    assert "3 of 6 rows are gone or inactive" in held.message
    assert "3 of 6 tenants would be deleted, none was" in held.message
    assert "Held: a-app, b-app, c-app" in held.message
    assert since(held) > since(free)
    fleet.sql("DELETE FROM tenants")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "EmptyResult")
    assert len(await fleet.tenants()) == 6
    fleet.rows("a", "b", "c", "d", "e", "f")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False", "NothingHeld")

    # a Tenant that is somebody else's is in the way
    await fleet.create(Tenant, "g-app", {"uid": "g", "templateRef": "theirs"})
    fleet.row("g")
    trouble = await fleet.until(
        TenantRegistry, "registry", "TenantsSynced", "False", "TenantsNotWritten"
    )
    assert "'g-app' is in the way" in trouble.message
    await fleet.delete(Tenant, "g-app")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")
    await fleet.ready("g-app")


# -- TenantTemplate ------------------------------------------------------------------------------


@pytest.mark.criterion("template-conditions")
@pytest.mark.criterion("FAULT-B31")
async def test_a_template_reports_whether_it_can_be_used_and_how_far_it_is(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    alone = await fleet.until(TenantTemplate, "app", "Valid", "False", "RegistryNotFound")
    assert "'registry'" in alone.message
    await fleet.until(TenantTemplate, "app", "Ready", "False", "RegistryNotFound")
    await fleet.until(TenantTemplate, "app", "Applied", "False", "NoTenants")
    assert (await fleet.event("RegistryNotFound"))["type"] == "Warning"

    await fleet.registry()
    valid = await fleet.until(TenantTemplate, "app", "Valid", "True", "ValidationPassed")
    await fleet.until(TenantTemplate, "app", "Ready", "True", "TemplateUsable")
    await fleet.until(TenantTemplate, "app", "VariablesKnown", "True", "AllVariablesKnown")
    await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")

    await fleet.template(deployments=[deployment()])
    partly = await fleet.until(TenantTemplate, "app", "Applied", "False", "NotAllTenantsReady")
    await run(fleet, "a-app", 1)
    await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")

    unknown_data = {"k": "{{ .region }} {{ .zone }}", "d": '{{ .colour | default "red" }}'}
    await fleet.template(
        deployments=[deployment()], configMaps=[config_map("cm", "{{ .uid }}-cm", unknown_data)]
    )
    unknown = await fleet.until(
        TenantTemplate, "app", "VariablesKnown", "False", "UnknownVariables"
    )
    assert "region, zone" in unknown.message
    assert "colour" not in unknown.message

    cyclic = [config_map("cm", "{{ .uid }}-cm", dependIds=["cm"])]
    await fleet.template(deployments=[deployment()], configMaps=cyclic)
    cycle = await fleet.until(TenantTemplate, "app", "Valid", "False", "DependencyCycle")
    broken = [config_map("cm", "{{ .uid | nosuchfilter }}")]
    await fleet.template(deployments=[deployment()], configMaps=broken)
    failed = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    await fleet.until(TenantTemplate, "app", "Ready", "False", "ValidationFailed")
    assert "cm: " in failed.message
    assert "nosuchfilter" in failed.message
    trouble = await fleet.until(
        TenantRegistry, "registry", "TenantsSynced", "False", "TenantsNotWritten"
    )
    assert "template 'app' is not rolled out" in trouble.message

    await second_after(valid)
    await fleet.template(deployments=[deployment()])
    again = await fleet.until(TenantTemplate, "app", "Valid", "True", "ValidationPassed")
    assert since(again) > since(valid)
    await fleet.until(TenantTemplate, "app", "VariablesKnown", "True", "AllVariablesKnown")
    fit_for_people(alone, partly, unknown, trouble)
    assert "cm" in cycle.message


# -- pause and reconcile-now -----------------------------------------------------------------------


async def handled(fleet: Fleet, kind: Kind, name: str, value: str) -> None:
    """Wait until a request to reconcile was carried out."""

    async def look() -> str:
        found = await fleet.read(kind, name)
        return str(found.status.last_handled_reconcile)

    await fleet.harness.eventually(look, lambda seen: seen == value)


@pytest.mark.criterion("pause")
async def test_a_paused_tenant_is_left_alone_until_it_is_resumed(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"plan": "{{ .planId }}"})])
    await fleet.ready("a-app", "b-app")
    await fleet.annotate(Tenant, "a-app", paused="true")
    paused = await fleet.until(Tenant, "a-app", "Paused", "True", "PausedByAnnotation")
    assert "ctrlruntime.dev/paused" in paused.message
    ready = await fleet.condition(Tenant, "a-app", "Ready")
    assert ready is not None
    assert ready.status == "True", "pausing says nothing about how things are"

    await fleet.annotate(Tenant, "a-app", reconcile_now="while-paused")
    await fleet.delete(CONFIG_MAP, "a-cm")
    fleet.row("a", plan="pro")
    fleet.row("b", plan="pro")
    await fleet.there(CONFIG_MAP, "b-cm", lambda seen: seen["data"] == {"plan": "pro"})
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-cm") is None
    assert (await fleet.read(Tenant, "a-app")).status.last_handled_reconcile == ""

    await fleet.annotate(Tenant, "a-app", paused=None)
    await fleet.there(CONFIG_MAP, "a-cm", lambda seen: seen["data"] == {"plan": "pro"})
    await fleet.until(Tenant, "a-app", "Paused", "False", "NotPaused")
    await handled(fleet, Tenant, "a-app", "while-paused")

    # deletion is work too
    await fleet.annotate(Tenant, "a-app", paused="true")
    await fleet.until(Tenant, "a-app", "Paused", "True", "PausedByAnnotation")
    fleet.row("a", active=0)
    await harness.eventually(
        lambda: fleet.find(Tenant, "a-app"), lambda t: t.metadata.deletion_timestamp is not None
    )
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-cm") is not None
    await fleet.annotate(Tenant, "a-app", paused=None)
    await fleet.gone(Tenant, "a-app")
    await fleet.gone(CONFIG_MAP, "a-cm")


@pytest.mark.criterion("pause")
async def test_pausing_costs_one_write_and_resuming_another(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app")
    await fleet.until(TenantTemplate, "app", "Applied", "True")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True")
    await harness.eventually(
        lambda: fleet.find(TenantRegistry, "registry"), lambda r: r.status.ready == 1
    )
    for kind, name in ((Tenant, "a-app"), (TenantTemplate, "app"), (TenantRegistry, "registry")):
        await harness.idle()
        mark = harness.mark()
        await fleet.annotate(kind, name, paused="true")
        await fleet.until(kind, name, "Paused", "True", "PausedByAnnotation")
        await harness.idle()
        await fleet.annotate(kind, name, paused=None)
        await fleet.until(kind, name, "Paused", "False", "NotPaused")
        await harness.idle(within=1.2)
        assert len(fleet.writes(mark)) == 2, fleet.writes(mark)


@pytest.mark.criterion("pause")
async def test_a_paused_template_is_not_rolled_out(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.template("other", configMaps=[config_map("cm", "{{ .uid }}-other")])
    await fleet.ready("a-app", "b-app", "a-other", "b-other")
    await fleet.annotate(TenantTemplate, "app", paused="true")
    await fleet.until(TenantTemplate, "app", "Paused", "True", "PausedByAnnotation")
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "new"})])
    fleet.row("c")
    fleet.row("b", active=0)
    await fleet.ready("c-other")
    await fleet.gone(Tenant, "b-other")
    waiting = await fleet.until(
        TenantRegistry, "registry", "TenantsSynced", "False", "TenantsNotWritten"
    )
    assert "template 'app' is paused: 3 changes wait" in waiting.message
    assert await fleet.tenants() == ["a-app", "a-other", "b-app", "c-other"]
    assert (await fleet.get(CONFIG_MAP, "a-cm"))["data"] == {"k": "v"}

    await fleet.annotate(TenantTemplate, "app", paused=None, reconcile_now="t1")
    await fleet.there(CONFIG_MAP, "a-cm", lambda seen: seen["data"] == {"k": "new"})
    await fleet.gone(Tenant, "b-app")
    await fleet.ready("c-app")
    await handled(fleet, TenantTemplate, "app", "t1")
    await fleet.until(TenantTemplate, "app", "Paused", "False", "NotPaused")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")


@pytest.mark.criterion("pause")
async def test_a_paused_registry_neither_queries_nor_lets_go(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app")
    await fleet.annotate(TenantRegistry, "registry", paused="TRUE")
    await fleet.until(TenantRegistry, "registry", "Paused", "True", "PausedByAnnotation")
    fleet.row("b")
    await fleet.delete(CONFIG_MAP, "a-cm")  # tenants are worked on all the same
    await fleet.there(CONFIG_MAP, "a-cm")
    await fleet.delete(TenantRegistry, "registry")
    await harness.idle(within=1.2)
    assert await fleet.tenants() == ["a-app"]
    await fleet.annotate(TenantRegistry, "registry", paused=None)
    await fleet.gone(TenantRegistry, "registry")
    await fleet.gone(Tenant, "a-app")


@pytest.mark.criterion("reconcile-now")
async def test_reconcile_now_is_carried_out_and_answered_on_every_kind(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry(source={**fleet.source(), "syncInterval": "1h"})
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app")
    fleet.row("b")
    await fleet.annotate(TenantRegistry, "registry", reconcile_now="now")
    await fleet.ready("b-app")
    await handled(fleet, TenantRegistry, "registry", "now")
    await fleet.annotate(TenantTemplate, "app", reconcile_now="now")
    await handled(fleet, TenantTemplate, "app", "now")
    await fleet.annotate(Tenant, "a-app", reconcile_now="now")
    await handled(fleet, Tenant, "a-app", "now")
    await harness.idle()
    mark = harness.mark()
    await fleet.annotate(Tenant, "a-app", reconcile_now="again")
    await handled(fleet, Tenant, "a-app", "again")
    assert len(fleet.writes(mark)) == 1

    # a registry whose source fails answers as well
    (harness.folder / fleet.file).rename(harness.folder / f"{fleet.file}.away")
    await fleet.annotate(TenantRegistry, "registry", reconcile_now="fails")
    await handled(fleet, TenantRegistry, "registry", "fails")
    await fleet.until(TenantRegistry, "registry", "Ready", "False", "DatabaseUnreachable")


def since(condition: Condition) -> datetime:
    """When its status last changed."""
    assert condition.last_transition_time is not None
    return condition.last_transition_time


async def second_after(condition: Condition) -> None:
    """Wait until a transition would have another time than this one: times are kept in whole seconds."""
    left = since(condition) + timedelta(seconds=1.1) - datetime.now(UTC)
    await asyncio.sleep(max(left.total_seconds(), 0.0))


async def test_a_namespace_that_is_made_later_wakes_the_tenants_that_wait_for_it(
    harness: TenancyHarness,
) -> None:
    """The tenant's own retries are minutes apart by then."""
    fleet = await Fleet.make(harness)
    late = f"{fleet.namespace}-late"
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", targetNamespace=late)])
    await fleet.until(Tenant, "a-app", "Ready", "False", message="make that namespace")

    async def handled() -> str:
        return (await fleet.read(Tenant, "a-app")).status.last_handled_reconcile

    for wanted in "abcdef":
        await fleet.annotate(Tenant, "a-app", reconcile_now=wanted)
        await harness.eventually(handled, wanted.__eq__)
    await harness.make_namespace(late)
    await fleet.until(Tenant, "a-app", "Ready", "True", "Reconciled")
    assert await harness.get(CONFIG_MAP, "a-cm", late) is not None


async def test_a_lossy_conversion_is_a_warning_of_the_tenant(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", image="three")
    fleet.row("b", image="3")
    await fleet.registry()
    data = {"n": "{{ .image | int }}", "plain": "{{ .uid }}"}
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", data=data)])
    lossy = await fleet.until(Tenant, "a-app", "ValuesConverted", "False", "LossyConversion")
    assert "cm: data.n: int: a value that is not a number became 0" in lossy.message
    assert "three" not in lossy.message
    fit_for_people(lossy)
    await fleet.until(Tenant, "a-app", "Ready", "True", "Reconciled")
    await fleet.until(Tenant, "b-app", "Ready", "True", "Reconciled")
    exact = await fleet.read(Tenant, "b-app")
    assert "ValuesConverted" not in {each.type for each in exact.status.conditions}

    fleet.row("a", image="4")
    await fleet.until(Tenant, "a-app", "ValuesConverted", "True", "AllConverted")


# -- nothing is forgotten ----------------------------------------------------------------------------

CODE = Path(__file__).parent.parent.parent / "internal" / "tenancy"
TESTS = Path(__file__).parent
PLACES = (
    "shared/outcome.py",
    "../../ctrlruntime/lifecycle/status.py",
    "registry/status.py",
    "template/reconciler.py",
    "template/reports.py",
    "sources/queries.py",
    "sources/errors.py",
)
ELSEWHERE = {"registry/query_schedule.py": "MappingError", "sync/deletion_guard.py": "GuardReason"}
TYPES = {
    Tenant: {
        "Ready",
        "Progressing",
        "Conflicted",
        "Degraded",
        "Paused",
        "RemovalPending",
        "ValuesConverted",
    },
    TenantRegistry: {
        "Ready",
        "RowsValid",
        "DeletionsHeld",
        "TenantsSynced",
        "Paused",
        "RemovalPending",
        "MovePending",
        "SlotsLabelled",
        "SlotsOwned",
        "StatesWritten",
    },
    TenantTemplate: {"Ready", "Valid", "VariablesKnown", "Applied", "Paused"},
}
NO_REASONS = {"Warning", "Validate", "Rollout", "True", "False"}
"""Words of events and statuses in the same files."""


def reasons_in(tree: ast.AST) -> set[str]:
    """Every text that is one word in CamelCase, besides types of conditions."""
    words = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    known = set().union(*TYPES.values()) | NO_REASONS
    return {w for w in words if re.fullmatch(r"([A-Z]+[a-z]*)+", w)} - known


def reasons_of_the_code() -> set[str]:
    found: set[str] = set()
    for name in PLACES:
        found |= reasons_in(ast.parse((CODE / name).read_text()))
    for name, title in ELSEWHERE.items():
        tree = ast.parse((CODE / name).read_text())
        classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == title]
        assert classes, f"{name} has no class {title} any more"
        found |= reasons_in(classes[0])
    return found


def awaited() -> Iterator[tuple[str, str, str, str]]:
    """What tests wait for: kind, type, status, reason of every `until(...)`, and of every `condition(...)`
    and `registry_condition(...)` of a harness, in this folder."""
    for path in TESTS.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            args: list[ast.expr] = list(node.args)
            if node.func.attr == "condition":
                args.insert(0, ast.Name("Tenant"))
            elif node.func.attr == "registry_condition":
                args[:0] = [ast.Name("TenantRegistry"), ast.Constant(REGISTRY)]
            elif node.func.attr != "until":
                continue
            if len(args) < 5:
                continue
            kind, _, *rest = args
            words = [str(a.value) if isinstance(a, ast.Constant) else "" for a in rest]
            if isinstance(kind, ast.Name):
                yield kind.id, words[0], words[1], words[2]


def listed_in_loops() -> set[str]:
    """Reasons that a test goes through in a table."""
    found: set[str] = set()
    for path in TESTS.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.For):
                found |= reasons_in(node.iter)
    return found


async def test_every_condition_is_tested_both_ways() -> None:
    seen = {(kind, type_, status) for kind, type_, status, _ in awaited()}
    for kind, types in TYPES.items():
        for type_ in types - {"Paused"}:
            assert (kind.__name__, type_, "True") in seen, f"{kind.__name__} {type_} True"
            assert (kind.__name__, type_, "False") in seen, f"{kind.__name__} {type_} False"


async def test_every_reason_in_the_code_is_tested() -> None:
    tested = {reason for *_, reason in awaited()} | listed_in_loops()
    reasons = reasons_of_the_code()
    assert len(reasons) > 35, "the search has lost its way"
    assert reasons - tested == set()
