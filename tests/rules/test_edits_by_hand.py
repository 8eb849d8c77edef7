"""Rule 3 of the design: what people change by hand on our objects is repaired or reported, and nothing is deleted.

Every label, annotation, finalizer and owner reference that a field manager of ours wrote, on every object of a
story with all three systems, is removed and then changed, one at a time.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import Conflict, Invalid
from internal.cosmos.labels import CREATED_BY
from tests.rules.harness import LIMIT, Harness
from tests.rules.story import Story

OURS = frozenset({"tenant-operator", "cloud-manager", "cosmos-manager", "manager"})
"""The field managers of the product."""
EVENTS = GroupVersionKind("events.k8s.io", "v1", "Event")
GARBAGE = "changed-by-hand"
SEED = 20261123
"""Which edits the sample has, besides those of the label that caches select objects by."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One item of one object's metadata, and what is done to it."""

    kind: GroupVersionKind
    name: str
    field: str
    key: str
    """Of a label or annotation its name, of a finalizer itself, of an owner reference its UID."""
    removed: bool

    def __str__(self) -> str:
        what = "removed" if self.removed else "changed"
        return f"{self.kind.kind}/{self.name} {self.field}[{self.key}] {what}"

    def apply(self, metadata: dict[str, Any]) -> Any:
        """Return the field's new value."""
        value = copy.deepcopy(metadata.get(self.field))
        if isinstance(value, dict):
            return {**value, self.key: None if self.removed else GARBAGE}
        kept = [each for each in value or [] if _identity(each) != self.key]
        if self.removed or self.field != "ownerReferences":
            return kept
        (reference,) = (each for each in value or [] if _identity(each) == self.key)
        return [*kept, {**reference, "blockOwnerDeletion": not reference.get("blockOwnerDeletion")}]

    def holds(self, before: dict[str, Any], now: dict[str, Any]) -> bool:
        """Whether the item is as it was."""
        return bool(_item(before, self.field, self.key) == _item(now, self.field, self.key))


def _identity(item: Any) -> str:
    return str(item["uid"]) if isinstance(item, dict) else str(item)


def _item(metadata: dict[str, Any], field: str, key: str) -> Any:
    value = metadata.get(field)
    if isinstance(value, dict):
        return value.get(key)
    return next((each for each in value or [] if _identity(each) == key), None)


def edits(manifest: dict[str, Any]) -> Iterator[Edit]:
    """Return every edit of what our field managers wrote to an object's metadata."""
    metadata = manifest["metadata"]
    gvk = GroupVersionKind.parse(manifest["apiVersion"], manifest["kind"])
    for field, key in sorted(written_by_us(metadata)):
        if _item(metadata, field, key) is None:
            continue
        yield Edit(gvk, metadata["name"], field, key, removed=True)
        if field in ("labels", "annotations"):
            yield Edit(gvk, metadata["name"], field, key, removed=False)


def written_by_us(metadata: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the items of metadata that are in a managedFields entry of ours, as (field, key)."""
    found = set()
    for entry in metadata.get("managedFields", []):
        if entry["manager"] not in OURS or entry.get("subresource"):
            continue
        fields = entry["fieldsV1"].get("f:metadata", {})
        for field in ("labels", "annotations"):
            found |= {(field, key[2:]) for key in fields.get(f"f:{field}", {}) if key != "."}
        found |= {("finalizers", key[3:-1]) for key in fields.get("f:finalizers", {}) if key != "."}
        for key in fields.get("f:ownerReferences", {}):
            found |= {
                ("ownerReferences", each["uid"])
                for each in metadata.get("ownerReferences", [])
                if each["uid"] in key
            }
    return found


async def apply_edit(story: Story, edit: Edit, metadata: dict[str, Any]) -> None:
    """Make the change as kubectl edit would."""
    patch = {"metadata": {"uid": metadata["uid"], edit.field: edit.apply(metadata)}}
    await story.harness.client.patch(
        edit.kind,
        edit.name,
        patch,
        namespace=story.namespace,
        type=PatchType.MERGE,
        field_manager="kubectl-edit",
    )


async def reports(story: Story) -> set[str]:
    """Return every sentence that the product shows about the story: conditions, messages, events."""
    found = set()
    for each in await story.custom_resources():
        status = each.get("status") or {}
        found |= {str(status.get("message", "")), str(status.get("status", ""))}
        found |= {f"{c['type']} {c['status']} {c['message']}" for c in status.get("conditions", [])}
    for event in await story.harness.client.list(EVENTS, story.namespace):
        found.add(f"{event.get('reason')} {event.get('note')}")
    return found


async def answered(story: Story, edit: Edit, before: dict[str, Any], known: set[str]) -> str:
    """Wait until the edit is repaired or reported. Returns which; "" if neither happens."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LIMIT
    while loop.time() < end:
        live = await story.harness.client.get(edit.kind, edit.name, namespace=story.namespace)
        if edit.holds(before, live["metadata"]):
            return "repaired"
        new = await reports(story) - known
        if any(edit.name in sentence for sentence in new):
            return "reported"
        await asyncio.sleep(0.05)
    return ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.criterion("H-R3")
async def test_edits_of_metadata_are_repaired_or_reported_and_delete_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with Harness.start(tmp_path, nodes=True) as harness:
        story = Story(harness, "team-a", "shop")
        await story.begin()
        await story.complete()
        await harness.idle()
        objects = await story.objects()
        uids = {key: each["metadata"]["uid"] for key, each in objects.items()}
        chosen = [edit for key in sorted(objects) for edit in edits(objects[key])]
        if request.config.getoption("--rule-examples") < 100:
            others = [edit for edit in chosen if edit.key != CREATED_BY]
            picked = random.Random(SEED).sample(others, 40)
            chosen = [edit for edit in chosen if edit.key == CREATED_BY or edit in picked]
        problems = [await one_edit(story, edit) for edit in chosen]
        unanswered = [problem for problem in problems if problem]
        now = {key: each["metadata"] for key, each in (await story.objects()).items()}
        assert unanswered == []
        assert {key: now[key]["uid"] for key in uids} == uids
        assert [key for key, each in now.items() if "deletionTimestamp" in each] == []


async def one_edit(story: Story, edit: Edit) -> str:
    """Carry out one edit. Returns what is wrong with the answer."""
    client = story.harness.client
    live = dict(await client.get(edit.kind, edit.name, namespace=story.namespace))
    before = live["metadata"]
    known = await reports(story)
    try:
        await apply_edit(story, edit, before)
    except (Invalid, Conflict):
        return ""  # the server does not let people do that
    answer = await answered(story, edit, before, known)
    now = dict(await client.get(edit.kind, edit.name, namespace=story.namespace))["metadata"]
    if now["uid"] != before["uid"] or "deletionTimestamp" in now:
        return f"{edit}: deleted"
    if answer != "repaired":  # put back, so that the next edit finds what it expects
        value = {edit.field: before[edit.field]}
        await client.patch(edit.kind, edit.name, {"metadata": value}, namespace=story.namespace)
    if edit.key == CREATED_BY and answer != "repaired":
        return f"{edit}: not repaired"
    return "" if answer else f"{edit}: neither repaired nor reported"
