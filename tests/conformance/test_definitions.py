"""CustomResourceDefinitions and custom objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .conftest import define
from .subjects import DEFINITIONS, GROUP, WIDGET_SCHEMA, definition, widget
from .wire import MERGE, Api

pytestmark = pytest.mark.custom


def conditions(obj: Any) -> dict[str, str]:
    found = (obj.get("status") or {}).get("conditions") or ()
    return {item["type"]: item["status"] for item in found}


async def test_a_definition_is_established(api: Api, widgets: str) -> None:
    found = await api.until(
        f"{DEFINITIONS}/widgets.{GROUP}",
        lambda found: conditions(found).get("Established") == "True",
    )
    assert conditions(found) == {"NamesAccepted": "True", "Established": "True"}
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["status"]["acceptedNames"]["singular"] == "widget"
    assert found["spec"]["names"]["listKind"] == "WidgetList"
    assert found["spec"]["conversion"] == {"strategy": "None"}


async def test_defaults_pruning_and_validation(api: Api, widgets: str) -> None:
    made = await api.create(widgets, widget("w", {"size": 2, "bogus": 1}))
    assert made["spec"] == {"size": 2, "color": "red", "replicas": 1}
    status, answer, _ = await api.send("POST", widgets, widget("x", {"size": 11, "color": "blue"}))
    assert (status, answer["reason"]) == (422, "Invalid")
    assert {cause["field"] for cause in answer["details"]["causes"]} >= {"spec.size", "spec.color"}


@pytest.mark.since("CEL rules")
async def test_transition_rules(api: Api, widgets: str) -> None:
    await api.create(widgets, widget("w", {"size": 1, "hub": "a"}))
    code, _, message = await api.fails("PATCH", f"{widgets}/w", {"spec": {"hub": "b"}}, MERGE)
    assert (code, "hub is immutable" in message) == (422, True)


async def test_kind_and_version_must_fit(api: Api, widgets: str) -> None:
    code, reason, _ = await api.fails("POST", widgets, {**widget("w"), "kind": "Gadget"})
    assert (code, reason) == (422, "Invalid")
    code, _, message = await api.fails(
        "POST", widgets, {**widget("w"), "apiVersion": f"{GROUP}/v9"}
    )
    assert code == 400
    assert f"does not match the expected API version ({GROUP}/v1)" in message
    nameless = widget("w")
    del nameless["kind"]
    assert (await api.fails("POST", widgets, nameless))[0] == 400


async def test_a_new_schema_counts_at_once(api: Api) -> None:
    widgets = await define(api, definition(api.group))
    await api.create(widgets, widget("w", group=api.group))
    schema = copy.deepcopy(WIDGET_SCHEMA)
    schema["properties"]["spec"]["properties"]["extra"] = {"type": "string", "default": "x"}
    path = f"{DEFINITIONS}/widgets.{api.group}"
    current = await api.get(path)
    current["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    await api.call("PUT", path, current)
    found = await api.until(f"{widgets}/w", lambda found: "extra" in found["spec"])
    assert found["spec"]["extra"] == "x"


async def test_several_versions_share_one_storage(api: Api) -> None:
    two = definition(api.group)
    second = {**two["spec"]["versions"][0], "name": "v2", "storage": False}
    two["spec"]["versions"].append(second)
    v2 = await define(api, two, "v2")
    v1 = v2.replace("/v2/", "/v1/")
    made = await api.create(v2, {**widget("w"), "apiVersion": f"{api.group}/v2"})
    assert made["apiVersion"] == f"{api.group}/v2"
    other = await api.get(f"{v1}/w")
    assert other["apiVersion"] == f"{api.group}/v1"
    assert other["metadata"]["uid"] == made["metadata"]["uid"]
    async with api.watch(f"{v2}?watch=1") as stream:
        assert (await stream.next())["object"]["apiVersion"] == f"{api.group}/v2"
    group = await api.get(f"/apis/{api.group}")
    assert [v["version"] for v in group["versions"]] == ["v2", "v1"]


@pytest.mark.since("selectable fields")
async def test_selectable_fields(api: Api) -> None:
    crd = definition(api.group, selectableFields=[{"jsonPath": ".spec.color"}])
    path = await define(api, crd)
    for name, color in (("w", "green"), ("x", "red")):
        await api.create(path, widget(name, {"size": 1, "color": color}, group=api.group))
    listed = await api.get(f"{path}?fieldSelector=spec.color=green")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["w"]
    assert (await api.fails("GET", f"{path}?fieldSelector=spec.size=1"))[0] == 400


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda spec: spec["names"].pop("kind"), "spec.names.kind"),
        (lambda spec: spec.update(scope="Galaxy"), "spec.scope"),
        (lambda spec: spec["versions"][0].update(storage=False), "spec.versions"),
        (
            lambda spec: spec["versions"][0].update(
                schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}
            ),
            "spec.validation.openAPIV3Schema.properties[a].type",
        ),
        (lambda spec: spec.update(group="other.com"), "metadata.name"),
    ],
)
async def test_bad_definitions_are_refused(api: Api, change: Any, field: str) -> None:
    wrong = copy.deepcopy(definition(api.group))
    change(wrong["spec"])
    status, answer, _ = await api.send("POST", DEFINITIONS, wrong)
    assert status == 422, answer
    fields = {cause["field"] for cause in answer["details"]["causes"]}
    assert any(found.startswith(field) for found in fields), fields


@pytest.mark.parametrize("names", [{"kind": "Widget"}, {"kind": "Gadget", "shortNames": ["wd"]}])
async def test_names_in_use_are_not_accepted(api: Api, names: Any) -> None:
    await define(api, definition(api.group))
    rival = definition(api.group)
    rival["metadata"]["name"] = f"gadgets.{api.group}"
    rival["spec"]["names"] = {"plural": "gadgets", **names}
    await api.create(DEFINITIONS, rival)
    found = await api.until(
        f"{DEFINITIONS}/gadgets.{api.group}", lambda found: bool(conditions(found))
    )
    assert conditions(found) == {"NamesAccepted": "False", "Established": "False"}


async def test_scale_of_a_custom_kind(api: Api, widgets: str) -> None:
    await api.create(widgets, widget("w"))
    scale = await api.get(f"{widgets}/w/scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 1})
    after = await api.merge(f"{widgets}/w/scale", {"spec": {"replicas": 4}})
    assert after["spec"] == {"replicas": 4}
    stored = await api.get(f"{widgets}/w")
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (4, 2)
