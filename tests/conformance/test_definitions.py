"""CustomResourceDefinitions and custom objects."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from ctrlruntime.json import Json

from .conftest import define
from .manifests import DEFINITIONS, GROUP, WIDGET_SCHEMA, definition, widget
from .wire import MERGE, Api

pytestmark = pytest.mark.custom


def conditions(obj: Json) -> dict[str, str]:
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


@pytest.mark.parametrize("names", [{"kind": "Widget"}, {"kind": "Gadget", "shortNames": ["wd"]}])
async def test_names_in_use_are_not_accepted(api: Api, names: dict[str, Any]) -> None:
    await define(api, definition(api.group))
    rival = definition(api.group)
    rival["metadata"]["name"] = f"gadgets.{api.group}"
    rival["spec"]["names"] = {"plural": "gadgets", **names}
    await api.create(DEFINITIONS, rival)
    found = await api.until(
        f"{DEFINITIONS}/gadgets.{api.group}", lambda found: bool(conditions(found))
    )
    assert conditions(found) == {"NamesAccepted": "False", "Established": "False"}


@pytest.mark.parametrize("what", ["changes", "names", "versions"])
async def test_the_life_of_a_definition(api: Api, what: str) -> None:
    """Each part with a definition of its own, which takes a current server two seconds."""
    await {"changes": _changes, "names": _names, "versions": _versions}[what](api)


async def _changes(api: Api) -> None:
    path = f"{DEFINITIONS}/widgets.{api.group}"
    await define(api, definition(api.group))
    made = await api.get(path)
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["names"]["singular"] == "widget"
    accepted = made["status"]["acceptedNames"]
    assert accepted == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    reasons = {c["type"]: (c["reason"], c["message"]) for c in made["status"]["conditions"]}
    assert reasons == {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    for change, field in (
        ({"scope": "Cluster"}, "spec.scope"),
        ({"group": "other.com"}, "spec.group"),
        ({"names": {"kind": "Gadget"}}, "spec.names.kind"),
        ({"names": {"plural": "gadgets"}}, "spec.names.plural"),
    ):
        causes = await api.causes("PATCH", path, {"spec": change}, MERGE)
        assert field in {cause[0] for cause in causes}, (field, causes)
    patch = {"spec": {"names": {"categories": ["all"], "shortNames": ["wi"]}}}
    changed = await api.merge(path, patch)
    assert changed["metadata"]["generation"] == 2
    await api.until(path, lambda found: found["status"]["acceptedNames"]["shortNames"] == ["wi"])
    ignored = await api.merge(path, {"status": {"acceptedNames": {"kind": "No"}}})
    assert ignored["status"]["acceptedNames"]["kind"] == "Widget"


async def _names(api: Api) -> None:
    """Names that another has are taken once that one is gone."""
    first = await define(api, definition(api.group))
    rival = definition(api.group)
    rival["metadata"]["name"] = f"gadgets.{api.group}"
    rival["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"]}
    await api.create(DEFINITIONS, rival)
    path = f"{DEFINITIONS}/gadgets.{api.group}"
    found = await api.until(path, lambda found: bool(conditions(found)))
    said = {c["type"]: (c["reason"], c["message"]) for c in found["status"]["conditions"]}
    assert said == {
        "NamesAccepted": ("ShortNamesConflict", '"wd" is already in use'),
        "Established": ("NotAccepted", "not all names are accepted"),
    }
    gadgets = first.replace("widgets", "gadgets")
    assert (await api.send("GET", gadgets))[0] == 404
    await api.call("DELETE", f"{DEFINITIONS}/widgets.{api.group}")
    await api.until(path, lambda found: conditions(found).get("Established") == "True")
    await api.gone(first)


async def _versions(api: Api) -> None:
    """Versions come and go; the stored ones stay noted."""
    crd = definition(api.group)
    old = crd["spec"]["versions"][0]
    crd["spec"]["versions"] = [{**old, "name": "v1beta1"}]
    beta = await define(api, crd, "v1beta1")
    body = {**widget("w", group=api.group), "apiVersion": f"{api.group}/v1beta1"}
    await api.create(beta, body)
    path = f"{DEFINITIONS}/widgets.{api.group}"
    stored = {**old, "name": "v1", "additionalPrinterColumns": COLUMNS}
    versions = [{**old, "name": "v1beta1", "storage": False, "deprecated": True}, stored]
    await api.merge(path, {"spec": {"versions": versions}})
    v1 = beta.replace("v1beta1", "v1")
    found = await api.until(f"{v1}/w", lambda found: found is not None)
    assert found["apiVersion"] == f"{api.group}/v1"
    entry = found["metadata"]["managedFields"][0]
    assert entry["apiVersion"] == f"{api.group}/v1beta1"
    definition_ = await api.until(path, lambda d: len(d["status"]["storedVersions"]) == 2)
    assert definition_["status"]["storedVersions"] == ["v1beta1", "v1"]
    _, _, headers = await api.send("GET", f"{beta}/w")
    assert headers["Warning"] == (
        f'299 - "{api.group}/v1beta1 Widget is deprecated; use {api.group}/v1 Widget"'
    )
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    _, table, _ = await api.send("GET", v1, Accept=accept)
    shown = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert shown == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Items", "string", 1),
        ("Since", "date", 0),
    ]
    assert table["rows"][0]["cells"][:2] == ["w", 1]
    causes = await api.causes("PATCH", path, {"spec": {"versions": [stored]}}, MERGE)
    assert "status.storedVersions[0]" in {cause[0] for cause in causes}
    unserved = [{**versions[0], "served": False}, stored]
    await api.merge(path, {"spec": {"versions": unserved}})
    await api.gone(beta)
    assert (await api.get(f"{v1}/w"))["spec"]["size"] == 1
    applied = await api.apply(f"{v1}/w", widget("w", {"size": 2}, group=api.group), force="true")
    assert applied["metadata"]["generation"] == 2


COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Items", "type": "string", "jsonPath": ".spec.items[*].name", "priority": 1},
    {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


async def test_what_a_definition_must_be(api: Api) -> None:
    """More than the schema: names, versions, columns, conversion, subresources."""

    def with_(**spec: object) -> Callable[[Json], object]:
        return lambda crd: crd["spec"].update(spec)

    def version(**parts: object) -> Callable[[Json], object]:
        return lambda crd: crd["spec"]["versions"][0].update(parts)

    def names(**parts: object) -> Callable[[Json], object]:
        return lambda crd: crd["spec"]["names"].update(parts)

    cases: list[tuple[Any, str]] = [
        (with_(group=""), "spec.group"),
        (with_(group="other.com"), "metadata.name"),
        (with_(scope=""), "spec.scope"),
        (with_(scope="Galaxy"), "spec.scope"),
        (lambda crd: crd["spec"]["names"].pop("kind"), "spec.names.kind"),
        (with_(versions=[]), "spec.versions"),
        (names(plural=""), "spec.names.plural"),
        (names(plural="Widgets"), "spec.names.plural"),
        (names(singular="Widget"), "spec.names.singular"),
        (names(kind="a b"), "spec.names.kind"),
        (names(listKind="Widget"), "spec.names.listKind"),
        (names(shortNames=["W D"]), "spec.names.shortNames[0]"),
        (names(categories=["A"]), "spec.names.categories[0]"),
        (version(name="V1"), "spec.versions[0].name"),
        (version(name=""), "spec.versions[0].name"),
        (version(storage=False), "spec.versions"),
        (version(schema=None), "spec.versions[0].schema.openAPIV3Schema"),
        (version(additionalPrinterColumns=[{"name": "A", "type": "x", "jsonPath": ".a"}]), "spec.additionalPrinterColumns[0].type"),
        (version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "a["}]), "spec.additionalPrinterColumns[0].JSONPath"),
        (version(subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.replicas"}}), "spec.subresources.scale.specReplicasPath"),
        (version(subresources={"scale": {"specReplicasPath": ".spec.x"}}), "spec.subresources.scale.statusReplicasPath"),
        (with_(conversion={"strategy": "Magic"}), "spec.conversion.strategy"),
        (with_(conversion={"strategy": "Webhook"}), "spec.conversion.webhookClientConfig"),
        (with_(conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}), "spec.conversion.conversionReviewVersions"),
        (with_(preserveUnknownFields=True), "spec.preserveUnknownFields"),
    ]  # fmt: skip
    for change, field in cases:
        crd = copy.deepcopy(definition(api.group))
        change(crd)
        answer = await api.refusal("POST", f"{DEFINITIONS}?dryRun=All", crd)
        fields = {cause["field"] for cause in (answer.get("details") or {}).get("causes") or ()}
        assert answer["code"] == 422, (field, answer["message"])
        assert field in fields, (field, fields)
    twice = copy.deepcopy(definition(api.group))
    twice["spec"]["versions"].append({**twice["spec"]["versions"][0], "storage": False})
    fields = {cause[0] for cause in await api.causes("POST", f"{DEFINITIONS}?dryRun=All", twice)}
    assert "spec.versions[1].name" in fields or "spec.versions" in fields


async def test_cluster_scoped_kinds(api: Api) -> None:
    crd = definition(api.group)
    crd["spec"]["scope"] = "Cluster"
    path = await define(api, crd)
    made = await api.create(path, widget("w", group=api.group))
    assert "namespace" not in made["metadata"]
    inside = f"/apis/{api.group}/v1/namespaces/{api.namespace}/widgets"
    assert (await api.send("GET", inside))[0] == 404
    assert (await api.send("POST", inside, widget("x", group=api.group)))[0] == 404
    assert (await api.get(f"{path}/w"))["metadata"]["uid"] == made["metadata"]["uid"]
    await api.call("DELETE", f"{path}/w")


async def test_discovery_of_custom_groups(api: Api, widgets: str, shaped: str) -> None:
    group = await api.get(f"/apis/{GROUP}")
    assert (group["kind"], group["name"]) == ("APIGroup", GROUP)
    version = {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    assert (group["versions"], group["preferredVersion"]) == ([version], version)
    listed = await api.get(f"/apis/{GROUP}/v1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{GROUP}/v1")
    found = {item["name"]: item for item in listed["resources"]}
    assert {"widgets", "widgets/status", "widgets/scale", "shapes"} <= set(found)
    widget_ = found["widgets"]
    assert (widget_["singularName"], widget_["namespaced"], widget_["kind"]) == (
        "widget",
        True,
        "Widget",
    )
    assert widget_["shortNames"] == ["wd"]
    assert widget_["verbs"] == [
        "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
    ]  # fmt: skip
    assert widget_["storageVersionHash"]
    assert found["shapes"]["categories"] == ["drawing"]
    scale = found["widgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert scale["verbs"] == found["widgets/status"]["verbs"] == ["get", "patch", "update"]
