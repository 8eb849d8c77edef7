"""Typed resources: what is read, what is written, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from ctrlruntime.api import (
    ApiModel,
    Condition,
    Conditions,
    GroupVersionKind,
    Nullable,
    ObjectMeta,
    RawExtension,
    Resource,
    Time,
    set_condition,
)
from ctrlruntime.json import Json


class Port(ApiModel):
    number: int
    protocol: str = "TCP"


class ServiceSpec(ApiModel):
    host_name: str
    replicas: int = 1
    note: str | None = None
    """Optional: absent when None."""
    owner: Nullable[str] = None
    """Nullable: null is a value."""
    ports: list[Port] = Field(default_factory=list)
    main: Port = Field(default_factory=lambda: Port(number=80))
    labels: dict[str, str] = Field(default_factory=dict)
    raw: RawExtension = Field(default_factory=dict)
    since: Time | None = None


class ServiceStatus(ApiModel):
    ready: int = 0
    conditions: Conditions = Field(default_factory=list)


class Service(
    Resource[ServiceSpec, ServiceStatus],
    group="test.example.com",
    version="v1",
    short_names=("svc",),
):
    """A service."""


class Bare(Resource[ServiceSpec], group="test.example.com", version="v1", scope="Cluster"):
    """A kind without a status."""


class Lazy(ApiModel):
    size: int = 1


class Defaulted(Resource[Lazy], group="test.example.com", version="v1"):
    """A kind whose spec needs nothing."""


class SpecFields(TypedDict, total=False):
    replicas: int
    note: str | None
    owner: str | None
    raw: dict[str, Any]
    since: datetime | None


def service(**spec: Unpack[SpecFields]) -> Service:
    return Service(
        metadata=ObjectMeta(name="x", namespace="ns"), spec=ServiceSpec(host_name="h", **spec)
    )


def written(obj: Service) -> Json:
    return obj.to_manifest()["spec"]


class TestWriting:
    def test_only_what_was_set_is_written_under_its_wire_name(self) -> None:
        assert service().to_manifest() == {
            "apiVersion": "test.example.com/v1",
            "kind": "Service",
            "metadata": {"name": "x", "namespace": "ns"},
            "spec": {"hostName": "h"},
        }

    def test_a_set_value_is_written_even_if_it_is_the_default(self) -> None:
        assert written(service(replicas=1)) == {"hostName": "h", "replicas": 1}

    def test_an_optional_none_is_absent_and_a_nullable_one_is_null(self) -> None:
        assert written(service(note=None, owner=None)) == {"hostName": "h", "owner": None}

    def test_an_optional_field_can_be_taken_away_again(self) -> None:
        obj = service(note="n")
        obj.spec.note = None
        assert written(obj) == {"hostName": "h"}

    def test_changes_in_place_count_as_set(self) -> None:
        obj = service()
        obj.spec.ports.append(Port(number=1))
        obj.spec.main.number = 8080
        obj.spec.labels["a"] = "b"
        assert written(obj) == {
            "hostName": "h",
            "ports": [{"number": 1}],
            "main": {"number": 8080},
            "labels": {"a": "b"},
        }

    def test_a_condition_set_in_place_is_written_whole(self) -> None:
        obj = service()
        now = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
        set_condition(
            obj.status.conditions, Condition(type="Ready", status="True", reason="Up"), now
        )
        assert obj.to_manifest()["status"] == {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Up",
                    "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }
            ]
        }

    def test_nulls_inside_raw_data_stay(self) -> None:
        assert written(service(raw={"a": None}))["raw"] == {"a": None}

    def test_defaults_are_written_on_request(self) -> None:
        manifest = service().to_manifest(exclude_unset=False)
        assert manifest["metadata"] == {"name": "x", "namespace": "ns"}
        assert manifest["spec"] == {
            "hostName": "h",
            "replicas": 1,
            "owner": None,
            "ports": [],
            "main": {"number": 80, "protocol": "TCP"},
            "labels": {},
            "raw": {},
        }
        assert manifest["status"] == {"ready": 0, "conditions": []}


class TestReading:
    def test_unknown_metadata_is_kept(self) -> None:
        manifest = {**service().to_manifest(), "metadata": {"name": "x", "selfLink": "/x"}}
        assert Service.from_manifest(manifest).to_manifest() == manifest

    def test_unknown_spec_fields_are_ignored(self) -> None:
        manifest = service().to_manifest()
        manifest["spec"]["fromTheFuture"] = 1
        assert written(Service.from_manifest(manifest)) == {"hostName": "h"}

    def test_json_and_dict_read_the_same(self) -> None:
        manifest = service(note="n", since=datetime(2026, 1, 1, tzinfo=UTC)).to_manifest()
        assert Service.from_manifest(json.dumps(manifest).encode()) == Service.from_manifest(
            manifest
        )

    def test_a_missing_status_reads_as_defaults(self) -> None:
        obj = Service.from_manifest(service().to_manifest())
        assert obj.status.ready == 0
        assert "status" not in obj.to_manifest()

    @pytest.mark.parametrize("spec", [{}, {"spec": None}])
    def test_a_missing_spec_reads_as_empty(self, spec: dict[str, None]) -> None:
        assert Defaulted.from_manifest({"metadata": {}, **spec}).spec.size == 1
        assert Defaulted.from_manifest(json.dumps(spec).encode()).spec.size == 1

    def test_what_is_missing_is_named(self) -> None:
        manifests: list[Any] = [{"metadata": {}}, b"{}"]
        for manifest in manifests:
            with pytest.raises(ValidationError, match=r"spec\.hostName"):
                Service.from_manifest(manifest)

    def test_another_kind_is_refused(self) -> None:
        manifest = {**service().to_manifest(), "kind": "Other"}
        with pytest.raises(ValidationError, match=r"this is a Other of test\.example\.com/v1"):
            Service.from_manifest(manifest)

    def test_an_item_of_a_list_without_its_kind_is_accepted(self) -> None:
        manifest = service().to_manifest()
        del manifest["kind"], manifest["apiVersion"]
        assert Service.from_manifest(manifest).kind == "Service"


class TestKinds:
    def test_names_have_defaults(self) -> None:
        options = Service.options()
        assert (options.plural, options.singular, options.list_kind) == (
            "services",
            "service",
            "ServiceList",
        )
        assert Service.gvk() == GroupVersionKind("test.example.com", "v1", "Service")
        assert Service.mapping().path("x", namespace="ns").endswith("/namespaces/ns/services/x")
        assert not Bare.mapping().namespaced

    def test_status_is_a_subresource_if_there_is_one(self) -> None:
        assert Service.options().status
        assert not Bare.options().status

    def test_a_class_without_group_is_no_kind(self) -> None:
        with pytest.raises(TypeError, match="is not a kind"):
            Resource[ServiceSpec, ServiceStatus].gvk()

    @pytest.mark.parametrize(
        ("keywords", "problem"),
        [
            ({"group": "nodot", "version": "v1"}, "group"),
            ({"group": "a.b", "version": "V1"}, "version"),
            ({"group": "a.b", "version": "v1", "plural": "Things"}, "plural"),
            ({"group": "a.b", "version": "v1", "scope": "Galaxy"}, "scope"),
            ({"group": "a.b", "version": "v1", "short_names": "x"}, "short_names"),
            ({"group": "a.b", "version": "v1", "selectable_fields": ["x"] * 9}, "at most 8"),
        ],
    )
    def test_wrong_keywords_are_refused(self, keywords: dict[str, Any], problem: str) -> None:
        with pytest.raises(TypeError, match=problem):
            type("Thing", (Resource[Lazy],), {"__module__": __name__}, **keywords)

    def test_an_unknown_keyword_is_refused(self) -> None:
        with pytest.raises(TypeError, match="shortnames"):
            type("Thing", (Resource[Lazy],), {}, group="a.b", version="v1", shortnames=())

    def test_a_status_with_a_required_field_is_refused(self) -> None:
        class Strict(ApiModel):
            needed: int

        with pytest.raises(TypeError, match="without one: needed"):
            type("Thing", (Resource[Lazy, Strict],), {}, group="a.b", version="v1")


names = st.text(min_size=1, max_size=8)
ports = st.builds(Port, number=st.integers(0, 65535))
specs = st.builds(
    ServiceSpec,
    host_name=names,
    replicas=st.integers(-(2**63), 2**63 - 1),
    note=st.none() | names,
    owner=st.none() | names,
    ports=st.lists(ports, max_size=3),
    labels=st.dictionaries(names, names, max_size=3),
    raw=st.dictionaries(names, st.none() | st.integers() | st.lists(st.booleans()), max_size=3),
    since=st.none()
    | st.datetimes(
        min_value=datetime(1970, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(9999, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    ).map(lambda value: value.replace(microsecond=0)),
)


@given(spec=specs)
def test_what_is_written_reads_back_the_same(spec: Annotated[ServiceSpec, "any"]) -> None:
    obj = Service(metadata=ObjectMeta(name="x"), spec=spec)
    manifest = obj.to_manifest()
    again = Service.from_manifest(json.dumps(manifest).encode())
    assert again == obj
    assert again.to_manifest() == manifest
