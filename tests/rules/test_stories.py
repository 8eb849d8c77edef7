"""The stories that edits are made to have every kind of the product."""

from __future__ import annotations

import pytest

from tests.rules.fleet_scene import FLEET_KINDS
from tests.rules.full_story import KINDS
from tests.rules.harness import crds

WITHOUT_OBJECTS = "ChangeFreeze"
"""A kind that makes no object and carries no mark of its manager: tests of freezes edit it."""


@pytest.mark.criterion("H-R3")
def test_every_kind_of_the_product_is_in_a_story() -> None:
    assert {*KINDS, *FLEET_KINDS, WITHOUT_OBJECTS} == set(crds())
