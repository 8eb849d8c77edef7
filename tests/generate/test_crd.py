"""The CRD around the schema: names, versions, columns, subresources, files."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import yaml

from ctrlruntime.api import (
    CEL,
    ApiModel,
    GroupVersion,
    PrintColumn,
    Resource,
    Scale,
    SelectableField,
    Time,
)
from ctrlruntime.generate import SchemaError, SchemaWarning, crd_files, crd_of, crds_of, to_yaml
from ctrlruntime.json import Json


class Spec(ApiModel):
    replicas: Annotated[int, PrintColumn()] = 1
    """How many."""
    zone: Annotated[str, PrintColumn("Where", priority=1), SelectableField()]


class Status(ApiModel):
    since: Annotated[Time | None, PrintColumn()] = None


class Website(
    Resource[Spec, Status],
    group="test.example.com",
    version="v1",
    short_names=("ws",),
    categories=("all",),
    print_columns=(PrintColumn("Age", ".metadata.creationTimestamp", "date"),),
    scale=Scale(),
    selectable_fields=(".spec.replicas",),
    labels={"team": "web"},
    annotations={"note": "x"},
    rules=(CEL("self.metadata.name.size() < 9"),),
):
    """A website."""


class OldWebsite(
    Resource[Spec, Status],
    group="test.example.com",
    version="v1beta1",
    kind="Website",
    short_names=("ws",),
    storage=False,
    deprecated="use v1",
):
    """A website, as it was."""


def version(crd: Json, name: str = "v1") -> Json:
    return next(item for item in crd["spec"]["versions"] if item["name"] == name)


def test_names_and_metadata() -> None:
    crd = Website.crd()
    assert crd["metadata"] == {
        "name": "websites.test.example.com",
        "labels": {"team": "web"},
        "annotations": {"note": "x"},
    }
    assert crd["spec"]["names"] == {
        "kind": "Website",
        "listKind": "WebsiteList",
        "plural": "websites",
        "singular": "website",
        "shortNames": ["ws"],
        "categories": ["all"],
    }
    assert crd["spec"]["scope"] == "Namespaced"
    assert "status" not in crd


def test_columns_of_fields_come_first_with_their_paths() -> None:
    assert version(Website.crd())["additionalPrinterColumns"] == [
        {
            "name": "Replicas",
            "type": "integer",
            "jsonPath": ".spec.replicas",
            "description": "How many.",
        },
        {"name": "Where", "type": "string", "jsonPath": ".spec.zone", "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_subresources_selectable_fields_and_rules_of_the_object() -> None:
    v1 = version(Website.crd())
    assert v1["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        },
    }
    assert v1["selectableFields"] == [{"jsonPath": ".spec.replicas"}, {"jsonPath": ".spec.zone"}]
    schema = v1["schema"]["openAPIV3Schema"]
    assert schema["x-kubernetes-validations"] == [{"rule": "self.metadata.name.size() < 9"}]
    assert schema["required"] == ["spec"]
    assert schema["description"] == "A website."


def test_versions_are_put_together() -> None:
    (crd,) = crds_of([OldWebsite, Website])
    assert [item["name"] for item in crd["spec"]["versions"]] == ["v1", "v1beta1"]
    old = version(crd, "v1beta1")
    assert (old["served"], old["storage"], old["deprecated"]) == (True, False, True)
    assert old["deprecationWarning"] == "use v1"


class Draft(
    Resource[Spec, Status],
    api=GroupVersion("test.example.com", "v2alpha1"),
    kind="Website",
    storage=False,
    skip=True,
):
    """A website, as it may be one day."""


def test_a_version_that_is_skipped_is_in_no_definition() -> None:
    (crd,) = crds_of([Draft, OldWebsite, Website])
    assert [item["name"] for item in crd["spec"]["versions"]] == ["v1", "v1beta1"]
    assert crds_of([Draft]) == []


def test_group_and_version_can_be_a_constant_of_the_module() -> None:
    api = GroupVersion("test.example.com", "v2alpha1")
    assert Draft.gvk() == api.kind("Website")
    assert str(api) == "test.example.com/v2alpha1"
    with pytest.raises(TypeError, match="one of the two"):
        type("Two", (Resource[Spec],), {}, api=api, group="test.example.com", version="v1")


def test_a_version_can_be_unserved() -> None:
    old = kind("A", "v1", served=False, storage=False)
    crd = crd_of([old, kind("A", "v2")])
    assert [(v["name"], v["served"]) for v in crd["spec"]["versions"]] == [
        ("v1", False),
        ("v2", True),
    ]


def kind(name: str, version: str, **keywords: object) -> type[Resource[Any, Any]]:
    return type(name, (Resource[Spec],), {}, group="test.example.com", version=version, **keywords)


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        ([kind("A", "v1"), kind("A", "v2")], "exactly one version is stored, here v1, v2"),
        ([kind("A", "v1", storage=False)], "exactly one version is stored, here none"),
        (
            [kind("A", "v1"), kind("A", "v2", storage=False, plural="x")],
            "plural is 'as' in v1, 'x' in v2",
        ),
        ([kind("A", "v1"), kind("A", "v1", storage=False)], "same version"),
        ([kind("A", "v1", served=False)], "at least one version must be served"),
    ],
)
def test_versions_that_do_not_fit_are_refused(
    kinds: list[type[Resource[Any, Any]]], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        crd_of(kinds)


def test_the_file_is_named_after_group_and_plural_and_is_the_same_each_time() -> None:
    with pytest.warns(SchemaWarning, match="versions v1, v1beta1 and the conversion strategy None"):
        files = crd_files([Website, OldWebsite])
    assert list(files) == ["crd/bases/test.example.com_websites.yaml"]
    with pytest.warns(SchemaWarning):
        assert files == crd_files([OldWebsite, Website])
    (text,) = files.values()
    assert yaml.safe_load(text) == crd_of([Website, OldWebsite])


class TestYaml:
    def test_text_is_a_block_and_keys_are_sorted_behind_the_head(self) -> None:
        text = to_yaml({"spec": {"b": "x\ny\n", "a": 1}, "kind": "K", "apiVersion": "v1"})
        assert text == "---\napiVersion: v1\nkind: K\nspec:\n  a: 1\n  b: |\n    x\n    y\n"

    @pytest.mark.parametrize(
        "text", ["1e3", "0x1F", "y", "No", "true", "null", "1.5", "", "~", "08"]
    )
    def test_what_others_take_for_something_else_is_quoted(self, text: str) -> None:
        written = to_yaml({"a": text})
        assert written in (f"---\na: '{text}'\n", f'---\na: "{text}"\n')

    def test_nothing_is_written_as_an_alias(self) -> None:
        shared = {"x": [1]}
        assert "*" not in to_yaml({"a": shared, "b": shared})
