"""`readyWhen`: what a template demands of a live object beyond its kind's own readiness."""

from __future__ import annotations

import pytest

from apis.tenancy import ReadyCheck, Tenant, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.client import PatchType
from ctrlruntime.resources.readiness import READY, Phase, failed, not_ready
from internal.tenancy.objects.ready_when import check_ready_when, narrow
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map, mapping

SERVICE = mapping("v1", "Service")
TESTED = "$.status.conditions[?(@.type=='Tested')].status"
GVK = GroupVersionKind("acme.io", "v1", "Thing")


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def check(path: str, value: str | None = None) -> ReadyCheck:
    return ReadyCheck(json_path=path, value=value)


def entry_of(status: object, kind: str = "Thing", api_version: str = "acme.io/v1") -> Entry:
    manifest = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "d", "uid": "u", "resourceVersion": "1"},
        "status": status,
    }
    return EntryDecoder(GroupVersionKind.of(manifest)).decode_manifest(manifest)


STATUS = {
    "phase": "Running",
    "count": 3,
    "done": True,
    "nothing": None,
    "items": [{"name": "a", "ok": "yes"}, {"name": "b", "ok": "no"}],
    "many": list(range(200)),
}


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("$.status.phase", "Running", ""),
        ("status.phase", None, ""),
        ("$.status.count", "3", ""),
        ("$.status.done", "true", ""),
        ("$.status.items[?(@.name=='a')].ok", "yes", ""),
        ("$.status.phase", "Failed", "is not 'Failed'"),
        ("$.status.items[*].ok", "yes", "is not 'yes'"),
        ("$.status.items", "yes", "is not 'yes'"),
        ("$.status.nothing", None, "selects no value"),
        ("$.status.absent.below", "x", "selects no value"),
        ("$.status.many[*]", None, "more than 100 values"),
        ("$..phase", "Running", "not supported"),
        ("$.[", None, "is not a JSONPath"),
    ],
)
def test_a_check_holds_or_names_its_path_and_why_it_does_not(
    path: str, value: str | None, reason: str
) -> None:
    found = narrow(READY, [check(path, value)], entry_of(STATUS))
    if not reason:
        assert found == READY
        return
    assert found.phase is Phase.NOT_READY
    assert found.reason.startswith("readyWhen: ")
    assert reason in found.reason


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("self.status.phase == 'Running' && self.status.count >= 3", ""),
        ("self.status.items.exists(i, i.name == 'a' && i.ok == 'yes')", ""),
        ("self.metadata.name == 'x' && self.kind == 'Thing'", ""),
        ("self.status.items.all(i, i.ok == 'yes')", "is false"),
        ("self.status.count", "is neither true nor false"),
        ("self.status.absent == 1", "cannot be evaluated: no such key: absent"),
        ("self.status.phase > 1", "cannot be evaluated: no such overload"),
        ("self.status.many.all(a, self.status.many.all(b, a < 300))", "it costs more than 10000"),
        ("self.status.phase = 1", "1:19: '=' is no operator"),
    ],
)
def test_an_expression_holds_or_names_itself_and_why_it_does_not(
    expression: str, reason: str
) -> None:
    found = narrow(READY, [ReadyCheck(cel=expression)], entry_of(STATUS))
    if not reason:
        assert found == READY
        return
    assert found.phase is Phase.NOT_READY
    assert found.reason.startswith(f"readyWhen: cel {expression!r}")
    assert reason in found.reason


@pytest.mark.parametrize(
    "wrong",
    [
        ReadyCheck(),
        ReadyCheck(value="x"),
        ReadyCheck(cel="true", value="x"),
        ReadyCheck(cel="true", json_path="$.a"),
    ],
)
def test_an_entry_has_a_path_or_an_expression_and_is_never_ready_otherwise(
    wrong: ReadyCheck,
) -> None:
    (problem,) = check_ready_when([wrong], GVK)
    assert "or else cel alone" in problem
    assert narrow(READY, [wrong], entry_of(STATUS)).reason == problem


