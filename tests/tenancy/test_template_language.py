"""Templates in the spelling of Go and sprig, as tenants get them (Q), one test a scenario."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate
from tests.tenancy.entries import deployment
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, DEPLOYMENT, TenancyHarness, config_map

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]

TENANT = "a-app"
MAPPINGS = {"long": "plan", "n": "replicas", "flag": "image"}


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def one_tenant(harness: TenancyHarness, **values: object) -> Fleet:
    """A fleet with one row of these values and no template."""
    fleet = await Fleet.make(harness)
    fleet.row("a", **values)
    await fleet.registry(extraValueMappings=MAPPINGS)
    return fleet


async def rendered(harness: TenancyHarness, **templates: str) -> dict[str, str]:
    """Return what the templates are in the ConfigMap of a tenant."""
    fleet = await one_tenant(harness, plan="x" * 80, replicas="3", image="yes")
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", templates)])
    await fleet.ready(TENANT)
    data: dict[str, str] = (await fleet.get(CONFIG_MAP, "a-cm"))["data"]
    return data


async def spec_of(
    harness: TenancyHarness, fields: dict[str, str], **values: object
) -> dict[str, Any]:
    """Return the spec of a tenant's Deployment with these fields."""
    fleet = await one_tenant(harness, **values)
    native = deployment("native", image="web:1", deployment=fields, waitForReady=False)
    await fleet.template(deployments=[native])
    await fleet.ready(TENANT)
    spec: dict[str, Any] = (await fleet.get(DEPLOYMENT, "a-native"))["spec"]
    return spec


@pytest.mark.criterion("Q1")
async def test_q1_trunc63(harness: TenancyHarness) -> None:
    assert await rendered(harness, k="{{ .long | trunc63 }}") == {"k": "x" * 63}


@pytest.mark.criterion("Q2")
async def test_q2_sha1sum(harness: TenancyHarness) -> None:
    found = await rendered(
        harness, k="{{ .uid | sha1sum }}", short="{{ .uid | sha1sum | trunc 8 }}"
    )
    digest = hashlib.sha1(b"a").hexdigest()
    assert found == {"k": digest, "short": digest[:8]}


@pytest.mark.criterion("Q3")
async def test_q3_default_upper_lower_and_b64enc(harness: TenancyHarness) -> None:
    found = await rendered(
        harness,
        default='{{ .none | default "d" }}',
        upper="{{ .uid | upper }}",
        lower='{{ "ABC" | lower }}',
        b64enc="{{ .uid | b64enc }}",
        host="{{ .hostOrUrl | toHost }}",
    )
    wanted = {
        "default": "d",
        "upper": "A",
        "lower": "abc",
        "b64enc": "YQ==",
        "host": "a.example.com",
    }
    assert found == wanted


@pytest.mark.criterion("Q4")
async def test_q4_hub_id_and_template_ref(harness: TenancyHarness) -> None:
    found = await rendered(harness, k="{{ .hubId }} {{ .registryId }} {{ .templateRef }}")
    assert found == {"k": "registry registry app"}


@pytest.mark.criterion("Q5")
async def test_q5_labels_and_annotations_are_templates(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness, plan="x" * 80)
    label, annotation = {"plan": "{{ .long | trunc63 }}"}, {"note": "of {{ .uid }}"}
    cm = config_map("cm", "{{ .uid }}-cm", labelsTemplate=label, annotationsTemplate=annotation)
    await fleet.template(configMaps=[cm])
    await fleet.ready(TENANT)
    metadata = (await fleet.get(CONFIG_MAP, "a-cm"))["metadata"]
    assert metadata["labels"]["plan"] == "x" * 63
    assert metadata["annotations"]["note"] == "of a"


@pytest.mark.criterion("Q6")
async def test_q6_int_makes_a_number(harness: TenancyHarness) -> None:
    spec = await spec_of(harness, {"replicas": "{{ .n | int }}"}, replicas="3")
    assert spec["replicas"] == 3


