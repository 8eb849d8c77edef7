"""`when` and `forEach`: which resources of a template a tenant gets, and how many of each."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate, TResource
from ctrlruntime.json import Json
from internal.tenancy.objects.expansion import MOST_ELEMENTS, expand
from internal.tenancy.objects.variables import Variables
from internal.tenancy.rendering import Renderer, RenderError
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def entry(**fields: Json) -> TResource:
    return TResource.model_validate(config_map("shard", "{{ .uid }}-{{ .item }}", **fields))


async def expanded(renderer: Renderer, resource: TResource, **values: str) -> list[tuple[str, str]]:
    found = await expand(
        resource, Variables({"uid": "a", **values}, frozenset({"password"})), renderer
    )
    variable = resource.for_each.variable if resource.for_each else "uid"
    return [(each.resource.id, each.variables.values[variable]) for each in found]


@pytest.mark.criterion("WHEN")
@pytest.mark.parametrize(
    ("when", "plan", "wanted"),
    [
        ('{{ eq .plan "gold" }}', "gold", True),
        ('{{ eq .plan "gold" }}', "basic", False),
        ("{{ .plan }}", "true", True),
        ("{{ .plan }}", " False ", False),
        ("true", "gold", True),
        ("{% if plan == 'gold' %}true{% else %}false{% endif %}", "gold", True),
    ],
)
async def test_a_resource_is_there_where_when_comes_to_true(
    renderer: Renderer, when: str, plan: str, wanted: bool
) -> None:
    found = await expanded(renderer, entry(when=when), plan=plan)
    assert found == ([("shard", "a")] if wanted else [])


@pytest.mark.criterion("WHEN")
@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("{{ .plan }}", "true or false"),
        ("{{ .absent }}", "absent"),
        ("{{ .password }}", "sensitive variable 'password'"),
    ],
)
async def test_anything_else_is_a_problem_and_never_no(
    renderer: Renderer, when: str, why: str
) -> None:
    with pytest.raises(RenderError, match=why):
        await expanded(renderer, entry(when=when), plan="gold", password="s3cret")


@pytest.mark.criterion("FOREACH")
@pytest.mark.parametrize(
    ("items", "made"),
    [
        ("eu,us", [("shard[eu]", "eu"), ("shard[us]", "us")]),
        (" us , eu ,", [("shard[eu]", "eu"), ("shard[us]", "us")]),
        ('["us", "eu"]', [("shard[eu]", "eu"), ("shard[us]", "us")]),
        ("[2, 10]", [("shard[10]", "10"), ("shard[2]", "2")]),
        ('[{"name": "eu", "size": 3}]', [("shard[eu]", '{"name":"eu","size":3}')]),
        ("[]", []),
        (" [ ] ", []),
    ],
)
async def test_each_element_gets_a_resource_of_its_own_whatever_their_order(
    renderer: Renderer, items: str, made: list[tuple[str, str]]
) -> None:
    resource = entry(forEach={"items": "{{ .regions }}"})
    assert await expanded(renderer, resource, regions=items) == made


@pytest.mark.criterion("FOREACH", "G-T4")
@pytest.mark.parametrize(
    ("items", "why"),
    [
        ("", "an empty list is \\[\\]"),
        ("  ", "an empty list is"),
        ("[", "JSON array"),
        ("eu,eu", "twice"),
        ("e u", "letters, digits"),
        ("../x", "letters, digits"),
        ('[{"size": 3}]', "no field 'name'"),
        ("[null]", "have to be texts"),
        ("[true]", "have to be texts"),
        ("[[1]]", "have to be texts"),
        ("null", "not to null or a single JSON value"),
        ("None", "not to null or a single JSON value"),
        ("NULL", "not to null or a single JSON value"),
        (" , ,", "it is empty"),
        ("0", "a list of one number is \\[1\\]"),
        ("true", "not to null or a single JSON value"),
        ('"eu"', "not to null or a single JSON value"),
        (",".join(f"e{number}" for number in range(MOST_ELEMENTS + 1)), "more than 100"),
    ],
)
async def test_a_list_that_cannot_be_read_is_a_problem(
    renderer: Renderer, items: str, why: str
) -> None:
    resource = entry(forEach={"items": "{{ .regions }}"})
    with pytest.raises(RenderError, match=why):
        await expanded(renderer, resource, regions=items)


@pytest.mark.criterion("FOREACH")
async def test_when_is_asked_for_each_element(renderer: Renderer) -> None:
    resource = entry(
        when='{{ ne .item "us" }}', forEach={"items": "{{ .regions }}", "variable": "item"}
    )
    found = await expanded(renderer, resource, regions="eu,us,asia")
    assert [name for name, _ in found] == ["shard[asia]", "shard[eu]"]


@pytest.mark.criterion("WHEN")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_resource_comes_and_goes_with_its_row_and_others_do_not_wait_for_it(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", plan="gold")
    fleet.row("b", plan="basic")
    await fleet.registry()
    gold: dict[str, Any] = {"when": '{{ eq .planId "gold" }}'}
    await fleet.template(
        configMaps=[
            config_map("extra", "{{ .uid }}-extra", **gold),
            config_map("kept", "{{ .uid }}-kept", **gold, deletionPolicy="Retain"),
            config_map("after", "{{ .uid }}-after", dependIds=["extra"]),
        ]
    )
    await fleet.ready("a-app", "b-app")
    assert await fleet.get(CONFIG_MAP, "a-extra")
    assert await fleet.get(CONFIG_MAP, "b-after")
    assert await fleet.get(CONFIG_MAP, "b-extra") is None
    status = (await fleet.read(Tenant, "b-app")).status
    assert (status.desired_resources, status.ready_resources) == (1, 1)

    fleet.row("a", plan="basic")
    await fleet.gone(CONFIG_MAP, "a-extra")
    kept = await fleet.there(
        CONFIG_MAP,
        "a-kept",
        lambda seen: "tenancy.ctrlruntime.dev/orphaned" in (seen["metadata"].get("labels") or {}),
    )
    fleet.row("a", plan="gold")
    await fleet.there(CONFIG_MAP, "a-extra")
    again = await fleet.there(
        CONFIG_MAP,
        "a-kept",
        lambda seen: (
            "tenancy.ctrlruntime.dev/orphaned" not in (seen["metadata"].get("labels") or {})
        ),
    )
    assert again["metadata"]["uid"] == kept["metadata"]["uid"]


@pytest.mark.criterion("FOREACH")
@pytest.mark.asyncio(loop_scope="module")
async def test_elements_come_and_go_and_nothing_goes_for_a_list_that_is_broken(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", plan="eu,us")
    fleet.row("none", plan="[]")
    await fleet.registry()
    await fleet.template(
        configMaps=[
            config_map(
                "shard",
                "{{ .uid }}-{{ .region }}",
                {"region": "{{ .region }}"},
                forEach={"items": "{{ .planId }}", "variable": "region"},
            ),
            config_map("after", "{{ .uid }}-after", dependIds=["shard"]),
        ]
    )
    await fleet.ready("a-app")
    seen = await fleet.there(CONFIG_MAP, "a-eu")
    assert seen["data"] == {"region": "eu"}
    found = await fleet.read(Tenant, "a-app")
    assert [each.id for each in found.status.resources] == ["after", "shard[eu]", "shard[us]"]
    applied = f"ConfigMap/{fleet.namespace}/a-eu@shard[eu]"
    assert applied in found.status.applied_resources

    fleet.row("a", plan=None)
    empty = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert "shard (forEach.items: it is empty; an empty list is [])" in empty.message
    fleet.row("a", plan="[broken")
    why = "shard (forEach.items: it begins as a JSON array and is none)"
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed", message=why)
    uid = seen["metadata"]["uid"]
    assert (await fleet.get(CONFIG_MAP, "a-eu"))["metadata"]["uid"] == uid
    assert await fleet.get(CONFIG_MAP, "a-us")

    fleet.row("a", plan='["asia","eu"]')
    await fleet.gone(CONFIG_MAP, "a-us")
    await fleet.there(CONFIG_MAP, "a-asia")
    await fleet.ready("a-app")
    assert (await fleet.get(CONFIG_MAP, "a-eu"))["metadata"]["uid"] == uid

    fleet.delete_row("a")
    for name in ("a-eu", "a-asia", "a-after"):
        await fleet.gone(CONFIG_MAP, name)


@pytest.mark.criterion("FOREACH")
@pytest.mark.asyncio(loop_scope="module")
async def test_what_depends_on_a_list_waits_for_all_of_it_and_names_it(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", plan="eu,us")
    await fleet.registry()
    service = {
        "id": "svc",
        "nameTemplate": "{{ .uid }}-{{ .item }}",
        "forEach": {"items": "{{ .planId }}"},
        "spec": {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"ports": [{"port": '{{ ternary 99999 80 (eq .item "us") }}'}]},
        },
    }
    after = config_map("after", "{{ .uid }}-after", dependIds=["svc"])
    await fleet.template(services=[service], configMaps=[after])
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    found = await fleet.read(Tenant, "a-app")
    states = {each.id: each for each in found.status.resources}
    assert states["svc[eu]"].phase == "Available"
    assert states["svc[us]"].phase == "Failed"
    assert (states["after"].phase, states["after"].waits_for) == ("Skipped", ["svc"])


@pytest.mark.criterion("FOREACH")
@pytest.mark.asyncio(loop_scope="module")
async def test_bad_templates_of_a_choice_are_named_before_any_row_is_read(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(
        configMaps=[
            config_map("one", "{{ .uid }}-one", when="{{ nosuch . }}"),
            config_map("two", "{{ .uid }}-two", forEach={"items": "{{ .planId", "variable": "x"}),
            config_map(
                "three", "{{ .uid }}-3", forEach={"items": "{{ .planId }}", "variable": "uid"}
            ),
            config_map("four", "{{ .uid }}-4", forEach={"items": "{{ .item }}"}),
        ]
    )
    found = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    for part in ("one: when", "two: forEach.items", "three: forEach.variable: 'uid'", "four: for"):
        assert part in found.message, found.message
    assert await fleet.tenants() == []


@pytest.mark.criterion("G-T4")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"when": "{{ bool .plan }}"}, "when: bool: "),
        ({"when": "{{ gt (int .plan) 0 }}"}, "when: int: "),
        ({"forEach": {"items": "[{{ int .plan }}]"}}, "forEach.items: int: "),
    ],
)
async def test_g_t4_a_conversion_that_loses_something_decides_nothing(
    renderer: Renderer, fields: dict[str, Json], why: str
) -> None:
    with pytest.raises(RenderError) as raised:
        await expanded(renderer, entry(**fields), plan="enabled")
    assert str(raised.value).startswith(why)
    assert "enabled" not in str(raised.value)
    assert await expanded(renderer, entry(**fields), plan="1")


@pytest.mark.criterion("G-T4")
@pytest.mark.parametrize("value", ["null", "3", "5.5", '"eu"', "true"])
@pytest.mark.parametrize(
    "fields",
    [
        {"when": '{{ has "eu" (fromJson .plan) }}'},
        {"when": '{{ mustHas "eu" (fromJson .plan) }}'},
        {"when": '{{ "eu" | has(items=fromJson(plan)) }}'},
        *(
            {"forEach": {"items": f"{{{{ fromJson .plan | {function} }}}}"}}
            for function in ("compact", "uniq", "unique", "sortAlpha", "concat (list)", 'join ","')
        ),
        {"forEach": {"items": '{{ without (fromJson .plan) "us" }}'}},
    ],
    ids=str,
)
async def test_g_t4_what_is_no_list_stands_for_none_in_a_function_of_lists(
    renderer: Renderer, fields: dict[str, Json], value: str
) -> None:
    assert await expanded(renderer, entry(**fields), plan='["eu"]')
    with pytest.raises(RenderError):
        await expanded(renderer, entry(**fields), plan=value)


@pytest.mark.criterion("G-T4")
@pytest.mark.asyncio(loop_scope="module")
async def test_g_t4_nothing_goes_for_a_value_that_could_not_be_read(
    harness: TenancyHarness,
) -> None:
    """In what decides which objects there are; content may still be converted with a loss."""
    fleet = await Fleet.make(harness)
    fleet.row("a", plan="1", image="eu,us", replicas=1)
    await harness.make_namespace(f"{fleet.namespace}-1")
    await fleet.registry()
    await fleet.template(
        configMaps=[
            config_map("flag", "{{ .uid }}-flag", when="{{ bool .planId }}"),
            config_map("count", "{{ .uid }}-count", when="{{ gt (int .replicas) 0 }}"),
            config_map("named", "{{ .uid }}-n{{ int .replicas }}"),
            config_map(
                "placed",
                "{{ .uid }}-p",
                targetNamespace=f"{fleet.namespace}-{{{{ int .replicas }}}}",
            ),
            config_map(
                "region",
                "{{ .uid }}-{{ .item }}",
                forEach={"items": "{{ .image }}"},
            ),
            config_map("content", "{{ .uid }}-content", {"n": "{{ int .replicas }}"}),
        ]
    )
    names = ("a-flag", "a-count", "a-n1", "a-eu", "a-us", "a-content")
    for name in names:
        await fleet.there(CONFIG_MAP, name)
    await fleet.ready("a-app")
    since = harness.mark()
    fleet.row("a", plan="enabled", image="null", replicas="three")
    await fleet.there(CONFIG_MAP, "a-content", lambda seen: seen["data"] == {"n": "0"})
    found = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    for part in (
        "flag (when: bool",
        "count (when: int",
        "named (metadata.name: int",
        "region (forEach.items",
    ):
        assert part in found.message, found.message
    await fleet.until(Tenant, "a-app", "ValuesConverted", "False", "LossyConversion")
    await harness.idle()
    assert [
        e.name for e in harness.environment.proxy.log.entries(since) if e.verb == "delete"
    ] == []
    for name in names:
        assert await fleet.get(CONFIG_MAP, name)
    fleet.row("a", plan="0", image="eu", replicas=2)
    for name in ("a-flag", "a-n1", "a-us"):
        await fleet.gone(CONFIG_MAP, name)
    await fleet.there(CONFIG_MAP, "a-n2")
