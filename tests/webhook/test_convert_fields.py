"""Conversion by field: nothing is lost between versions, whatever they have in common."""

from __future__ import annotations

from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from ctrlruntime.api import ApiModel, Manifest, Resource
from ctrlruntime.webhook import Conversion, convert_fields
from ctrlruntime.webhook.convert_fields import KEPT

pytestmark = pytest.mark.criterion("D-4")


class Port(ApiModel):
    number: int


class NamedPort(Port):
    name: str | None = None


class HubSpec(ApiModel):
    image: str = "a"
    only_hub: int | None = None
    ports: list[Port] = Field(default_factory=list)
    limits: dict[str, str] = Field(default_factory=dict)


class WideSpec(ApiModel):
    image: str = "a"
    ports: list[NamedPort] = Field(default_factory=list)
    limits: dict[str, str] = Field(default_factory=dict)
    tls: dict[str, str] | None = None


class NarrowSpec(ApiModel):
    other: int = 0


class Status(ApiModel):
    ready: int = 0


class WideStatus(Status):
    more: str | None = None


class Hub(Resource[HubSpec, Status], group="example.com", version="v1", kind="Site"):
    """The version that is stored."""


class Wide(
    Resource[WideSpec, WideStatus], group="example.com", version="v2", kind="Site", storage=False
):
    """A version with more."""

    def to_hub(self) -> Hub:
        return convert_fields(self, Hub)

    @classmethod
    def from_hub(cls, hub: Hub) -> Self:
        return convert_fields(hub, cls)


class Narrow(
    Resource[NarrowSpec, Status], group="example.com", version="v3", kind="Site", storage=False
):
    """A version with nothing of the others."""

    def to_hub(self) -> Hub:
        return convert_fields(self, Hub)

    @classmethod
    def from_hub(cls, hub: Hub) -> Self:
        return convert_fields(hub, cls)


class Look(ApiModel):
    image: str | None = None
    color: str | None = None


class MovedSpec(ApiModel):
    look: Look | None = None
    quota: dict[str, str] = Field(default_factory=dict)


class Moved(
    Resource[MovedSpec, Status], group="example.com", version="v4", kind="Site", storage=False
):
    """A version with fields in another place, and under another name."""

    def to_hub(self) -> Hub:
        moved = {"spec.look.image": "spec.image", "spec.quota": "spec.limits"}
        return convert_fields(self, Hub, moved=moved)

    @classmethod
    def from_hub(cls, hub: Hub) -> Self:
        moved = {"spec.image": "spec.look.image", "spec.limits": "spec.quota"}
        return convert_fields(hub, cls, moved=moved)


CONVERSION = Conversion(Hub, Wide, Narrow, Moved)
API = {kind.gvk().version: kind.gvk().api_version for kind in (Hub, Wide, Narrow, Moved)}
TEXT = st.sampled_from(["a", "b", "c"])
MAPS = st.dictionaries(TEXT, TEXT, max_size=2)
NUMBERED = st.fixed_dictionaries({"number": st.integers(1, 3)}, optional={"name": TEXT})
FIELDS: dict[str, st.SearchStrategy[Manifest]] = {
    "v1": st.fixed_dictionaries(
        {},
        optional={
            "image": TEXT,
            "onlyHub": st.integers(1, 3),
            "ports": st.lists(st.fixed_dictionaries({"number": st.integers(1, 3)}), max_size=3),
            "limits": MAPS,
        },
    ),
    "v2": st.fixed_dictionaries(
        {},
        optional={
            "image": TEXT,
            "ports": st.lists(NUMBERED, max_size=3),
            "limits": MAPS,
            "tls": MAPS,
        },
    ),
    "v3": st.fixed_dictionaries({}, optional={"other": st.integers(0, 3)}),
    "v4": st.fixed_dictionaries(
        {},
        optional={
            "look": st.fixed_dictionaries({}, optional={"image": TEXT, "color": TEXT}),
            "quota": MAPS,
        },
    ),
}
STATUS = {"v2": {"ready": 1, "more": "b"}}


def site(version: str, spec: Manifest) -> Manifest:
    metadata = {"name": "a", "namespace": "b", "annotations": {"mine": "yes"}}
    head = {"apiVersion": API[version], "kind": "Site", "metadata": metadata}
    return {**head, "spec": spec, "status": STATUS.get(version, {"ready": 1})}


@given(data=st.data(), way=st.lists(st.sampled_from(sorted(API)), max_size=6))
def test_any_way_over_the_versions_leads_back_to_the_same_object(
    data: st.DataObject, way: list[str]
) -> None:
    start = data.draw(st.sampled_from(sorted(API)))
    sent = now = site(start, data.draw(FIELDS[start]))
    for version in [*way, start]:
        if now["apiVersion"] != API[version]:
            now = CONVERSION.convert(now, API[version])
    assert now == sent


WIDE = {
    "image": "a",
    "tls": {"secret": "x"},
    "ports": [{"number": 1, "name": "http"}, {"number": 2, "name": "dns"}],
}


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ({"image": "b"}, {**WIDE, "image": "b"}),
        ({"ports": []}, {**WIDE, "ports": []}),
        (
            {"ports": [{"number": 3}, {"number": 2}]},
            {**WIDE, "ports": [{"number": 3}, {"number": 2, "name": "dns"}]},
        ),
    ],
    ids=["another field", "an emptied list", "items that stay"],
)
def test_what_is_changed_in_the_version_that_lacks_fields_stays_changed(
    change: Manifest, back: Manifest
) -> None:
    hub = CONVERSION.convert(site("v2", WIDE), API["v1"])
    hub["spec"] |= change
    assert CONVERSION.convert(hub, API["v2"])["spec"] == back


def test_a_field_that_moved_carries_a_change_and_keeps_what_is_beside_it() -> None:
    spec = {"look": {"image": "a", "color": "red"}, "quota": {"cpu": "1"}}
    hub = CONVERSION.convert(site("v4", spec), API["v1"])
    assert hub["spec"] == {"image": "a", "limits": {"cpu": "1"}}
    hub["spec"]["image"] = "b"
    back = CONVERSION.convert(hub, API["v4"])
    assert back["spec"] == {**spec, "look": {"image": "b", "color": "red"}}
    untouched = CONVERSION.convert(site("v1", {"image": "a"}), API["v4"])
    assert (
        "annotations" not in untouched["metadata"]
        or KEPT not in untouched["metadata"]["annotations"]
    )


def test_a_field_that_is_moved_into_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"spec\.onlyHub\.image: onlyHub is no object"):
        convert_fields(
            Hub.from_manifest(site("v1", {"image": "a", "onlyHub": 1})),
            Moved,
            moved={"spec.image": "spec.onlyHub.image"},
        )


@pytest.mark.parametrize("text", ["{", "[]", '{"v2":1}', '{"v2":[1,[1],[[],2],[["spec","x"]]]}'])
def test_an_annotation_that_was_damaged_harms_nothing(text: str) -> None:
    hub = site("v1", {"image": "a"})
    hub["metadata"]["annotations"][KEPT] = text
    assert CONVERSION.convert(hub, API["v2"])["spec"] == {"image": "a"}
