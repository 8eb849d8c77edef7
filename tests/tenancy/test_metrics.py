"""Metrics: a tenant has series of its own only while it is not ready, up to a cap; names are fixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from apis.tenancy import Tenant, TenantRegistry, TenantStatus
from ctrlruntime.api.conditions import Condition
from internal.tenancy.shared.metrics import TenancyMetrics
from tests.observability.queries import of_alerts, of_dashboard, unserved
from tests.support.freezes import freeze_until, frozen
from tests.tenancy import rollout_fleet
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map, permissive

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]

PER_TENANT = {
    "tenant_resources_desired",
    "tenant_resources_ready",
    "tenant_resources_failed",
    "tenant_resources_conflicted",
    "tenant_condition_status",
}
NAMES = PER_TENANT | {
    "tenant_series_hidden",
    "registry_desired",
    "registry_ready",
    "registry_failed",
    "registry_removals_pending",
    "tenanttemplate_rollout_tenants",
    "tenanttemplate_rollout_halted",
    "tenanttemplate_rollout_health_check",
    "tenanttemplate_rollout_phase",
    "registry_condition_status",
    "registry_changes_waiting",
    "registry_rows",
    "registry_query_duration_seconds",
    "apply_attempts",
    "tenant_resources_removed",
}
"""Without the ending `_total` of counters."""


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def samples(harness: TenancyHarness) -> list[Any]:
    """Every sample of the manager's exposition, parsed as Prometheus does."""
    assert harness.manager is not None
    text = harness.manager.metrics.render().decode()
    return [s for family in text_string_to_metric_families(text) for s in family.samples]


def series(
    harness: TenancyHarness, **labels: str
) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Values by name and by the other labels, of series with these labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for sample in samples(harness):
        if labels.items() <= sample.labels.items():
            rest = tuple(sorted(sample.labels.items() - labels.items()))
            found.setdefault(sample.name, {})[rest] = sample.value
    return found


def refused() -> dict[str, Any]:
    """A template entry that the API server refuses for rows of the plan `broken`."""
    number = '{{ .planId | replace "basic" "80" | replace "broken" "99999" | int }}'
    spec = {"ports": [{"port": number, "protocol": "TCP"}]}
    return {
        "id": "svc",
        "nameTemplate": "{{ .uid }}-svc",
        "spec": {"apiVersion": "v1", "kind": "Service", "spec": spec},
    }


async def until(harness: TenancyHarness, holds: Callable[[], object]) -> None:
    """Wait until the metrics say so."""

    async def look() -> bool:
        return bool(holds())

    await harness.eventually(look)


