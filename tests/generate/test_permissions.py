"""Rules become few roles, the same each time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.generate import (
    Rule,
    declared,
    limit_to_namespaces,
    normalised,
    rbac,
    roles,
    writes_events,
)
from ctrlruntime.generate.permissions import rules_of


def rule(
    groups: str,
    resources: str,
    verbs: str,
    *,
    names: tuple[str, ...] = (),
    namespace: str | None = None,
) -> Rule:
    return Rule(
        groups=tuple(groups.split(",")),
        resources=tuple(resources.split(",")),
        verbs=tuple(verbs.split(",")),
        names=names,
        namespace=namespace,
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
def test_rules_without_sense_are_refused(wrong: dict[str, Any]) -> None:
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


# -- limited to namespaces -----------------------------------------------------------------------

CLUSTER = {("", "nodes"), ("x", "a")}
limited = pytest.mark.criterion("H-D4")


@limited
def test_h_d4_namespaced_resources_get_a_rule_in_each_namespace() -> None:
    rules = [rule("", "pods,pods/log,nodes,nodes/status", "get")]
    assert limit_to_namespaces(rules, ["one", "two"], CLUSTER) == [
        rule("", "nodes,nodes/status", "get"),
        rule("", "pods,pods/log", "get", namespace="one"),
        rule("", "pods,pods/log", "get", namespace="two"),
    ]


@limited
def test_h_d4_names_urls_and_rules_of_other_namespaces_are_kept() -> None:
    kept = [rule("", "pods", "get", namespace="own"), Rule(urls=("/metrics",), verbs=("get",))]
    rules = [*kept, rule("", "secrets", "*", names=("x",))]
    expected = [*kept, rule("", "secrets", "*", names=("x",), namespace="ns")]
    assert limit_to_namespaces(rules, ["ns"], CLUSTER) == normalised(expected)


@limited
def test_h_d4_a_resource_is_cluster_scoped_in_its_own_group_alone() -> None:
    made = roles(limit_to_namespaces([rule("x,y", "a", "get")], ["ns"], CLUSTER))
    assert [(each["kind"], each["rules"][0]["apiGroups"]) for each in made] == [
        ("ClusterRole", ["x"]),
        ("Role", ["y"]),
    ]


@limited
@pytest.mark.parametrize(("groups", "resources"), [("*", "a"), ("x", "*"), ("x", "*/status")])
def test_h_d4_a_wildcard_has_no_scope(groups: str, resources: str) -> None:
    with pytest.raises(ValueError, match="has no scope"):
        limit_to_namespaces([rule(groups, resources, "get")], ["ns"], CLUSTER)


@limited
def test_h_d4_no_namespaces_are_refused() -> None:
    with pytest.raises(ValueError, match="no namespaces"):
        limit_to_namespaces([], [], CLUSTER)


@limited
@given(some_rules, st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"))))
def test_h_d4_a_limited_permission_is_in_each_namespace_or_cluster_wide_and_none_is_lost(
    rules: list[Rule], cluster_scoped: set[tuple[str, str]]
) -> None:
    found = limit_to_namespaces(rules, ["one", "two"], cluster_scoped)
    wide = permitted([each for each in found if each.namespace is None])
    assert wide == {each for each in permitted(rules) if each[:2] in cluster_scoped}
    for namespace in ("one", "two"):
        there = permitted([each for each in found if each.namespace == namespace])
        assert there == permitted(rules) - wide
