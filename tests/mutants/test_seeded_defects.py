"""Each defect is caught by a test marked with its ID."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants.defects import Defect, defects
from tests.mutants.runner import run_defect
from tests.mutants.tree import Tree

pytestmark = [pytest.mark.xdist_group("mutants")]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    with Tree(tmp_path_factory.mktemp("mutants")) as copy:
        yield copy


@pytest.mark.parametrize("defect", [pytest.param(d, id=d.key) for d in defects()])
def test_a_defect_is_caught(tree: Tree, defect: Defect) -> None:
    result = run_defect(tree, defect)
    assert result.caught, f"{result.verdict}: {result.test}\n{result.output}"
