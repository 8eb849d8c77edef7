"""Rule 3 of the design, for the Jobs of runs and the Secrets with their input; see test_edits_by_hand.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ctrlruntime.client.client import Client
from internal.cloud.labels import RUN_ID
from manager.controllers.cloud_options import RunsOptions
from tests.rules.edits import Manifest, carry_out, edits
from tests.rules.harness import LIMIT, Harness
from tests.rules.manager_main import Parts
from tests.rules.story import Story
from tests.support.waiting import eventually

HANG = {"ctrlruntime.dev/simulate": "Hang"}
"""Annotation of Pods: their runs do not end."""


@dataclass(frozen=True, slots=True)
class RunScene:
    """An Instance whose run is under way."""

    story: Story

    @property
    def client(self) -> Client:
        return self.story.harness.client

    async def objects(self) -> dict[str, Manifest]:
        """Return the Job and the Secret of the run."""
        found = await self.story.objects()
        return {
            key: each
            for key, each in found.items()
            if each["kind"] != "Pod" and RUN_ID in (each["metadata"].get("labels") or {})
        }

    async def custom_resources(self) -> list[Manifest]:
        """Return the objects whose statuses report."""
        return await self.story.custom_resources()

    def written(self) -> set[str]:
        """Return nothing: other stories have the rest."""
        return set()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.criterion("H-R3")
async def test_edits_of_a_run_are_repaired_and_it_is_not_started_again(tmp_path: Path) -> None:
    runs = RunsOptions(provider="jobs", job_image="tasks:v1", job_annotations=HANG)
    async with Harness.start(tmp_path, nodes=True, parts=Parts(runs=runs)) as harness:
        scene = RunScene(Story(harness, "team-a", "shop"))
        await scene.story.begin()
        await eventually(scene.objects, lambda found: len(found) >= 2, timeout=LIMIT)
        await harness.idle()
        before = await scene.objects()
        answers = [
            await carry_out(scene, edit)
            for _, manifest in sorted(before.items())
            for edit in edits(manifest)
        ]
        assert len(answers) >= 20
        assert [str(each) for each in answers if not each.repaired] == []
        now = await scene.objects()
        uids = [[each["metadata"]["uid"] for each in found.values()] for found in (before, now)]
        assert uids[0] == uids[1]
