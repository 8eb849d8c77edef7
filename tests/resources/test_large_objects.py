"""What an object as large as the API server takes costs: as much for each of its fields as for those of a small one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from ctrlruntime.resources.applied_fields import AppliedFields, has_list, record_fields
from ctrlruntime.resources.drift import missing_leaves, missing_locations, not_ignored
from ctrlruntime.resources.replaced_fields import find_replaced
from tests.support.counted_lines import lines

FEW, MANY = 100, 1_000
"""Items of lists and keys of maps."""


def keys(count: int) -> dict[str, Any]:
    """Return an object with so many keys in a map."""
    return {"metadata": {"name": "a"}, "data": {f"k{number}": "v" for number in range(count)}}


def items(count: int) -> dict[str, Any]:
    """Return an object with so many items in a list, of which each leaves a key to the server."""
    return {"metadata": {"name": "a"}, "spec": {"ports": [{"port": n} for n in range(count)]}}


def owned(count: int) -> bytes:
    """Return our entry of it."""
    of_items: dict[str, Any] = {
        f'k:{{"port":{number},"protocol":"TCP"}}': {".": {}, "f:port": {}}
        for number in range(count)
    }
    return orjson.dumps({"f:data": {"f:other": {}}, "f:spec": {"f:ports": of_items}})


def drift(count: int) -> None:
    assert missing_leaves(items(count), owned(count)) == []


def ignored(count: int) -> None:
    lost = missing_locations(keys(count), owned(count))
    assert len([*not_ignored(lost, [f"data.k{number}" for number in range(1, count)])]) == 1


def recorded(count: int) -> None:
    before, now = keys(count), keys(count + 1)
    applied = AppliedFields(now, record_fields(before))
    lost = missing_locations(now, owned(count))
    assert len([each for each in lost if applied.has_at(each)]) == count
    assert not any(has_list(each, now) for each in lost)


def disputed(count: int) -> None:
    body = keys(count) | items(count)
    applied = AppliedFields(body, record_fields(body))
    assert all(applied.has(f".data.k{number}") for number in range(count))
    for number in range(count):
        assert applied.has(f'.spec.ports[port={number},protocol="TCP"].port')


def replaced(count: int) -> None:
    """Other managers changed the keys of all items, and all values of a set."""
    steps = {
        "f:spec": {
            "f:ports": {f'k:{{"port":{number}}}': {"f:port": {}} for number in range(count)},
            "f:set": {f'v:"{number}"': {} for number in range(count)},
        }
    }
    entry = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": steps}
    live: dict[str, Any] = {"metadata": {"managedFields": [entry]}, **ports(range(count))}
    found = find_replaced(live, ports(range(count, 2 * count)), "own", refused=True)
    assert len(found.paths) == 2 * count


def ports(numbers: range) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": n} for n in numbers], "set": [str(n) for n in numbers]}}


@pytest.mark.parametrize("work", [drift, ignored, recorded, disputed, replaced])
def test_ten_times_the_fields_are_ten_times_the_work(work: Callable[[int], None]) -> None:
    """S-F3: 30,000 new keys of a ConfigMap stopped the loop for a minute, 10,000 ports for 20 seconds at each look."""
    work(FEW)  # what is made once counts for neither
    assert lines(lambda: work(MANY)) < 15 * lines(lambda: work(FEW))


def test_fields_below_a_long_key_are_not_recorded() -> None:
    """S-F3: each path repeats the key: 10,000 fields were a gigabyte, which the memory of tokens held on to."""
    body = {"metadata": {}, "spec": {"k" * 100_000: {f"f{number}": 1 for number in range(4_000)}}}
    assert record_fields(body) == ""
    assert lines(lambda: record_fields(body)) < 2_000


def test_an_ignored_path_covers_what_is_in_it_alone() -> None:
    lost = [("data", "a", "b"), ("data", "a.b"), ("data", "list", 0, "x"), ("data", "list", 10)]
    assert [*not_ignored(lost, ["data.a", "data.list[0]"])] == [lost[1], lost[3]]
