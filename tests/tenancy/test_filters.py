"""Filters of `ignoreFields`: RFC 9535, and the older spelling with parentheses, over the same cases."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.client.client import PatchType
from internal.tenancy.objects.ignore_fields import check, drift_paths, preserve
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import DEPLOYMENT, TenancyHarness, config_map

SPELLINGS = {"rfc-9535": "[?{}]", "older": "[?({})]", "spaced": "[? ( {} ) ]"}
CONTAINERS: list[dict[str, Any]] = [
    {"name": "a", "port": 1, "tty": True, "env": [{"name": "X", "value": "1"}], "stdin": None},
    {
        "name": "b",
        "port": 2,
        "tty": False,
        "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "3"}],
        "image": "own",
    },
    {"name": "it's", "port": 3.5, "cmd": 'say "hi"', "env": []},
    {"name": "c d", "port": 10},
]
OBJECT = {"spec": {"containers": CONTAINERS}}

CASES = [
    # quotes both ways
    ("@.name=='a'", "0"),
    ('@.name=="a"', "0"),
    ('@.name=="it\'s"', "2"),
    ("@.name=='it\\'s'", "2"),
    ('@.cmd=="say \\"hi\\""', "2"),
    ("@.cmd=='say \"hi\"'", "2"),
    ("@['name']=='c d'", "3"),
    ('@["name"]=="c d"', "3"),
    ("'a' == @.name", "0"),
    ("@.name=='\\u0061'", "0"),
    # comparison operators
    ("@.port == 2", "1"),
    ("@.port != 2", "0 2 3"),
    ("@.port < 2", "0"),
    ("@.port <= 2", "0 1"),
    ("@.port > 3.5", "3"),
    ("@.port >= 3.5", "2 3"),
    ("2 < @.port", "2 3"),
    ("@.name > 'b'", "2 3"),
    ("@.tty == true", "0"),
    ("@.tty == false", "1"),
    ("@.stdin == null", "0"),
    ("@.port == '2'", ""),
    ("@.port > 'a'", ""),
    ("@.name in ['a', 'b']", "0 1"),
    # existence
    ("@.image", "1"),
    ("!@.image", "0 2 3"),
    ("@.stdin", "0"),
    ("@.tty", "0 1"),
    ("@.env[0]", "0 1"),
    ("@.env[*]", "0 1"),
    ("!@.env", "3"),
    # && || !
    ("@.name=='a' || @.name=='b'", "0 1"),
    ("@.name=='a'&&@.port==1", "0"),
    ("@.name=='a' && @.port==2", ""),
    ("!(@.name=='a')", "1 2 3"),
    ("!(@.name=='a' || @.image)", "2 3"),
    ("@.name=='a' || @.name=='b' && @.port==9", "0"),
    ("(@.name=='a' || @.name=='b') && @.port==2", "1"),
    # within each other
    ("@.env[?@.name=='X']", "0 1"),
    ("@.env[?(@.name=='X')]", "0 1"),
    ("@.env[?@.name=='X' && @.value=='3']", "1"),
    ('!@.env[?(@.name=="Y")]', "0 2 3"),
    ("@.env[0].name == 'Y'", "1"),
    ("@.env[-1].name == 'X'", "0 1"),
    ("@.env[?@.name=='Y'] && @.port==2", "1"),
]


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize(("filtered", "places"), CASES)
def test_6_both_spellings_of_a_filter_select_the_same(
    filtered: str, places: str, spelling: str
) -> None:
    for start in ("$.spec.containers", "spec.containers"):
        path = start + spelling.format(filtered)
        assert check([path]) == []
        assert drift_paths(OBJECT, [path]) == tuple(
            f"spec.containers[{place}]" for place in places.split()
        )


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_6_a_filter_within_a_path_keeps_the_live_value_of_what_it_selects_alone(
    spelling: str,
) -> None:
    live = copy.deepcopy(OBJECT)
    for container in live["spec"]["containers"]:
        for variable in container.get("env", ()):
            variable["value"] = "live"
    outer, inner = (spelling.format(f"@.name=='{name}'") for name in ("b", "X"))
    path = f"$.spec.containers{outer}.env{inner}.value"
    made = preserve(OBJECT, live, [path])["spec"]["containers"]
    values = [[each["value"] for each in container.get("env", ())] for container in made]
    assert values == [["1"], ["2", "live"], [], []]


REFUSED = [
    ("@.name='a'", "compare with =="),
    ("@.name==='a'", "compare with =="),
    ("@.name<>'a'", "uses <>, which is not supported; write !="),
    ("@.env[*].name=='X'", "use a filter within the filter"),
    ("true", "compare a field with it"),
    ("@.name=='a' || true", "compare a field with it"),
    ("@.name==a", "write for example"),
    ("@.name=='a'||", "write for example"),
    ("@.name=='a", "write for example"),
    ("length(@.name)>1", "the function length()"),
    ("@.name =~ /a/", "a pattern (=~)"),
    ("match(@.name, 'a.*')", "the function match()"),
    ("@.image==undefined", "write !@.field"),
    ("#=='a'", "start with @"),
    ("_.x=='a'", "start with @"),
    ("^.x", "start with @"),
    ("@.env[?#=='a']", "start with @"),
    ("@.env[?@.name<>'a']", "uses <>"),
]


@pytest.mark.parametrize("spelling", ["[?{}]", "[?({})]"], ids=["rfc-9535", "older"])
@pytest.mark.parametrize(("filtered", "words"), REFUSED)
def test_6_what_is_not_supported_is_refused_with_the_field_and_a_fix(
    filtered: str, words: str, spelling: str
) -> None:
    path = "$.spec.containers" + spelling.format(filtered)
    (problem,) = check([path])
    assert problem.startswith(f"ignoreFields: {path!r} ")
    assert words in problem


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("spelling", ['[?@.name=="c"]', '[?(@.name=="c")]'], ids=["rfc", "older"])
async def test_6_a_filtered_field_that_another_sets_stays_and_the_others_are_put_back(
    harness: TenancyHarness, spelling: str
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    names = ("b", "c")
    pod = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": name, "image": "ours"} for name in names]},
    }
    await fleet.template(
        deployments=[
            {
                "id": "app",
                "nameTemplate": "{{ .uid }}-app",
                "waitForReady": False,
                "ignoreFields": [f"$.spec.template.spec.containers{spelling}.image"],
                "spec": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod},
                },
            }
        ]
    )
    await fleet.ready("a-app")
    for name in reversed(names):
        await harness.client.patch(
            DEPLOYMENT,
            "a-app",
            {"spec": {"template": {"spec": {"containers": [{"name": name, "image": "theirs"}]}}}},
            namespace=fleet.namespace,
            type=PatchType.STRATEGIC,
            field_manager="another",
        )
    await fleet.there(
        DEPLOYMENT, "a-app", lambda live: images(live) == {"b": "ours", "c": "theirs"}
    )
    await harness.idle()
    assert images(await fleet.get(DEPLOYMENT, "a-app")) == {"b": "ours", "c": "theirs"}


def images(deployment: dict[str, Any]) -> dict[str, str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["image"] for each in containers}


@pytest.mark.asyncio(loop_scope="module")
async def test_6_a_template_with_a_filter_that_is_not_supported_is_invalid_and_makes_no_tenant(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    path = '$.data[?(@.name="c")]'
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", ignoreFields=[path])])
    found = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert f"cm: ignoreFields: {path!r} is not a JSONPath; compare with ==" in found.message
    assert await fleet.find(Tenant, "a-app") is None