def test_a_check_never_makes_readiness_better() -> None:
    holds = [check("$.status.phase", "Running")]
    for worse in (not_ready("no replicas"), failed("the job failed")):
        assert narrow(worse, holds, entry_of(STATUS)) == worse


def test_of_a_kind_that_is_watched_as_metadata_a_check_is_refused_and_never_ready() -> None:
    checks = [check("$.data.k", "v")]
    assert (
        "only the metadata is watched"
        in check_ready_when(checks, GroupVersionKind("", "v1", "ConfigMap"))[0]
    )
    found = narrow(READY, checks, entry_of({}, "ConfigMap", "v1"))
    assert found.phase is Phase.NOT_READY


@pytest.mark.parametrize(
    "path",
    [
        "$..phase",
        "$.status['phase','phase']",
        "$.status.items[?$.status.items[?$.status.done]]",
        "$.status.items[?@.x[?@..name]]",
        "$.status.phase | $.status.done",
        "$.status.items[?length(@.name) > 1]",
        "$.status.items[?@.name =~ /(a+)+/]",
        "$.[",
    ],
)
def test_a_path_whose_cost_multiplies_is_refused(path: str) -> None:
    (problem,) = check_ready_when([check(path)], GVK)
    assert problem.startswith("readyWhen: ")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("tested", "why"),
    [
        ({"jsonPath": TESTED, "value": "True"}, "is not 'True'"),
        (
            {"cel": "self.status.conditions.exists(c, c.type == 'Tested' && c.status == 'True')"},
            "is false",
        ),
    ],
    ids=["jsonPath", "cel"],
)
async def test_dependents_wait_until_the_live_object_has_the_value(
    harness: TenancyHarness, tested: dict[str, str], why: str
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    service = {
        "id": "svc",
        "nameTemplate": "{{ .uid }}-svc",
        "readyWhen": [tested],
        "spec": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
    }
    after = config_map("after", "{{ .uid }}-after", dependIds=["svc"])
    await fleet.template(services=[service], configMaps=[after])
    await fleet.until(Tenant, "a-app", "Ready", "False", "NotAllResourcesReady")
    await fleet.there(SERVICE, "a-svc")
    assert await fleet.get(CONFIG_MAP, "a-after") is None

    await report(fleet, "False")
    await fleet.until(Tenant, "a-app", "Ready", "False", "NotAllResourcesReady")
    assert await fleet.get(CONFIG_MAP, "a-after") is None
    await report(fleet, "True")
    await fleet.there(CONFIG_MAP, "a-after")
    await fleet.ready("a-app")
    await report(fleet, "False")
    await fleet.until(Tenant, "a-app", "Ready", "False", "NotAllResourcesReady", message=why)


async def report(fleet: Fleet, status: str) -> None:
    """Write the condition of the Service, as its controller would."""
    condition = {
        "type": "Tested",
        "status": status,
        "reason": "Probe",
        "message": "",
        "lastTransitionTime": "2026-01-02T00:00:00Z",
    }
    await fleet.harness.client.patch(
        SERVICE,
        "a-svc",
        {"status": {"conditions": [condition]}},
        namespace=fleet.namespace,
        type=PatchType.MERGE,
        subresource="status",
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_bad_path_makes_the_template_invalid_by_id_and_reaches_no_tenant(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(
        configMaps=[config_map("cm", "{{ .uid }}-cm", readyWhen=[{"jsonPath": "$.data.k"}])],
        services=[
            {
                "id": "svc",
                "nameTemplate": "{{ .uid }}-svc",
                "readyWhen": [{"jsonPath": "$..phase"}, {"cel": "self.status.x ==\n  slef.y"}],
                "spec": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
            }
        ],
    )
    found = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert "svc: readyWhen: '$..phase'" in found.message
    assert "2:3: the variable 'slef' is unknown; known: self" in found.message
    assert "cm: readyWhen: of a ConfigMap only the metadata is watched" in found.message
    assert await fleet.tenants() == []
