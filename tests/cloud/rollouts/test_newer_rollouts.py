"""Which of several FleetRollouts is the newest."""

from __future__ import annotations

import pytest

from apis.cloud import FleetRollout
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.cloud.rollouts.members import newer_rollouts


def rollout(name: str, second: int, uid: str) -> Entry:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
    }
    gvk = FleetRollout.gvk()
    manifest = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, "spec": {}}
    return EntryDecoder(gvk).decode_manifest(manifest)


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_the_later_one_is_newer_and_in_one_second_the_later_by_name(uids: str) -> None:
    first, second, third = (
        rollout(name, at, uid)
        for (name, at), uid in zip((("z", 1), ("a", 2), ("b", 2)), uids, strict=True)
    )
    all_of_them = [third, first, second]
    assert [each.name for each in newer_rollouts(first, all_of_them)] == ["a", "b"]
    assert [each.name for each in newer_rollouts(second, all_of_them)] == ["b"]
    assert newer_rollouts(third, all_of_them) == []
