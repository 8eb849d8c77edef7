"""Rule 3 of the design: what people change by hand on our objects is repaired or reported, and nothing is deleted.

Every label, annotation, finalizer and owner reference that a field manager of ours wrote, on every object of a
story with every kind of the manager, is removed and then changed, one at a time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from internal.cosmos.labels import CREATED_BY
from tests.rules.edits import carry_out, carry_out_all, edits
from tests.rules.full_story import FullStory


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.criterion("H-R3")
async def test_edits_of_metadata_are_repaired_or_reported_and_delete_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    full = request.config.getoption("--rule-examples") >= 100
    async with FullStory.start(tmp_path, "team-a", "shop") as story:
        await story.harness.idle()
        answers = await carry_out_all(story, full=full)
        selected = [each for each in answers if each.edit.key == CREATED_BY]
        assert [str(each) for each in selected if not each.repaired] == []
        holding = await story.take_node_down()
        held = [await carry_out(story, edit) for edit in edits(holding)]
        assert [each.edit.field for each in held if each.repaired] == ["finalizers"]
