"""A user's controller, as mypy --strict sees it: never run, only checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_type

from ctrlruntime import (
    BUILTIN,
    Builder,
    Cache,
    CachedClient,
    Client,
    Entry,
    Event,
    GroupVersionKind,
    Manager,
    Manifest,
    Owner,
    Reconciler,
    Request,
    as_reconciler,
    enqueue_map_func,
    predicates,
)
from ctrlruntime.envtest.eventually import eventually
from tests.typing.user_kind import Plain, Website

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


async def reads(client: Client, cached: CachedClient, cache: Cache) -> None:
    assert_type(await client.get(Website, "a", namespace="b"), Website)
    assert_type(await client.get(CONFIG_MAP, "a", namespace="b"), Manifest)
    assert_type(await cached.get(Website, "a", namespace="b"), Website)
    assert_type(await client.list(Website, "b"), list[Website])
    assert_type(cache.get(Website, "a", namespace="b"), Website | None)
    assert_type(cache.entry(Website, "a", namespace="b"), Entry[Website] | None)
    assert_type(cache.entries(Website), list[Entry[Website]])
    assert_type(cache.entries(CONFIG_MAP), list[Entry[Any]])
    assert_type(await eventually(client, Website, "a", namespace="b"), Website)
    client.get(Website, "a", "b")  # type: ignore[call-overload]


async def writes(client: Client, site: Website) -> None:
    assert_type(await client.create(site), Website)
    assert_type(await client.apply(site), Website)
    assert_type(await client.patch(Website, "a", {}, namespace="b"), Website)
    assert_type(await client.patch_status(Website, "a", {}, namespace="b"), Website)
    assert_type(await client.patch_status(CONFIG_MAP, "a", {}, namespace="b"), Manifest)
    assert_type(Owner.of(site), Owner)
    Owner.of(site).name = "another"  # type: ignore[misc]  # read-only: nothing refuses it at run time


def is_large(entry: Entry[Website]) -> bool:
    return entry.typed(Website).spec.replicas > 3


def images(entry: Entry[Website]) -> Iterable[str]:
    return [entry.typed(Website).spec.image]


def of_website(entry: Entry[Website]) -> list[Request]:
    return [Request(entry.name, namespace=entry.namespace)]


async def found_by_query(entry: Entry[Website]) -> list[Request]:
    return [Request(entry.name)]


def row_of(entry: Entry[Website]) -> list[int]:
    return [len(entry.name)]


async def reconcile_site(site: Website) -> None:
    assert_type(site.spec.replicas, int)


async def reconcile_row(row: int) -> None: ...


async def reconcile(request: Request) -> None: ...


def grew(event: Event[Website]) -> bool:
    entry = predicates.entry_of(event)
    assert_type(entry, Entry[Website] | None)
    return entry is not None and is_large(entry)


def setup(manager: Manager) -> None:
    builder = Builder(manager)
    builder.for_(Website, predicates=[grew, predicates.of_entry(is_large)], indexes={"i": images})
    builder.watches(Website, enqueue_map_func(of_website), predicates=[predicates.label_changed])
    builder.watches(CONFIG_MAP, enqueue_map_func(lambda entry: [Request(entry.name)]))
    builder.watches(Plain, enqueue_map_func(of_website))  # type: ignore[arg-type]
    builder.owns(Plain, predicates=[grew])  # type: ignore[list-item]
    builder.owns(Plain, indexes={"i": images})  # type: ignore[dict-item]
    manager.cache.declare(Plain, indexes={"i": images})  # type: ignore[dict-item]
    builder.watches(Website, enqueue_map_func(found_by_query), labels={"a": "b"}, fields="x=y")
    assert_type(as_reconciler(manager.client, Website, reconcile_site), Reconciler[Request])
    as_reconciler(manager.client, Plain, reconcile_site)  # type: ignore[arg-type]
    builder.build(as_reconciler(manager.client, Website, reconcile_site))
    rows = Builder[int](manager).watches(Website, enqueue_map_func(row_of))
    rows.build(reconcile_row)
    rows.build(reconcile)  # type: ignore[arg-type]
    rows.watches(Website, enqueue_map_func(of_website))  # type: ignore[arg-type]
    rows.for_(Website)  # type: ignore[misc]
