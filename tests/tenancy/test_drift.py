"""Whatever others do to a tenant's objects is undone within two seconds, and costs one write.

Nothing here waits for a timer: the manager acts on the watch event of the foreign write.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from _pytest.mark import ParameterSet

from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import Conflict
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.envtest.proxy.requests import WRITES
from tests.tenancy.drift_matrix import (
    CASES,
    WIDGET_CRD,
    WITH_STRATEGIES,
    Case,
    Manifest,
    Operations,
    template_lists,
)
from tests.tenancy.harness import NAMESPACE_KIND, PATIENCE, TenancyHarness

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.criterion("drift"),
    pytest.mark.xdist_group("drift of tenancy"),
]

EVERY_CASE = (*CASES, *WITH_STRATEGIES)
ELSEWHERE = "elsewhere"
OURS = ("ctrlruntime.dev/", "tenancy.ctrlruntime.dev/")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """One tenant with a resource in each of the sixteen lists, all there and at rest."""
    folder = tmp_path_factory.mktemp("drift")
    async with TenancyHarness.start(folder, nodes=True, pods=False) as harness:
        await harness.environment.install_crds(WIDGET_CRD)
        await harness.make_namespace(harness.place(ELSEWHERE))
        harness.rows("a")
        await harness.registry()
        await harness.template("all", **template_lists(EVERY_CASE, harness.place(ELSEWHERE)))
        await harness.ready("a-all")
        await harness.idle()
        yield harness


def namespace_of(harness: TenancyHarness, case: Case) -> str:
    """Where a case's object is."""
    return harness.place(ELSEWHERE) if case.elsewhere else harness.namespace


@dataclass(slots=True)
class Foreigner:
    """Somebody else, who edits one object as kubectl and other operators would."""

    harness: TenancyHarness
    case: Case
    tracked: Mapping[str, Any]
    undone: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return namespace_of(self.harness, self.case)

    async def live(self) -> Manifest | None:
        return await self.harness.get(self.case.kind, self.case.name, namespace=self.namespace)

    async def seen(self) -> Manifest:
        live = await self.live()
        assert live is not None
        return live

    # -- how others write ------------------------------------------------------------------

    async def edit(self, patch: Manifest) -> None:
        """`kubectl edit`, `label`, `annotate`: a merge patch."""
        await self._patch(patch, PatchType.MERGE, "kubectl-edit")

    async def operate(self, operations: Operations) -> None:
        """`kubectl patch --type=json`."""
        await self._patch(operations, PatchType.JSON, "kubectl-patch")

    async def _patch(self, patch: Manifest | Operations, type_: PatchType, manager: str) -> None:
        where = self.namespace if self.case.kind.namespaced else None
        while True:  # the server gives up when others keep writing in between
            with contextlib.suppress(Conflict):
                await self.harness.client.patch(
                    self.case.kind,
                    self.case.name,
                    patch,
                    namespace=where,
                    type=type_,
                    field_manager=manager,
                )
                return

    async def apply(self, patch: Manifest) -> None:
        """Another operator, which applies by force."""
        await self.harness.client.apply(
            _merged(self._identity(), patch), field_manager="other-operator", force=True
        )

    async def put(self, change: Callable[[Manifest], Any]) -> None:
        """A read, a change and an update of the whole, as many operators do."""
        while True:
            live = await self.seen()
            change(live)
            with contextlib.suppress(Conflict):
                await self.harness.client.update(live, field_manager="other-updater")
                return

    async def delete(self) -> None:
        """`kubectl delete`."""
        where = self.namespace if self.case.kind.namespaced else None
        await self.harness.client.delete(self.case.kind, self.case.name, namespace=where)

    async def is_gone(self, uid: str) -> bool:
        """Whether this very object has gone."""
        live = await self.live()
        return live is None or live["metadata"]["uid"] != uid

    def _identity(self) -> Manifest:
        metadata = {"name": self.case.name}
        if self.case.kind.namespaced:
            metadata["namespace"] = self.namespace
        gvk = self.case.kind.gvk
        return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}

    # -- what has to come of it --------------------------------------------------------------

    async def is_undone(self, what: str, edit: Awaitable[Any], *, leaving: bool = False) -> None:
        """The object is as the template has it again, soon; once it has left, if that takes a while."""
        old = await self.seen()
        await edit
        if leaving:
            gone = functools.partial(self.is_gone, old["metadata"]["uid"])
            await self.harness.eventually(gone)
        seen: Manifest | None = None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            seen = await self.live()
            if seen is not None and self._is_as_desired(seen) and _changed(old, seen):
                self.undone.append(what)
                return
            await asyncio.sleep(0.005)
        tenant = await self.harness.tenant("a-all")
        conditions = [] if tenant is None else [c.message for c in tenant.status.conditions]
        raise AssertionError(
            f"{self.case.id}: {what} was not undone within {PATIENCE:g} s\n{conditions}\n{seen}"
        )

    def _is_as_desired(self, live: Manifest) -> bool:
        if "deletionTimestamp" in live["metadata"]:
            return False
        desired = _merged(self.case.desired(), {"metadata": dict(self.tracked)})
        texts = desired.pop("stringData", None)
        return _holds(desired, live) and _holds(_encoded(texts or {}), live.get("data") or {})


