"""What counts as input, and the names that follow from it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.cloud import InstanceTerraform, TaskOperation
from internal.cloud.labels import CLOUDSQL_MODE, CONTROL, ENABLE_CMEK
from internal.cloud.taskdriver.inputs import inputs_of
from internal.cloud.taskdriver.record import Identity, covers, slot_at

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def terraform(
    spec: dict[str, Any] | None = None, generation: int = 4, **metadata: object
) -> InstanceTerraform:
    given = {"name": "acme", "namespace": "default", "generation": generation, **metadata}
    return InstanceTerraform.from_manifest({"metadata": given, "spec": spec or {}})


@pytest.mark.criterion("SG-21")
def test_the_version_is_generation_and_a_hash_of_the_annotations() -> None:
    plain = inputs_of(terraform()).version
    assert re.fullmatch(r"4-[0-9a-f]{40}", plain)
    assert inputs_of(terraform(generation=5)).version != plain
    assert inputs_of(terraform(annotations={CLOUDSQL_MODE: "blueOnly"})).version != plain
    labelled = terraform(labels={"instance-type": "trial"})
    labelled.status.message = "something else"
    assert inputs_of(labelled).version == plain


@pytest.mark.criterion("SG-22")
@given(
    st.dictionaries(
        st.sampled_from([CLOUDSQL_MODE, ENABLE_CMEK, "example.com/a", "b"]), st.text(max_size=3)
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_annotations_does_not_count(
    annotations: dict[str, str], random: Random
) -> None:
    items = list(annotations.items())
    random.shuffle(items)
    assert inputs_of(terraform(annotations=dict(items))) == inputs_of(
        terraform(annotations=annotations)
    )


@pytest.mark.criterion("SG-22")
@pytest.mark.parametrize(
    "key",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/revision",
        "kubernetes.io/description",
        "apps.k8s.io/x",
        "argocd.argoproj.io/tracking-id",
        "meta.helm.sh/release-name",
        "ctrlruntime.dev/revision",
        *sorted(CONTROL),
    ],
)
def test_annotations_of_tools_and_of_controllers_do_not_count(key: str) -> None:
    assert inputs_of(terraform(annotations={key: "x"})) == inputs_of(terraform())


@pytest.mark.parametrize("key", ["mykubernetes.io/x", "example.com/kubernetes.io", "plain"])
def test_other_annotations_count(key: str) -> None:
    assert inputs_of(terraform(annotations={key: "x"})) != inputs_of(terraform())


def test_the_hash_names_content_whatever_the_generation_and_the_defaults() -> None:
    spec = {"domain": "acme.example.com"}
    hashed = inputs_of(terraform(spec)).hash
    assert inputs_of(terraform({**spec, "tfcRunsMode": "cli"}, generation=9)).hash == hashed
    assert inputs_of(terraform({"domain": "other.example.com"})).hash != hashed
    assert inputs_of(terraform(spec, annotations={ENABLE_CMEK: "true"})).hash != hashed


IDENTITY = Identity(
    owner_uid="u", operation=TaskOperation.APPLY, inputs_version="1-a", attempt=1, slot=""
)


@pytest.mark.criterion("SG-20")
def test_a_run_id_follows_from_all_of_the_identity_and_nothing_else() -> None:
    run_id = IDENTITY.run_id("terraform")
    assert re.fullmatch(r"terraform-[0-9a-f]{12}", run_id)
    assert replace(IDENTITY).run_id("terraform") == run_id
    others = [
        replace(IDENTITY, owner_uid="v"),
        replace(IDENTITY, operation=TaskOperation.TEARDOWN),
        replace(IDENTITY, inputs_version="2-a"),
        replace(IDENTITY, attempt=2),
        replace(IDENTITY, slot="2026-03-01T12:00:00Z"),
    ]
    assert len({run_id, *(other.run_id("terraform") for other in others)}) == 6


@given(
    st.integers(0, 10_000_000), st.integers(1, 200_000), st.uuids().map(str), st.floats(0, 0.999)
)
def test_slots_follow_one_another_without_gap(
    seconds: int, period: int, uid: str, part: float
) -> None:
    now = NOON + timedelta(seconds=seconds)
    slot = slot_at(now, period, uid)
    start = slot.end - timedelta(seconds=period)
    assert start <= now < slot.end
    assert slot_at(start + timedelta(seconds=part * period), period, uid) == slot
    following = slot_at(slot.end, period, uid)
    assert following.end - slot.end == timedelta(seconds=period)
    assert following.name > slot.name
    assert covers(slot.name, slot)
    assert not covers(slot.name, following)
    assert not covers(following.name, slot), "a slot of the future is nonsense"


def test_a_fleet_does_not_run_at_once() -> None:
    ends = [slot_at(NOON, 3600, f"uid-{number}").end for number in range(600)]
    minutes = Counter((end - NOON) // timedelta(minutes=1) for end in ends)
    assert max(minutes.values()) < 40


@pytest.mark.parametrize("nonsense", ["", "yesterday", "2026-03-01", "zzzz"])
def test_nonsense_covers_no_slot(nonsense: str) -> None:
    assert not covers(nonsense, slot_at(NOON, 60, "u"))