@pytest.mark.criterion("T1", "T2", "FAULT-B28")
async def test_a_tenant_has_series_only_while_it_is_not_ready(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    fleet.row("b", plan="broken")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")], services=[refused()])
    await fleet.ready("a-app")
    await fleet.until(Tenant, "b-app", "Ready", "False", "ResourcesFailed")

    def mine(uid: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        return series(harness, tenant=f"{uid}-app", namespace=fleet.namespace)

    await until(harness, lambda: mine("b"))
    assert mine("a") == {}
    shown = mine("b")
    assert set(shown) == PER_TENANT
    counts = {name: shown[name][()] for name in PER_TENANT - {"tenant_condition_status"}}
    assert counts == {
        "tenant_resources_desired": 2,
        "tenant_resources_ready": 1,
        "tenant_resources_failed": 1,
        "tenant_resources_conflicted": 0,
    }
    assert shown["tenant_condition_status"] == {
        (("type", "Conflicted"),): 0,
        (("type", "Degraded"),): 1,
        (("type", "Progressing"),): 0,
        (("type", "Ready"),): 0,
    }
    fleet.row("b")
    await fleet.ready("b-app")
    await until(harness, lambda: not mine("b"))

    # a tenant that cannot be worked on at all is shown too, and its series go with it
    loop = [config_map("cm", "x", dependIds=["cm"])]
    await fleet.create(Tenant, "c-app", {"uid": "c", "templateRef": "none", "configMaps": loop})
    await fleet.until(Tenant, "c-app", "Degraded", "True", "DependencyCycle")
    await until(harness, lambda: mine("c"))
    await fleet.delete(Tenant, "c-app")
    await until(harness, lambda: not mine("c"))


@pytest.mark.criterion("registry-metrics", "FAULT-B28")
async def test_a_registry_shows_its_counts_and_takes_them_with_it(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    fleet.row("c", plan="broken")
    fleet.row("off", active=0)
    fleet.add_row("NOT VALID")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")], services=[refused()])

    def mine() -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        return series(harness, registry="registry", namespace=fleet.namespace)

    def count(name: str, **labels: str) -> float:
        return mine().get(name, {}).get(tuple(sorted(labels.items())), -1)

    await until(harness, lambda: count("registry_failed") == 1 and count("registry_ready") == 2)
    assert count("registry_desired") == 3
    rows = {
        state: count("registry_rows", state=state) for state in ("active", "inactive", "invalid")
    }
    assert rows == {"active": 3, "inactive": 1, "invalid": 1}
    assert count("registry_query_duration_seconds_count", result="success") >= 1
    (harness.folder / fleet.file).rename(harness.folder / f"{fleet.file}.away")
    await fleet.until(TenantRegistry, "registry", "Ready", "False", "DatabaseUnreachable")
    assert count("registry_query_duration_seconds_count", result="error") >= 1
    assert count("registry_desired") == 3, "the last good counts stay"
    await fleet.delete(TenantRegistry, "registry")
    await fleet.gone(TenantRegistry, "registry")
    await until(harness, lambda: not mine())
    await until(harness, lambda: not series(harness, namespace=fleet.namespace))


@pytest.mark.criterion("write-metrics")
async def test_writes_and_removals_are_counted_and_names_are_fixed(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)

    def total(name: str, **labels: str) -> float:
        return sum(sum(by.values()) for n, by in series(harness, **labels).items() if n == name)

    labels = {"kind": "ConfigMap", "result": "success", "conflict_policy": "Force"}
    applied = total("apply_attempts_total", **labels)
    deleted = total("tenant_resources_removed_total", result="deleted")
    retained = total("tenant_resources_removed_total", result="retained")
    fleet.row("a")
    await fleet.registry()
    await fleet.template(
        configMaps=[
            config_map("cm", "{{ .uid }}-cm", conflictPolicy="Force"),
            config_map("kept", "{{ .uid }}-kept", conflictPolicy="Force", deletionPolicy="Retain"),
        ]
    )
    await fleet.ready("a-app")
    assert total("apply_attempts_total", **labels) == applied + 2
    fleet.row("a", active=0)
    await fleet.gone(Tenant, "a-app")
    assert total("tenant_resources_removed_total", result="deleted") == deleted + 1
    assert total("tenant_resources_removed_total", result="retained") == retained + 1

    registry = CollectorRegistry()
    TenancyMetrics(registry)
    assert {family.name for family in registry.collect()} == NAMES


@pytest.mark.criterion("H-A10")
async def test_h_a10_a_refused_write_is_an_error_and_no_conflict(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)

    def total(result: str) -> float:
        labels = {"kind": "Service", "result": result}
        return sum(series(harness, **labels).get("apply_attempts_total", {}).values())

    errors, conflicts = total("error"), total("conflict")
    fleet.row("a", plan="broken")
    await fleet.registry()
    await fleet.template(services=[refused()])
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    await until(harness, lambda: total("error") > errors)
    assert total("conflict") == conflicts


@pytest.mark.criterion("series-cap")
async def test_the_number_of_tenants_with_series_is_capped(tmp_path: Path) -> None:
    options = permissive(tmp_path, tenant_series=2)
    async with TenancyHarness.start(tmp_path, options=options) as harness:
        fleet = await Fleet.make(harness)
        uids = ("a", "b", "c", "d")
        for uid in uids:
            fleet.row(uid, plan="broken")
        await fleet.registry()
        await fleet.template(services=[refused()])

        def shown() -> int:
            return len(
                series(harness, namespace=fleet.namespace).get("tenant_resources_failed", {})
            )

        def hidden() -> float:
            return series(harness).get("tenant_series_hidden", {}).get((), -1)

        await until(harness, lambda: hidden() == 2)
        assert shown() == 2
        for uid in uids:
            fleet.row(uid)
        await fleet.ready(*(f"{uid}-app" for uid in uids))
        await until(harness, lambda: (shown(), hidden()) == (0, 0))


async def test_by_option_every_tenant_has_series() -> None:
    registry = CollectorRegistry()
    metrics = TenancyMetrics(registry, cap=1, every_tenant=True)
    ready = Condition(type="Ready", status="True", reason="Reconciled")
    status = TenantStatus(desired_resources=1, ready_resources=1, conditions=[ready])
    for name in ("a", "b", "c"):
        metrics.tenant("default", name, status, ready=True)
    found = [s for f in registry.collect() for s in f.samples if s.name == "tenant_resources_ready"]
    assert [s.value for s in found] == [1, 1, 1]
    for name in ("a", "b", "c"):
        metrics.forget("default", name)
    left = [s for f in registry.collect() for s in f.samples if "tenant" in s.labels]
    assert left == []


@pytest.mark.criterion("METRICS-LIVE")
async def test_every_query_of_tenancy_and_of_the_runtime_is_served_by_a_manager(
    harness: TenancyHarness,
) -> None:
    rollout = {"maxSkew": 1, "haltOnFailures": 1, "progressDeadlineSeconds": 60}
    fleet = await rollout_fleet.make(harness, **rollout)
    await rollout_fleet.put(fleet, rollout_fleet.bad_content(), **rollout)
    await rollout_fleet.status(fleet, lambda each: each.phase == "Halted")
    check = {"name": "orders", "hook": {"url": "https://checks.example.com/orders"}}
    await rollout_fleet.put(fleet, rollout_fleet.bad_content(), **rollout, healthChecks=[check])
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        failing = {"type": "sqlite", "sqlite": {"path": "nothing.sqlite", "table": "customers"}}
        mappings = {"uid": "uid", "hostOrUrl": "url", "activate": "active"}
        spec = {"source": failing, "valueMappings": mappings}
        await fleet.create(TenantRegistry, "broken", spec)
        await fleet.until(TenantRegistry, "broken", "Ready", "False")

        async def missing() -> set[str]:
            assert harness.manager is not None
            text, _ = await harness.manager.metrics.scrape()
            return {
                name
                for queries in (
                    of_dashboard("tenancy"),
                    of_dashboard("runtime"),
                    of_alerts("ctrlruntime.tenancy"),
                    of_alerts("ctrlruntime.operations"),
                )
                for name in unserved(text.decode(), queries)
            }

        # Counters of what never happened here, and the leader of a manager without an election.
        never = {
            "tenant_resources_removed_total",
            "leader_election_master_status",
            "ctrlruntime_informer_relists_total",
        }
        await harness.eventually(missing, lambda names: names <= never)
