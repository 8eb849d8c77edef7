"""Rules become few roles, the same each time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.generate import (
    Rule,
    declared,
    normalised,
    rbac,
    roles,
    writes_events,
)
from ctrlruntime.generate.permissions import rules_of


def rule(groups: str, resources: str, verbs: str, **more: Any) -> Rule:
    return Rule(
        groups=tuple(groups.split(",")),
        resources=tuple(resources.split(",")),
        verbs=tuple(verbs.split(",")),
        **more,
    )


def test_verbs_of_the_same_resource_are_merged() -> None:
    assert normalised([rule("apps", "a", "get"), rule("apps", "a", "list,get")]) == [
        rule("apps", "a", "get,list")
    ]


def test_resources_with_the_same_verbs_are_merged_then_groups() -> None:
    rules = [rule(group, name, "get") for group in ("y", "x") for name in ("b", "a")]
    assert normalised(rules) == [rule("x,y", "a,b", "get")]


def test_what_a_merge_makes_agree_is_merged_as_well() -> None:
    rules = [rule("x", "a,b", "get"), rule("x,y", "a", "get"), rule("y", "a,b", "get")]
    assert normalised(rules) == [rule("x,y", "a,b", "get")]


def test_a_star_swallows_other_verbs_and_core_is_the_empty_group() -> None:
    assert normalised([rule("core", "pods", "get"), rule("", "pods", "*")]) == [
        rule("", "pods", "*")
    ]


def test_names_and_namespaces_keep_rules_apart() -> None:
    rules = [
        rule("", "pods", "get"),
        rule("", "pods", "list", names=("x",)),
        rule("", "pods", "list", namespace="ns"),
    ]
    assert len(normalised(rules)) == 3


def test_urls_are_merged_among_themselves() -> None:
    rules = [Rule(urls=("/metrics",), verbs=("get",)), Rule(urls=("/healthz",), verbs=("get",))]
    assert normalised(rules) == [Rule(urls=("/healthz", "/metrics"), verbs=("get",))]


def test_roles_are_a_cluster_role_and_one_role_for_each_namespace() -> None:
    manifests = roles([rule("", "pods", "get"), rule("", "secrets", "get", namespace="ns")], "r")
    assert [(m["kind"], m["metadata"]) for m in manifests] == [
        ("ClusterRole", {"name": "r"}),
        ("Role", {"name": "r", "namespace": "ns"}),
    ]
    assert manifests[0]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]


def test_no_rules_make_no_roles() -> None:
    assert roles([]) == []


def test_declarations_of_a_controller_become_rules() -> None:
    permissions = [("apps", "deployments", ("get", "list")), ("", "pods/status", ("patch",))]
    assert declared(permissions, "ns") == (
        rule("apps", "deployments", "get,list", namespace="ns"),
        rule("", "pods/status", "patch", namespace="ns"),
    )
    assert declared(permissions)[0].namespace is None


def test_rules_are_found_on_functions_classes_and_methods() -> None:
    one, two = rule("", "pods", "get"), rule("", "secrets", "get")

    @rbac(*writes_events())
    @rbac(one)
    class Controller:
        @rbac(two)
        def reconcile(self) -> None: ...

    assert rules_of(Controller) == (one, *writes_events(), two)
    assert rules_of(object()) == ()


def test_a_subclass_adds_to_its_own_rules_only() -> None:
    @rbac(rule("", "pods", "get"))
    class Parent: ...

    @rbac(rule("", "secrets", "get"))
    class Child(Parent): ...

    assert len(rules_of(Parent)) == 1
    assert rules_of(Child) == (rule("", "pods", "get"), rule("", "secrets", "get"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"verbs": ("get",)},
        {"verbs": ()},
        {"verbs": ("get",), "resources": ("pods",)},
        {"verbs": ("get",), "resources": ("pods",), "groups": ("",), "urls": ("/x",)},
        {"verbs": ("get",), "urls": ("/x",), "namespace": "ns"},
    ],
)
def test_rules_without_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="rule"):
        Rule(**wrong)


def test_a_string_is_not_a_tuple_of_words() -> None:
    with pytest.raises(TypeError, match="not a string"):
        Rule(groups=("",), resources=("pods",), verbs="get")  # type: ignore[arg-type]


words = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)
some_rules = st.lists(
    st.builds(
        lambda groups, resources, verbs, names: Rule(
            groups=groups, resources=resources, verbs=verbs, names=names
        ),
        words,
        words,
        words,
        words | st.just(()),
    ),
    max_size=8,
)


def permitted(rules: list[Rule]) -> set[tuple[str, str, str, str]]:
    return {
        (group, resource, verb, name)
        for item in rules
        for group in item.groups
        for resource in item.resources
        for verb in item.verbs
        for name in item.names or ("*",)
    }


@given(some_rules)
def test_normalising_changes_no_permission_and_has_one_result(rules: list[Rule]) -> None:
    result = normalised(rules)
    assert permitted(result) == permitted(rules)
    assert normalised(result) == result
    assert len(result) <= len(rules)
