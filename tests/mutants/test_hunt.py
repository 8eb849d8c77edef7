"""Each defect is caught by the test marked with its ID."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants.defects import Defect, defects
from tests.mutants.runner import hunt
from tests.mutants.tree import Tree

pytestmark = [pytest.mark.xdist_group("mutants")]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    with Tree(tmp_path_factory.mktemp("mutants")) as copy:
        yield copy


@pytest.mark.parametrize("defect", [pytest.param(d, id=f"{d.id}: {d.says}") for d in defects()])
def test_a_defect_is_caught(tree: Tree, defect: Defect) -> None:
    fate = hunt(tree, defect)
    assert fate.caught, f"{fate.verdict}: {fate.test}\n{fate.output}"
