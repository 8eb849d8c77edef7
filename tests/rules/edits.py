"""Edits by hand of what our field managers wrote to objects' metadata, and how the product answers each.

    for edit in edits(manifest):
        answer = await carry_out(scene, edit)

An answer is a repair, or a sentence in a condition, a message of a status or an event that names the object.
"""

from __future__ import annotations

import asyncio
import copy
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import Conflict, Invalid
from ctrlruntime.json import Json
from internal.cosmos.labels import CREATED_BY
from internal.tenancy.shared.policies import CREATED_ONCE

OURS: Final = frozenset(
    {"tenant-operator", "cloud-manager", "cosmos-manager", "fleet-operator", "manager"}
)
"""The field managers of the product."""
EVENTS: Final = GroupVersionKind("events.k8s.io", "v1", "Event")
GARBAGE: Final = "changed-by-hand"
WITHIN: Final = float(os.environ.get("EDITS_ANSWERED_WITHIN", "60"))
"""Seconds for an answer. On an idle machine ten are enough for each."""

SEED: Final = 20261123
"""Which edits the sample has, besides those of the label that caches select objects by."""
SAMPLE: Final = 40

Manifest = dict[str, Any]


class Scene(Protocol):
    """Objects that edits are made to, and what is reported of them."""

    @property
    def client(self) -> Client:
        """A client of the server that the objects are on."""
        ...

    async def objects(self) -> dict[str, Manifest]:
        """Return every object with what the product wrote, by a key."""
        ...

    async def custom_resources(self) -> list[Manifest]:
        """Return the objects whose statuses report."""
        ...

    def written(self) -> set[str]:
        """Return the resources that the product has written, as `plural` or `plural.group`, events aside."""
        ...


