"""A wrong name is compared with as many others as a turn of the loop allows, however many and however alike (S-F3)."""

from __future__ import annotations

import time

import pytest

from apis.tenancy import TenantRegistry
from internal.tenancy.objects.graph import MOST_RESOURCES, Graph, GraphError
from internal.tenancy.rows.mapped_columns import unknown_columns
from internal.tenancy.shared.similar_names import similar_name

pytestmark = pytest.mark.criterion("S-F3")
ALIKE = {
    "2,000 of 195 characters": ("a" * 195, [f"{'a' * 150}{n:05}{'a' * 40}" for n in range(2_000)]),
    "2,000 of 64 characters": ("a" * 64, [f"{'a' * 40}{n:05}{'a' * 19}" for n in range(2_000)]),
    "20,000": ("name_x", [f"name_{n}" for n in range(20_000)]),
    "one of 1 MB": ("name_x", ["name_" * 200_000]),
}
LONGEST = 0.2
"""Seconds of the processor: forty times what a comparison takes, and a hundredth of what these took."""


@pytest.mark.parametrize("names", ALIKE)
def test_a_search_among_names_that_are_alike_is_bounded(names: str) -> None:
    wrong, known = ALIKE[names]
    began = time.thread_time()
    similar_name(wrong, known)
    assert time.thread_time() - began < LONGEST


def test_a_table_and_a_template_of_such_names_are_checked_in_a_turn() -> None:
    alike = [f"{'a' * 40}{n:05}{'a' * 18}" for n in range(MOST_RESOURCES)]
    spec = {"valueMappings": {"uid": "id", "activate": "on"}, "extraValueMappings": {}}
    spec["extraValueMappings"] = {f"v{n}": f"{'a' * 60}{n}" for n in range(10)}
    registry = TenantRegistry.model_validate({"spec": {"source": {"type": "sqlite"}, **spec}})
    resources = [(each, ["a" * 63]) for each in alike]
    began = time.thread_time()
    assert len(list(unknown_columns(registry, alike[:100]))) == 12
    with pytest.raises(GraphError) as caught:
        Graph.build(resources)
    assert len(caught.value.problems) == MOST_RESOURCES
    assert time.thread_time() - began < 2 * LONGEST


def test_the_name_that_is_meant_is_found_among_many() -> None:
    assert similar_name("plnId", ["region", "planId", "x" * 100]) == "planId"
    assert similar_name("plnId", ["region"]) is None
    assert similar_name("x" * 100, ["x" * 100]) is None
