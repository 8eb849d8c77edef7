"""Metadata helpers, on manifests and on typed objects alike."""

from __future__ import annotations

import pytest

from ctrlruntime.api import ApiModel, Manifest, ObjectMeta, Resource, meta
from ctrlruntime.api.meta import AnyObject


class Spec(ApiModel):
    size: int = 1


class Thing(Resource[Spec], group="test.example.com", version="v1"):
    """A thing."""


def manifest(name: str = "obj", namespace: str | None = "ns", uid: str = "u-obj") -> Manifest:
    space = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "uid": uid, **space},
    }


def thing(name: str = "obj", namespace: str = "ns", uid: str = "u-obj") -> Thing:
    return Thing(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=Spec())


objects = pytest.mark.parametrize("obj", [manifest(), thing()], ids=["manifest", "typed"])


@pytest.fixture(params=["manifest", "typed"])
def obj(request: pytest.FixtureRequest) -> AnyObject:
    return manifest() if request.param == "manifest" else thing()


@pytest.fixture(params=["manifest", "typed"])
def owner(request: pytest.FixtureRequest) -> AnyObject:
    make = manifest if request.param == "manifest" else thing
    return make("owner", "ns", "u-owner")


def test_names(obj: AnyObject) -> None:
    assert meta.name(obj) == "obj"
    assert meta.namespace(obj) == "ns"
    assert meta.uid(obj) == "u-obj"
    assert meta.namespaced_name(obj) == "ns/obj"
    assert meta.namespaced_name(manifest(namespace=None)) == "obj"
    assert not meta.is_deleting(obj)


def test_labels_and_annotations_report_changes(obj: AnyObject) -> None:
    assert meta.set_label(obj, "a", "1")
    assert not meta.set_label(obj, "a", "1")
    assert meta.labels(obj) == {"a": "1"}
    assert meta.set_label(obj, "a", None)
    assert not meta.set_label(obj, "a", None)
    assert meta.set_annotation(obj, "b", "2")
    assert meta.annotations(obj) == {"b": "2"}
    assert meta.labels(obj) == {}


@pytest.mark.criterion("HE-04")
def test_finalizers_report_changes(obj: AnyObject) -> None:
    assert meta.add_finalizer(obj, "example.com/a")
    assert meta.add_finalizer(obj, "example.com/b")
    assert not meta.add_finalizer(obj, "example.com/a")
    assert meta.finalizers(obj) == ("example.com/a", "example.com/b")
    assert meta.has_finalizer(obj, "example.com/a")
    assert meta.remove_finalizer(obj, "example.com/a")
    assert not meta.remove_finalizer(obj, "example.com/a")
    assert meta.finalizers(obj) == ("example.com/b",)


def test_a_finalizer_needs_a_domain(obj: AnyObject) -> None:
    with pytest.raises(ValueError, match="needs a domain"):
        meta.add_finalizer(obj, "cleanup")


@pytest.mark.criterion("HE-01")
class TestControllerReference:
    def test_it_names_the_owner(self, owner: AnyObject, obj: AnyObject) -> None:
        assert meta.set_controller_reference(owner, obj)
        (reference,) = meta.owner_references(obj)
        gvk = meta.group_version_kind(owner)
        assert reference.to_wire() == {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "name": "owner",
            "uid": "u-owner",
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert meta.has_controller_reference(obj, owner)
        assert meta.has_owner_reference(obj, owner)

    def test_setting_it_again_changes_nothing(self, owner: AnyObject, obj: AnyObject) -> None:
        meta.set_controller_reference(owner, obj)
        assert not meta.set_controller_reference(owner, obj)
        assert len(meta.owner_references(obj)) == 1

    def test_a_renewed_owner_of_the_same_uid_is_updated(self, obj: AnyObject) -> None:
        meta.set_controller_reference(manifest("old", uid="u-owner"), obj)
        assert meta.set_controller_reference(manifest("new", uid="u-owner"), obj)
        assert [item.name for item in meta.owner_references(obj)] == ["new"]

    def test_a_second_controller_is_refused(self, owner: AnyObject, obj: AnyObject) -> None:
        meta.set_controller_reference(manifest("first", uid="u-first"), obj)
        with pytest.raises(meta.AlreadyOwned, match="already controlled by Deployment 'first'"):
            meta.set_controller_reference(owner, obj)
        assert len(meta.owner_references(obj)) == 1

    def test_an_owner_in_another_namespace_is_refused(self, obj: AnyObject) -> None:
        with pytest.raises(meta.OwnerNotAllowed, match="across namespaces"):
            meta.set_controller_reference(manifest("owner", "elsewhere", "u"), obj)

    def test_a_namespaced_owner_of_a_cluster_scoped_object_is_refused(
        self, owner: AnyObject
    ) -> None:
        with pytest.raises(meta.OwnerNotAllowed, match="cluster-scoped"):
            meta.set_controller_reference(owner, manifest(namespace=None))

    def test_a_cluster_scoped_owner_may_own_anything(self, obj: AnyObject) -> None:
        assert meta.set_controller_reference(manifest("owner", None, "u"), obj)

    def test_an_owner_without_uid_is_refused(self, obj: AnyObject) -> None:
        with pytest.raises(meta.OwnerNotAllowed, match="no uid"):
            meta.set_controller_reference(manifest("owner", uid=""), obj)


def test_further_owners_live_beside_the_controller(owner: AnyObject, obj: AnyObject) -> None:
    meta.set_controller_reference(manifest("controller", uid="u-controller"), obj)
    assert meta.set_owner_reference(owner, obj)
    assert not meta.set_owner_reference(owner, obj)
    controller = meta.controller_of(obj)
    assert controller is not None
    assert controller.name == "controller"
    assert not meta.remove_controller_reference(owner, obj)
    assert meta.remove_owner_reference(owner, obj)
    assert not meta.remove_owner_reference(owner, obj)
    assert len(meta.owner_references(obj)) == 1


def test_an_owner_reference_leaves_the_controller_what_it_is(
    owner: AnyObject, obj: AnyObject
) -> None:
    meta.set_controller_reference(owner, obj)
    assert not meta.set_owner_reference(owner, obj)
    assert meta.has_controller_reference(obj, owner)


def test_the_last_owner_leaves_no_empty_list() -> None:
    obj, owner = manifest(), manifest("owner", uid="u")
    meta.set_owner_reference(owner, obj)
    meta.remove_owner_reference(owner, obj)
    assert obj == manifest()
