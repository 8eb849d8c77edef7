"""Fields that keep their live value, each from its own place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from internal.tenancy.objects.ignore_fields import MOST_PATHS, check, drift_paths, preserve
from internal.tenancy.objects.json_paths import compiled, compiled_check
from internal.tenancy.objects.path_errors import IgnoreFieldError
from tests.support.counted_lines import lines


def workload(replicas: int, **cpu: str) -> dict[str, Any]:
    containers = [{"name": name, "resources": {"cpu": value}} for name, value in cpu.items()]
    return {"kind": "Deployment", "spec": {"replicas": replicas, "containers": containers}}


@pytest.mark.criterion("IGNORE-FIELD")
@pytest.mark.parametrize("path", ["$.spec.replicas", "spec.replicas", "$['spec']['replicas']"])
def test_a_field_keeps_its_live_value(path: str) -> None:
    assert preserve(workload(2), workload(7), [path])["spec"]["replicas"] == 7


@pytest.mark.criterion("IGNORE-WILDCARD")
def test_every_match_of_a_wildcard_keeps_its_own_value_by_name_not_by_place() -> None:
    desired = workload(1, app="1", sidecar="2", fresh="3")
    live = workload(1, injected="99", sidecar="20", app="10")
    made = preserve(desired, live, ["$.spec.containers[*].resources"])
    assert (
        made["spec"]["containers"]
        == workload(1, app="10", sidecar="20", fresh="3")["spec"]["containers"]
    )
    assert desired == workload(1, app="1", sidecar="2", fresh="3")


@pytest.mark.criterion("IGNORE-ABSENT")
def test_absent_fields_do_no_harm_on_either_side() -> None:
    desired = workload(2, app="1")
    assert preserve(desired, {"spec": {}}, ["$.spec.replicas", "$.nope.x[*].y"]) == desired
    live = {"data": {"mine": "1", "theirs": "2"}}
    assert preserve({"data": {"mine": "0"}}, live, ["$.data.theirs"]) == {"data": {"mine": "0"}}
    made = preserve({"data": {"mine": "0"}}, live, ["$.data.theirs"], add_missing=True)
    assert made == {"data": {"mine": "0", "theirs": "2"}}


@pytest.mark.criterion("IGNORE-IDENTITY")
@pytest.mark.parametrize("path", ["$.kind", "$.metadata", "$.metadata.name", "$"])
def test_the_identity_of_an_object_is_never_taken_from_the_live_one(path: str) -> None:
    desired = {"kind": "A", "metadata": {"name": "a"}}
    assert preserve(desired, {"kind": "B", "metadata": {"name": "b"}}, [path]) == desired


@pytest.mark.criterion("IGNORE-CHECK")
def test_wrong_paths_are_reported() -> None:
    problems = check(["$.a", "$.[", "", "$[?match(@.a, '(a+)+')]"])
    assert len(problems) == 3
    with pytest.raises(IgnoreFieldError):
        preserve({}, {}, ["$.["])


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("$.spec.containers[?(@.name=='app')].resources", {"app"}),
        ("$.spec.containers[?@.name == 'app'].resources", {"app"}),
        ("spec.containers[?(@.name != 'app')].resources", {"sidecar"}),
        ("$.spec.containers[?(@.name in ['app', 'sidecar'])].resources", {"app", "sidecar"}),
        ("$.spec.containers[?(@.name=='app' || @.name=='x')].resources", {"app"}),
        ("$.spec.containers[?(@.resources.cpu == '20')].resources", {"sidecar"}),
        ("$.spec.containers[?(@.name=='(app)')].resources", set()),
    ],
)
def test_a_filter_keeps_the_values_of_what_it_selects(path: str, kept: set[str]) -> None:
    live = workload(1, injected="99", sidecar="20", app="10")
    assert check([path]) == []
    made = preserve(workload(1, app="1", sidecar="2"), live, [path])["spec"]["containers"]
    found = {item["name"]: item["resources"]["cpu"] for item in made}
    expected = {"app": "1", "sidecar": "2"}
    expected |= {name: {"app": "10", "sidecar": "20"}[name] for name in kept}
    assert found == expected


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("$.a[?match(@.b, 'x')]", "match()"),
        ("$.a[?(length(@.b) > 1)]", "length()"),
        ("$.a[?(@.b == 'x' && !(count(@.c[*]) > 1))]", "count()"),
        ("$.a[?(@.c[?(search(@.d, 'x'))])]", "search()"),
        ("$.a[?@.b =~ /a*a*a*b/]", "=~"),
        ("$.a[?(@.c[?(@.d =~ /x/)])]", "=~"),
        ("$.a.~", "keys"),
        ("$.x | $.a.~", "keys"),
        ("$.a[(@.length-1)]", "is not a JSONPath; write for example"),
        ("$." + "a" * 600, "at most 512 characters"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(path: str, words: str) -> None:
    problems = check([path])
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize("examine", [compiled, compiled_check])
def test_a_filter_in_a_filter_is_looked_at_once(examine: Callable[[str], object]) -> None:
    """Each level doubled it: 30 of them, in 120 characters of a template, took an hour of the loop."""
    few, many = (
        lines(partial(examine, "$" + "[?@" * count + ".s" + "]" * count)) for count in (9, 18)
    )
    assert many <= 5 * few


@pytest.mark.criterion("S-F3")
def test_paths_that_multiply_how_often_a_value_is_looked_at_are_refused() -> None:
    assert check(["$..a..b"]) == []
    [problem] = check(["$..a[?@..b]..c"])
    assert "has '..' more than 2 times" in problem
    many = ["$.a"] * 10_000
    assert check(many[:MOST_PATHS]) == []
    assert check(many) == [
        "ignoreFields: there are 10000 paths; write at most 100, with [*] or a filter for several fields"
    ]
    with pytest.raises(IgnoreFieldError):
        preserve({}, {}, many)


@pytest.mark.criterion("IGNORE-DRIFT")
def test_drift_is_reported_the_paths_as_it_names_them() -> None:
    desired = workload(1, app="1", sidecar="2")
    paths = ["$.spec.replicas", "$.spec.containers[*].resources", "$.gone"]
    assert drift_paths(desired, paths) == (
        "spec.containers[0].resources",
        "spec.containers[1].resources",
        "spec.replicas",
    )
