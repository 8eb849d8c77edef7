"""Fields that keep their live value, each from its own place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import current_thread, main_thread
from typing import Any

import pytest

from internal.tenancy.objects import path_matches
from internal.tenancy.objects.ignore_fields import (
    MOST_PATHS,
    check,
    drift_paths,
    drift_paths_beside,
    preserve,
    preserve_beside,
)
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


def test_a_number_in_a_path_is_the_key_of_a_map_too() -> None:
    live = {"spec": {"m": {"0": {"x": 1}}}}
    assert preserve({"spec": {}}, live, ["$.spec.m[0].x"]) == {"spec": {}}
    assert preserve({"spec": {"m": {"0": {"x": 2}}}}, live, ["$.spec.m[0].x"]) == live


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


def test_both_signs_of_the_root_are_the_object_in_each_part_of_a_union() -> None:
    """`$.a | ^.b` was a KeyError."""
    assert drift_paths({"a": 1, "b": 2, "c": 3}, ["$.a | ^.b"]) == ("a", "b")


@pytest.mark.criterion("IGNORE-DRIFT")
def test_drift_is_reported_the_paths_as_it_names_them() -> None:
    desired = workload(1, app="1", sidecar="2")
    paths = ["$.spec.replicas", "$.spec.containers[*].resources", "$.gone"]
    assert drift_paths(desired, paths) == (
        "spec.containers[0].resources",
        "spec.containers[1].resources",
        "spec.replicas",
    )


def items(count: int, key: str = "name") -> dict[str, Any]:
    return {
        "spec": {"items": [{key: {"of": n} if key == "key" else n, "x": n} for n in range(count)]}
    }


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize("key", ["name", "key", "unlike"])
@pytest.mark.parametrize("path", ["$.spec.items[*].x", "$.spec.items[*]"])
def test_items_of_a_list_are_paired_in_one_pass(path: str, key: str) -> None:
    """Each was looked for among all: 2,000 took a third of a second."""
    few, many = (lines(partial(preserve, items(n, key), items(n, key), [path])) for n in (50, 200))
    assert many <= 5 * few


def nested(depth: int) -> dict[str, Any]:
    return {"spec": nested(depth - 1)} if depth else {"x": 1}


@pytest.mark.criterion("S-F3")
def test_what_is_within_a_kept_value_is_not_written_once_more() -> None:
    """Each level was copied with all that is in it."""
    few, many = (lines(partial(preserve, nested(n), nested(n), ["$..*"])) for n in (20, 80))
    assert many <= 5 * few
    assert drift_paths(nested(20), ["$..*"]) == ("spec",)
    assert preserve(nested(3), {**nested(2), "kind": "B"}, ["$..*"])["spec"] == nested(1)


WIDE = {"spec": {f"k{n}": {f"j{m}": m for m in range(10)} for n in range(10)}}
LONG_KEY = {"spec": {"k" * 100_000: {f"j{n}": n for n in range(100)}}}


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (WIDE, ["$..*"] * MOST_PATHS),
        (WIDE, ["$.spec.*.*"] * MOST_PATHS),
        (WIDE, ["$.spec[?@.j1==7]"] * MOST_PATHS),
        (WIDE, ["$..* & $..*"]),
        ({"a": [[[*range(99)]]]}, ["$.a[*] & $.a[*]"] * MOST_PATHS),
        (WIDE, ["$.spec[?@..[?@..x]]"]),
        (WIDE, ["$..[?$..x]"]),
        (WIDE, ["$.spec.*[?$.spec contains @.x]"]),
        (WIDE, ["$.spec[" + ",".join("*" * 200) + "]"]),
        (LONG_KEY, ["$.spec[?@.*]"]),
    ],
)
def test_paths_that_look_at_too_much_are_refused_before_they_do(
    value: dict[str, Any], paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them took 0.4 s of the loop in an object of 40,000 values, and a hundred are allowed."""
    monkeypatch.setattr(path_matches, "MOST_WORK", 1_000)
    assert check(paths) == []
    for work in (partial(preserve, {}, value, paths), partial(drift_paths, value, paths)):
        with pytest.raises(IgnoreFieldError, match="look at more than 1000 values"):
            work()

    def refused() -> None:
        with suppress(IgnoreFieldError):
            preserve({}, value, paths)

    assert lines(refused) < 60_000
    assert preserve(value, value, ["$..*"]) == value


@pytest.mark.criterion("S-F3")
def test_names_above_what_is_matched_are_counted_once_for_each() -> None:
    """2,000 fields below a key of 400,000 characters were paths of 800 MB."""
    with pytest.raises(IgnoreFieldError, match="have 10000690 characters together"):
        drift_paths(LONG_KEY, ["$.spec.*.*"])


class Watched(dict[str, Any]):
    """An object that records whether the thread of the event loop looks at its items."""

    by_loop: bool | None = None

    def items(self) -> Any:  # noqa: ANN401
        self.by_loop = current_thread() is main_thread()
        return super().items()


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize(("count", "by_loop"), [(10, True), (1_000, False)])
async def test_much_is_looked_at_beside_the_loop(count: int, by_loop: bool) -> None:
    live = Watched(items(count)["spec"], spec=Watched(items(count)))
    assert (await preserve_beside(items(count), live, ["$..x"]))["spec"] == items(count)["spec"]
    assert live.by_loop is by_loop
    live.by_loop = None
    assert len(await drift_paths_beside(live, ["$..x"])) == 2 * count
    assert live.by_loop is by_loop