@pytest.mark.criterion("Q7")
@pytest.mark.parametrize(("value", "paused"), [("yes", True), ("no", False)])
async def test_q7_bool_makes_a_boolean(harness: TenancyHarness, value: str, paused: bool) -> None:
    spec = await spec_of(harness, {"paused": "{{ .flag | bool }}"}, image=value)
    assert spec.get("paused", False) is paused


@pytest.mark.criterion("Q8")
async def test_q8_float_makes_a_number(harness: TenancyHarness) -> None:
    fields = {"progressDeadlineSeconds": "{{ .n | float }}"}
    spec = await spec_of(harness, fields, replicas="700.0")
    assert spec["progressDeadlineSeconds"] == 700


@pytest.mark.criterion("Q9")
async def test_q9_int_of_a_default(harness: TenancyHarness) -> None:
    spec = await spec_of(harness, {"replicas": '{{ .missing | default "7" | int }}'})
    assert spec["replicas"] == 7


@pytest.mark.criterion("Q10")
async def test_q10_int_of_what_is_no_number_is_0(harness: TenancyHarness) -> None:
    spec = await spec_of(harness, {"replicas": "{{ .n | int }}"}, replicas="junk")
    assert spec["replicas"] == 0


@pytest.mark.criterion("Q11")
async def test_q11_an_unknown_variable_fails_its_resource_alone(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    good = config_map("good", "{{ .uid }}-good")
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "{{ .x }}"}), good])
    await fleet.until(TenantTemplate, "app", "VariablesKnown", "False", "UnknownVariables")
    reported = await fleet.until(Tenant, TENANT, "Degraded", "True", "ResourceFailures")
    assert "'x'" in reported.message
    status = (await fleet.read(Tenant, TENANT)).status
    assert (status.failed_resources, status.failed_resource_ids) == (1, ["cm"])
    assert await fleet.get(CONFIG_MAP, "a-cm") is None
    await fleet.there(CONFIG_MAP, "a-good")


async def assert_refused(harness: TenancyHarness, name: str, reason: str) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(configMaps=[config_map("cm", name)])
    reported = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert reason in reported.message
    await harness.idle()
    assert await fleet.tenants() == []


@pytest.mark.criterion("Q12")
async def test_q12_an_unknown_function_in_a_name_is_refused(harness: TenancyHarness) -> None:
    await assert_refused(harness, "{{ .uid | shout }}", "shout")


@pytest.mark.criterion("Q13")
async def test_q13_a_template_that_cannot_be_parsed_is_refused(harness: TenancyHarness) -> None:
    await assert_refused(harness, "{{ .uid | ", "cm: ")


@pytest.mark.criterion("Q14")
async def test_q14_default_gives_the_value_where_there_is_one(harness: TenancyHarness) -> None:
    found = await rendered(
        harness,
        k='{{ .uid | default "other" }}',
        condition='{{ if eq .uid "a" }}first{{ else }}other{{ end }}',
    )
    assert found == {"k": "a", "condition": "first"}


@pytest.mark.criterion("FAULT-B21")
async def test_b21_numbers_compare_as_numbers_and_are_text_within_a_text(
    harness: TenancyHarness,
) -> None:
    found = await rendered(
        harness,
        text="p-{{ .n | int }}",
        unit="{{ .n | int }}Mi",
        greater="{{ if gt (int .n) 2 }}yes{{ else }}no{{ end }}",
        less="{{ if gt (int .n) 3 }}yes{{ else }}no{{ end }}",
        no='{{ if (bool "no") }}yes{{ else }}no{{ end }}',
        sum="{{ add (int .n) 1 }}",
    )
    wanted = {"text": "p-3", "unit": "3Mi", "greater": "yes", "less": "no", "no": "no", "sum": "4"}
    assert found == wanted