def _encoded(texts: Mapping[str, str]) -> dict[str, str]:
    """`stringData` as the server keeps it."""
    return {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}


def _merged(into: Manifest, patch: Mapping[str, Any]) -> Manifest:
    made = dict(into)
    for key, value in patch.items():
        before = made.get(key)
        mergeable = isinstance(value, Mapping) and isinstance(before, Mapping)
        made[key] = _merged(dict(before), value) if mergeable else value  # type: ignore[arg-type]
    return made


def _holds(desired: object, live: object) -> bool:
    """Whether every field of `desired` is in `live`; the server may have added others."""
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            key in live and _holds(value, live[key]) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) >= len(desired)
            and all(_holds(item, live[place]) for place, item in enumerate(desired))
        )
    return bool(desired == live) or (desired, live) == ("1000m", "1")  # as the server writes it


def _changed(old: Manifest, new: Manifest) -> bool:
    """Two writes later, at least, or another object: the foreign write is not just still to come."""
    return bool(old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"])


def _tracking(live: Manifest) -> dict[str, Any]:
    """What we put on an object besides the template's content."""
    metadata = live["metadata"]
    tracked = {
        name: {key: value for key, value in metadata[name].items() if key.startswith(OURS)}
        for name in ("annotations", "labels")
    }
    references = metadata.get("ownerReferences")
    return tracked | ({"ownerReferences": references} if references else {})


async def _foreigner(harness: TenancyHarness, case: Case) -> Foreigner:
    live = await harness.get(case.kind, case.name, namespace=namespace_of(harness, case))
    assert live is not None
    return Foreigner(harness, case, _tracking(live))


def _writes(harness: TenancyHarness, mark: Mark) -> list[str]:
    """Every write of the manager since then, but for its own statuses and events.

    Without those the server refused because the object was a newer one: simulated nodes write too.
    """
    return [
        f"{entry.verb} {entry.resource} {entry.namespace}/{entry.name} {entry.code}"
        for entry in harness.environment.proxy.log.entries(mark)
        if entry.user == "manager"
        and entry.verb in WRITES
        and entry.code != 409
        and not entry.resource.startswith(("leases", "events"))
        and not entry.resource.endswith("/status")
    ]


async def _costs(harness: TenancyHarness, mark: Mark, foreigner: Foreigner) -> None:
    """At rest; and each edit that had to be undone was undone by one write."""
    await harness.idle()
    writes = _writes(harness, mark)
    undone = foreigner.undone
    assert len(writes) == len(undone), f"{undone}\n" + "\n".join(writes)
    assert all(f"/{foreigner.case.name} " in write for write in writes)


def param(case: Case) -> ParameterSet:
    """A case for a test."""
    marks = [pytest.mark.matrix] if case.matrix else []
    return pytest.param(case, id=case.id, marks=marks)


each_kind_and_strategy = pytest.mark.parametrize("case", [param(case) for case in EVERY_CASE])


@each_kind_and_strategy
@pytest.mark.criterion("FAULT-B8", "FAULT-B19")
async def test_a_changed_value_a_removed_field_and_an_edited_item_are_put_back(
    harness: TenancyHarness, case: Case
) -> None:
    other, mark = await _foreigner(harness, case), harness.mark()
    if case.value is not None:
        value = case.value
        await other.is_undone("value edited", other.edit(value))
        await other.is_undone("value applied by force", other.apply(value))
        put = other.put(lambda live: live.update(_merged(live, value)))
        await other.is_undone("value updated", put)
    if case.removed:
        operations = [{"op": "remove", "path": case.removed}]
        await other.is_undone("field removed", other.operate(operations))
    if case.item is not None:
        path, changed = case.item
        operations = [{"op": "replace", "path": path, "value": changed}]
        await other.is_undone("list item edited", other.operate(operations))
    await _costs(harness, mark, other)


@each_kind_and_strategy
@pytest.mark.criterion("FAULT-B19")
async def test_changed_and_removed_labels_and_annotations_are_put_back(
    harness: TenancyHarness, case: Case
) -> None:
    other, mark = await _foreigner(harness, case), harness.mark()
    edits: dict[str, Manifest] = {
        "label changed": {"labels": {"team": "evil"}},
        "label removed": {"labels": {"team": None}},
        "all labels removed": {"labels": None},
        "annotation changed": {"annotations": {"example.com/note": "evil"}},
        "annotation removed": {"annotations": {"example.com/note": None}},
    }
    for name in other.tracked["labels"]:
        edits[f"our label {name} changed"] = {"labels": {name: "evil"}}
        edits[f"our label {name} removed"] = {"labels": {name: None}}
    for what, metadata in edits.items():
        await other.is_undone(what, other.edit({"metadata": metadata}))
    await _costs(harness, mark, other)


@each_kind_and_strategy
async def test_our_own_annotations_and_references_are_put_back(
    harness: TenancyHarness, case: Case
) -> None:
    other, mark = await _foreigner(harness, case), harness.mark()
    for name in other.tracked["annotations"]:
        for what, value in (("changed", "evil"), ("removed", None)):
            edit = other.edit({"metadata": {"annotations": {name: value}}})
            await other.is_undone(f"our annotation {name} {what}", edit)
    if "ownerReferences" in other.tracked:
        edit = other.edit({"metadata": {"ownerReferences": None}})
        await other.is_undone("owner reference removed", edit)
    await _costs(harness, mark, other)


@pytest.mark.parametrize("case", [param(case) for case in EVERY_CASE if case.value is not None])
async def test_a_file_put_over_an_object_leaves_nothing_of_ours_and_is_undone(
    harness: TenancyHarness, case: Case
) -> None:
    """`kubectl replace -f`: no annotation, label or reference of ours, and another value."""
    assert case.value is not None
    other, mark, value = await _foreigner(harness, case), harness.mark(), case.value

    def as_in_a_file(live: Manifest) -> None:
        live.update(_merged(live, value))
        for name in ("annotations", "labels", "ownerReferences"):
            live["metadata"].pop(name, None)

    await other.is_undone("file put over it", other.put(as_in_a_file))
    await _costs(harness, mark, other)


@each_kind_and_strategy
async def test_wiped_managed_fields_are_taken_up_again(harness: TenancyHarness, case: Case) -> None:
    other, mark = await _foreigner(harness, case), harness.mark()
    wiped: Manifest = {"metadata": {"managedFields": [{}]}}

    async def recorded() -> bool:
        return bool((await other.seen())["metadata"].get("managedFields"))

    await other.edit(wiped)
    if not case.options.get("patchStrategy"):
        await harness.eventually(recorded)
    if case.value is not None:
        value = case.value
        await other.is_undone("wiped and edited", other.edit(_merged(wiped, value)))
        await other.is_undone("edited afterwards", other.edit(value))
    edit = other.edit({"metadata": {"labels": {"team": "evil"}}})
    await other.is_undone("label edited afterwards", edit)
    # At most three each: the write, the record of its fields, the end of the server's stand-in.
    await harness.idle()
    assert len(_writes(harness, mark)) <= 3 * (len(other.undone) + 1)


@each_kind_and_strategy
async def test_a_deleted_object_comes_back(harness: TenancyHarness, case: Case) -> None:
    other = await _foreigner(harness, case)
    uid = (await other.seen())["metadata"]["uid"]
    # What is in a namespace goes first, and a server takes its time over that.
    await other.is_undone("deleted", other.delete(), leaving=case.kind == NAMESPACE_KIND)
    assert (await other.seen())["metadata"]["uid"] != uid
    await harness.ready("a-all")


async def test_what_others_add_stays_and_causes_no_write(harness: TenancyHarness) -> None:
    others = [await _foreigner(harness, case) for case in EVERY_CASE]
    metadata = {"labels": {"foreign": "x"}, "annotations": {"foreign": "x"}}
    await harness.idle()
    mark = harness.mark()
    for other in others:
        await other.edit({"metadata": metadata, **(other.case.foreign or {})})
    await harness.idle()
    assert _writes(harness, mark) == []
    for other in others:
        assert _holds({"metadata": metadata, **(other.case.foreign or {})}, await other.seen())
