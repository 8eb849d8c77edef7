"""Owners in another cluster: their key, and that no owner reference names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.cache.options import KindCacheOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.resources import (
    OWNER,
    OWNER_UID,
    Desired,
    Owner,
    OwnerKey,
    Ownership,
    check_ownership,
)

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
OWNED = Owner(gvk=GroupVersionKind("g", "v1", "Tenant"), namespace="n", name="a", uid="u1")
ABROAD = replace(OWNED, cluster="plane-1")


def desired(*, reference: bool) -> Desired:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "n"},
    }
    return Desired(mapping=CONFIG_MAP, manifest=manifest, reference=reference)


def test_the_key_of_an_owner_names_its_cluster_if_that_is_another() -> None:
    assert OWNED.key == "Tenant.g/n/a"
    assert ABROAD.key == "Tenant.g/n/a@plane-1"
    body = desired(reference=False).body(ABROAD)
    assert body["metadata"]["annotations"][OWNER] == ABROAD.key
    assert body["metadata"]["annotations"][OWNER_UID] == "u1"
    assert "ownerReferences" not in body["metadata"]


def test_an_owner_reference_across_clusters_raises() -> None:
    assert desired(reference=True).body(OWNED)["metadata"]["ownerReferences"]
    with pytest.raises(ValueError, match="another cluster"):
        desired(reference=True).body(ABROAD)


@pytest.mark.parametrize("owner", [OWNED, ABROAD, replace(ABROAD, namespace="")])
def test_a_key_is_parsed_into_what_it_was_made_of(owner: Owner) -> None:
    found = OwnerKey.parse(owner.key)
    assert found is not None
    made = (found.kind, found.namespace, found.name, found.cluster)
    assert made == ("Tenant.g", owner.namespace, "a", owner.cluster)


@pytest.mark.parametrize("text", ["", "Tenant.g/n", "/n/a", "Tenant.g/n/", "a/b/c/d", "@plane-1"])
def test_any_other_text_is_no_key(text: str) -> None:
    assert OwnerKey.parse(text) is None


@pytest.mark.parametrize("cluster", ["", "plane-2"])
def test_the_same_key_of_another_cluster_is_another_owner(cluster: str) -> None:
    other = replace(OWNED, cluster=cluster, uid="u2")
    decoder = EntryDecoder(CONFIG_MAP.gvk)
    entry = decoder.decode_manifest(desired(reference=False).body(other))
    found = check_ownership(entry, ABROAD)
    assert (found.standing, found.holder) == (Ownership.FOREIGN, other.key)
    assert check_ownership(entry, replace(other, uid="u3")).standing is Ownership.ADOPTABLE


async def test_the_labels_of_a_cache_are_added_to_those_of_every_declaration() -> None:
    async with Client.connect(Config(host="http://127.0.0.1:1")) as client:
        cache = Cache(client, CacheOptions(labels="plane=1"))
        plain = cache.declare(CONFIG_MAP).informer
        own = cache.declare(CONFIG_MAP, labels={"app": "web"}).informer
        assert plain.selection.labels == "plane=1"
        assert own.selection.labels == "plane=1,app=web"
        assert not plain.selection.is_everything
        shared = CacheOptions(
            labels="plane=1", kinds={CONFIG_MAP.gvk: KindCacheOptions(unselected=True)}
        )
        assert Cache(client, shared).declare(CONFIG_MAP).informer.selection.labels == ""
        assert Cache(client).declare(CONFIG_MAP).informer.selection.labels == ""
