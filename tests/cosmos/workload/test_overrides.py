"""What is different about one instance, and checksums of what its Pod reads."""

import copy
from typing import Unpack

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.pod_builder import Override, override_pod
from internal.cosmos.workload.checksums import (
    CONFIG_CHECKSUM,
    checksum_in_effect,
    checksummed,
    combined,
    content_checksum,
    with_checksum,
)
from tests.resources.ordinal_factories import OWNER, DesiredSettings, differences, existing, pod

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


class TestOverrides:
    def test_an_image_of_the_main_container_and_where_it_runs(self) -> None:
        given = pod(0).manifest
        given["spec"]["containers"].append({"name": "sidecar", "image": "side:1"})
        given["spec"]["nodeSelector"] = {"disk": "fast"}
        before = copy.deepcopy(given)
        made = override_pod(
            given, Override(image="app:9", node_selector={"zone": "a"}), container="app"
        )
        images = {each["name"]: each["image"] for each in made["spec"]["containers"]}
        assert images == {"app": "app:9", "sidecar": "side:1"}
        assert made["spec"]["nodeSelector"] == {"zone": "a"}
        assert given == before
        assert override_pod(given, Override(), container="app") == given
        assert override_pod(given, None, container="app") == given

    def test_a_container_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="'set-0' has no container 'main'"):
            override_pod(pod(0).manifest, Override(image="app:9"), container="main")


def config(text: str, **settings: Unpack[DesiredSettings]) -> Desired:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "set-0", "namespace": "default"},
        "data": {"config.toml": text},
    }
    return checksummed(Desired(mapping=CONFIG_MAP, manifest=manifest, **settings))


class TestChecksums:
    def test_are_of_what_is_held_and_of_nothing_else(self) -> None:
        one = {"data": {"a": "1", "b": "2"}, "metadata": {"labels": {"l": "1"}}}
        assert content_checksum(one) == content_checksum({"data": {"b": "2", "a": "1"}})
        assert content_checksum(one) != content_checksum({"data": {"a": "1", "b": "3"}})
        assert content_checksum({"data": {"a": "MQ=="}}) == content_checksum(
            {"stringData": {"a": "1"}}
        )
        assert content_checksum({"binaryData": {"a": "MQ=="}}) != content_checksum(
            {"data": {"a": "MQ=="}}
        )

    def test_stand_on_the_object_and_on_the_pod(self) -> None:
        wanted = config("a = 1")
        recorded = wanted.body(OWNER)["metadata"]["annotations"][CONFIG_CHECKSUM]
        assert recorded == content_checksum(wanted.manifest) == checksum_in_effect(wanted, None)
        made = with_checksum(pod(0).manifest, recorded)
        assert made["metadata"]["annotations"] == {CONFIG_CHECKSUM: recorded}
        assert "annotations" not in pod(0).manifest["metadata"]

    @pytest.mark.criterion("COSMOS-A2-8")
    def test_of_a_changed_configuration_roll_the_pod(self) -> None:
        before, after = config("a = 1"), config("a = 2")
        there = existing(before)
        checksum = checksum_in_effect(after, there)
        assert checksum == content_checksum(after.manifest)
        old = with_checksum(pod(0).manifest, checksum_in_effect(before, there))
        rolled = Desired(mapping=pod(0).mapping, manifest=with_checksum(old, checksum), instance=0)
        current = existing(Desired(mapping=pod(0).mapping, manifest=old, instance=0))
        assert len(differences([rolled], [current]).updates) == 1

    @pytest.mark.criterion("builder-change-held")
    def test_of_a_configuration_that_is_held_back_stay(self) -> None:
        before, after = config("a = 1", inputs="same"), config("a = 2", inputs="same")
        there = existing(before)
        assert differences([after], [there]).held
        assert checksum_in_effect(after, there) == content_checksum(before.manifest)
        followed = config("a = 2", inputs="same", roll_on_builder_change=True)
        assert checksum_in_effect(followed, there) == content_checksum(after.manifest)

    def test_of_what_is_written_only_once_stay(self) -> None:
        before, after = config("a = 1"), config("a = 2", once=True)
        assert checksum_in_effect(after, existing(before)) == content_checksum(before.manifest)
        going = existing(before, deletionTimestamp="2026-01-01T00:00:00Z")
        assert checksum_in_effect(after, going) == content_checksum(after.manifest)

    def test_are_known_from_metadata_alone(self) -> None:
        before = config("a = 1", inputs="same")
        decoder = EntryDecoder(CONFIG_MAP.gvk, metadata_only=True)
        there = decoder.decode_manifest(before.body(OWNER))
        held = config("a = 2", inputs="same")
        assert checksum_in_effect(held, there) == content_checksum(before.manifest)

    def test_of_several_are_one(self) -> None:
        assert combined(["a", "b"]) == combined(iter(["a", "b"]))
        assert len({combined(["a", "b"]), combined(["b", "a"]), combined(["ab"])}) == 3

    def test_leave_a_revision_that_was_given(self) -> None:
        manifest = config("a = 1").manifest
        assert (
            checksummed(Desired(mapping=CONFIG_MAP, manifest=manifest, revision="v7")).revision
            == "v7"
        )
