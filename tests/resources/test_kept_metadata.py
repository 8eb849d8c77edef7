"""Labels and annotations of objects that are made once come back, whoever changed them and how often."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.resources.kept_metadata import KeptMetadata, lost_metadata

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
MANIFEST = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "made-once",
        "namespace": "default",
        "labels": {"app": "chain"},
        "annotations": {"height": "7"},
    },
}


def entry_of(labels: dict[str, str], owned: list[str], uid: str = "u") -> Entry:
    """An object with labels, some of which our manager owns."""
    labelled: dict[str, Any] = {f"f:{key}": {} for key in owned}
    fields = {"f:metadata": {"f:labels": labelled}}
    managed = {"manager": "me", "operation": "Apply", "fieldsV1": fields}
    metadata = {"name": "a", "uid": uid, "labels": labels, "managedFields": [managed]}
    decoder = EntryDecoder(CONFIG_MAP.gvk, track_manager="me")
    return decoder.decode(orjson.dumps({"metadata": metadata}))


def test_what_others_removed_or_changed_is_lost_with_its_former_value() -> None:
    old = entry_of({"a": "1", "b": "2", "c": "3"}, ["a", "b"])
    assert lost_metadata(old, entry_of({"b": "9"}, [])) == {"labels": {"a": "1", "b": "2"}}


def test_what_we_changed_is_not_lost_nor_that_of_another_object() -> None:
    old = entry_of({"a": "1"}, ["a"])
    assert lost_metadata(old, entry_of({"a": "2"}, ["a"])) == {}
    assert lost_metadata(old, entry_of({}, [], uid="another")) == {}


def test_a_manager_that_owns_the_same_value_as_well_loses_us_nothing() -> None:
    assert lost_metadata(entry_of({"a": "1"}, ["a"]), entry_of({"a": "1"}, [])) == {}


@pytest.mark.criterion("H-R3")
async def test_edits_are_put_back_each_time() -> None:
    async with Environment() as env, Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        informer = cache.declare(CONFIG_MAP, track_manager="manager").informer
        kept = KeptMetadata(cache.client(), CONFIG_MAP, field_manager="manager")
        informer.add_handler(kept.observe)
        await cache.start()
        await cache.wait_synced(60.0)
        await cache.client().apply(MANIFEST, kind=CONFIG_MAP, field_manager="manager")

        async def edit(**metadata: object) -> None:
            await env.client("admin").patch(
                CONFIG_MAP,
                "made-once",
                {"metadata": metadata},
                namespace="default",
                type=PatchType.MERGE,
                field_manager="kubectl-edit",
            )

        async def is_whole() -> bool:
            entry = informer.store.get("made-once", namespace="default")
            if entry is not None:
                await kept.restore(entry)
            live: Any = await env.client("admin").get(CONFIG_MAP, "made-once", namespace="default")
            found = {key: live["metadata"].get(key) for key in ("labels", "annotations")}
            return found == {key: MANIFEST["metadata"][key] for key in found}  # type: ignore[index]

        for edited in ({"labels": {"app": None}}, {"labels": {"app": "x"}}) * 2:
            await edit(**edited, annotations={"height": "9000000000"})
            assert await eventually_holds(is_whole, timeout=60.0)
        await cache.stop()