@dataclass(frozen=True, slots=True)
class Edit:
    """One item of one object's metadata, and what is done to it."""

    kind: GroupVersionKind
    namespace: str
    name: str
    field: str
    key: str
    """Of a label or annotation its name, of a finalizer itself, of an owner reference its UID."""
    removed: bool

    def __str__(self) -> str:
        what = "removed" if self.removed else "changed"
        return f"{self.kind.kind}/{self.namespace}/{self.name} {self.field}[{self.key}] {what}"

    def apply(self, metadata: Mapping[str, Any]) -> Json:
        """Return the field's new value."""
        value = copy.deepcopy(metadata.get(self.field))
        if isinstance(value, dict):
            return {**value, self.key: None if self.removed else GARBAGE}
        kept = [each for each in value or [] if _identity(each) != self.key]
        if self.removed:
            return kept
        (reference,) = (each for each in value or [] if _identity(each) == self.key)
        return [*kept, {**reference, "blockOwnerDeletion": not reference.get("blockOwnerDeletion")}]

    def holds(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
        """Whether the item is as it was."""
        return bool(_item(before, self.field, self.key) == _item(now, self.field, self.key))


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one edit."""

    edit: Edit
    repaired: bool = False
    reported: str = ""
    """The sentence that names the object."""
    refused: bool = False
    """The server does not let people do that."""
    deleted: bool = False

    @property
    def violation(self) -> str:
        """What is wrong; empty: nothing."""
        if self.deleted:
            return f"{self.edit}: deleted"
        answered = self.repaired or self.reported or self.refused
        return "" if answered else f"{self.edit}: neither repaired nor reported"

    def __str__(self) -> str:
        words = {"refused": self.refused, "deleted": self.deleted, "repaired": self.repaired}
        found = next((word for word, holds in words.items() if holds), "")
        return f"{self.edit}: {found or self.reported or 'SILENCE'}"


def edits(manifest: Manifest) -> Iterator[Edit]:
    """Return every edit of what our field managers wrote to an object's metadata."""
    metadata = manifest["metadata"]
    gvk = GroupVersionKind.parse(manifest["apiVersion"], manifest["kind"])
    place = (gvk, metadata.get("namespace", ""), metadata["name"])
    for field, key in sorted(written_by_us(metadata)):
        if _item(metadata, field, key) is None:
            continue
        yield Edit(*place, field, key, removed=True)
        if field != "finalizers":
            yield Edit(*place, field, key, removed=False)


def written_by_us(metadata: Mapping[str, Any]) -> set[tuple[str, str]]:
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


def is_the_users(edit: Edit, manifest: Manifest) -> bool:
    """Whether it is content of a resource that is applied once: from then on its labels are its user's, as its
    data are. What records the resource itself is ours."""
    once = CREATED_ONCE in (manifest["metadata"].get("annotations") or {})
    return once and edit.field != "ownerReferences" and "ctrlruntime.dev/" not in edit.key


async def carry_out(scene: Scene, edit: Edit) -> Answer:
    """Make one edit, wait for the answer, and put back what was not repaired."""
    before = await _metadata(scene, edit)
    known = await reports(scene)
    patch = {"metadata": {"uid": before["uid"], edit.field: edit.apply(before)}}
    try:
        await _patch(scene, edit, patch)
    except (Invalid, Conflict):
        return Answer(edit, refused=True)
    answer = await _answer(scene, edit, before, known)
    now = await _metadata(scene, edit)
    if now["uid"] != before["uid"] or "deletionTimestamp" in now:
        return Answer(edit, deleted=True)
    if not answer.repaired:  # so that the next edit finds what it expects
        await _patch(scene, edit, {"metadata": {edit.field: before[edit.field]}})
    return answer


async def carry_out_all(scene: Scene, *, full: bool) -> list[Answer]:
    """Make the edits, one after another. Assert that each is answered and that nothing is deleted."""
    objects = await scene.objects()
    assert await uncovered(scene, objects) == set()
    uids = {key: each["metadata"]["uid"] for key, each in objects.items()}
    chosen = [
        edit
        for _, manifest in sorted(objects.items())
        for edit in edits(manifest)
        if not is_the_users(edit, manifest)
    ]
    answers = []
    for edit in chosen if full else sample(chosen):
        answers.append(await carry_out(scene, edit))
        print(answers[-1], flush=True)
    print(summary(answers))
    now = {key: each["metadata"] for key, each in (await scene.objects()).items()}
    assert [each.violation for each in answers if each.violation] == []
    assert {key: now[key]["uid"] for key in uids if key in now} == uids
    assert [key for key, each in now.items() if "deletionTimestamp" in each] == []
    return answers


async def uncovered(scene: Scene, objects: Mapping[str, Manifest]) -> set[str]:
    """Return the resources that the product wrote and of which the scene has no object."""
    kinds = {GroupVersionKind.parse(each["apiVersion"], each["kind"]) for each in objects.values()}
    found = [await scene.client.mapper.resolve(kind) for kind in kinds]
    return scene.written() - {".".join(filter(None, (m.plural, m.gvk.group))) for m in found}


def sample(chosen: list[Edit]) -> list[Edit]:
    """Return some of the edits, and all of the label that caches select objects by."""
    others = [edit for edit in chosen if edit.key != CREATED_BY]
    picked = random.Random(SEED).sample(others, min(SAMPLE, len(others)))
    return [edit for edit in chosen if edit.key == CREATED_BY or edit in picked]


async def reports(scene: Scene) -> set[str]:
    """Return every sentence that the product shows: conditions, messages of statuses, events."""
    found = set()
    for each in await scene.custom_resources():
        found |= set(_sentences(each.get("status") or {}))
    for event in await scene.client.list(EVENTS):
        found.add(f"{event.get('reason')} {event.get('note')}")
    return found


def _sentences(status: Mapping[str, Any]) -> Iterator[str]:
    yield str(status.get("message", ""))
    yield str(status.get("status", ""))
    for each in status.get("conditions") or []:
        yield f"{each['type']} {each['status']} {each['message']}"
    for each in status.get("targetNamespaces") or []:
        yield f"{each['name']} {each['reason']} {each['message']}"


async def _answer(scene: Scene, edit: Edit, before: Mapping[str, Any], known: set[str]) -> Answer:
    loop = asyncio.get_running_loop()
    end = loop.time() + WITHIN
    while loop.time() < end:
        if edit.holds(before, await _metadata(scene, edit)):
            return Answer(edit, repaired=True)
        new = await reports(scene) - known
        sentence = next((each for each in sorted(new) if edit.name in each), "")
        if sentence:
            return Answer(edit, reported=sentence)
        await asyncio.sleep(0.05)
    return Answer(edit)


async def _metadata(scene: Scene, edit: Edit) -> dict[str, Any]:
    namespace = edit.namespace or None
    live: Any = await scene.client.get(edit.kind, edit.name, namespace=namespace)
    return dict(live["metadata"])


async def _patch(scene: Scene, edit: Edit, patch: Manifest) -> None:
    """Write as kubectl edit would."""
    await scene.client.patch(
        edit.kind,
        edit.name,
        patch,
        namespace=edit.namespace or None,
        type=PatchType.MERGE,
        field_manager="kubectl-edit",
    )


def summary(answers: Iterable[Answer]) -> str:
    """Return how many edits of each kind were repaired, reported, refused or neither."""
    counts: dict[str, Counter[str]] = {}
    for answer in answers:
        names = ("deleted", "refused", "repaired", "reported")
        word = next((name for name in names if getattr(answer, name)), "silence")
        counts.setdefault(answer.edit.kind.kind, Counter())[word] += 1
    lines = [f"{kind}: {count.total()} {dict(count)}" for kind, count in sorted(counts.items())]
    return "\n".join([*lines, f"in all: {sum(count.total() for count in counts.values())}"])


def _identity(item: object) -> str:
    return str(item["uid"]) if isinstance(item, dict) else str(item)


def _item(metadata: Mapping[str, Any], field: str, key: str) -> Json:
    value = metadata.get(field)
    if isinstance(value, dict):
        return value.get(key)
    return next((each for each in value or [] if _identity(each) == key), None)
