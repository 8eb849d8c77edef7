"""Whatever a set says: building it again makes the same, and leaves the set as it was."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Desired, canonical

from .golden import built
from .samples import NAMES, node_set, sample


def text_of(desired: list[Desired]) -> list[bytes]:
    return [canonical([item.manifest, item.inputs]) for item in desired]


NAME = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=70)
TEXT = st.text(max_size=20)


@st.composite
def sets(draw: st.DrawFn) -> CosmosFullNode:
    """Sets of all kinds, with what users may write freely."""
    changes: dict[str, Any] = {
        "replicas": draw(st.integers(0, 3)),
        "ordinals": {"start": draw(st.integers(0, 3))},
        "type": draw(st.sampled_from(["FullNode", "Sentry"])),
        "chain__network": draw(st.text(min_size=1, max_size=70)),
        "chain__additionalStartArgs": draw(st.lists(TEXT, max_size=2)),
        "chain__config": {"peers": draw(TEXT), "seeds": draw(TEXT)},
        "podTemplate__metadata": {"labels": draw(st.dictionaries(NAME, TEXT, max_size=2))},
        "podTemplate__containers": [{"name": "node", "env": [{"name": draw(NAME), "value": "1"}]}],
        "chain__versions": draw(
            st.lists(
                st.fixed_dictionaries(
                    {"height": st.integers(0, 9), "image": NAME, "setHaltHeight": st.booleans()}
                ),
                max_size=3,
            )
        ),
        "status": {"height": {"test-1": draw(st.integers(0, 9))}},
    }
    return node_set(**changes)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sets())
def test_building_is_deterministic_and_changes_nothing_it_is_given(nodes: CosmosFullNode) -> None:
    before = nodes.to_manifest()
    first, second = text_of(built(nodes)), text_of(built(nodes))
    assert first == second
    assert nodes.to_manifest() == before
    assert text_of(built(nodes.model_copy(deep=True))) == first


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sets())
def test_every_object_has_a_name_of_its_own_and_a_place_in_the_order(nodes: CosmosFullNode) -> None:
    made = built(nodes)
    assert len({item.key for item in made}) == len(made)
    assert all(item.inputs for item in made)
    assert all(item.namespace == "chains" for item in made)


def test_what_is_built_shares_nothing_with_the_set() -> None:
    """Somebody who changes a manifest does not change the set, nor what is built next."""
    for name in NAMES:
        nodes = sample(name)
        before, text = nodes.to_manifest(), text_of(built(nodes))
        for item in built(nodes):
            _spoil(item.manifest)
        assert nodes.to_manifest() == before
        assert text_of(built(nodes)) == text


def _spoil(value: object) -> None:
    if isinstance(value, dict):
        for key in list(value):
            _spoil(value[key])
            value[f"{key}-spoilt"] = True
    elif isinstance(value, list):
        for each in value:
            _spoil(each)
        value.append("spoilt")


def test_a_field_that_a_release_adds_with_a_default_changes_no_inputs() -> None:
    """What equals its default counts as absent, whether a server wrote it out or not."""
    for name in NAMES:
        bare = sample(name)
        filled = CosmosFullNode.from_manifest(
            bare.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        assert [item.inputs for item in built(filled)] == [item.inputs for item in built(bare)]
        assert [item.revision for item in built(filled)] == [item.revision for item in built(bare)]
