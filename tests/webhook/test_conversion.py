"""Conversion between versions, over HTTP."""

from __future__ import annotations

from typing import ClassVar, Self

import pytest

from ctrlruntime.api import Manifest, ObjectMeta, Resource
from ctrlruntime.webhook import Application, Conversion
from tests.webhook.posting import conversion_review, posting
from tests.webhook.webhook_kinds import OldSpec, WebsiteSpec, websites

SITES = websites()
V1 = "sites.example.com/v1"
V1ALPHA1 = "sites.example.com/v1alpha1"


def fill(app: Application) -> None:
    app.convert(Conversion(SITES.current, SITES.old))


def old(name: str, headline: str, **metadata: object) -> Manifest:
    manifest = SITES.manifest(name, version="v1alpha1", headline=headline, port=8080)
    manifest["metadata"] |= metadata
    return manifest


@pytest.mark.criterion("WH-08")
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_list_of_mixed_versions_is_converted_through_the_hub(version: str) -> None:
    third = websites("other.example.com")

    def two_kinds(app: Application) -> None:
        fill(app)
        app.convert(Conversion(third.current, third.old))

    sent = [old("a", "Shop/large", uid="u-1", labels={"x": "y"}), old("b", "Plain")]
    async with posting(two_kinds) as client:
        answer = await client.post("/convert", conversion_review(sent, V1, version))
        assert answer.body["apiVersion"] == f"apiextensions.k8s.io/{version}"
        assert answer.response["uid"] == "c-1"
        assert answer.response["result"] == {"status": "Success"}
        first, second = answer.response["convertedObjects"]
        back = await client.post("/convert", conversion_review([first, second], V1ALPHA1))
    assert first == {
        "apiVersion": V1,
        "kind": "Website",
        "metadata": sent[0]["metadata"],
        "spec": {"title": "Shop", "tier": "large", "port": 8080},
    }
    assert second["spec"] == {"title": "Plain", "port": 8080}
    assert back.response["convertedObjects"] == sent


@pytest.mark.criterion("WH-08")
async def test_one_object_that_cannot_be_converted_fails_all_with_its_message() -> None:
    bad = old("b", "B", annotations={"unconvertible": "yes"})
    unreadable = old("c", "C")
    unreadable["spec"]["port"] = "many"
    other = {**old("d", "D"), "kind": "Blog"}
    async with posting(fill) as client:
        for objects, version, says in (
            ([old("a", "A"), bad], V1, "b is not to be converted"),
            ([unreadable], V1, "Website default/c: spec.port: Invalid value"),
            ([other], V1, "no conversion for Blog.sites.example.com is registered"),
            ([old("a", "A")], "sites.example.com/v9", "has v1, v1alpha1"),
            ([old("a", "A")], V1ALPHA1, "already"),
            ([old("a", "A")], "else.example.com/v1", "no conversion for else.example.com"),
        ):
            answer = await client.post("/convert", conversion_review(objects, version))
            assert answer.code == 200
            assert answer.response["convertedObjects"] == []
            assert answer.response["result"]["status"] == "Failure"
            assert says in answer.response["result"]["message"]
        assert client.sample("conversion_webhook_panics_total") == 0


@pytest.mark.criterion("WH-08")
async def test_a_mistake_in_a_conversion_is_counted_and_reports_nothing() -> None:
    async with posting(fill) as client:
        answer = await client.post("/convert", conversion_review([old("a", "crash")], V1))
        assert answer.response["result"] == {
            "status": "Failure",
            "message": "internal error occurred during conversion",
        }
        assert client.sample("conversion_webhook_panics_total") == 1
        assert (await client.post("/convert", b"{}")).code == 400
        good = await client.post("/convert", conversion_review([old("a", "A")], V1))
        assert good.response["result"] == {"status": "Success"}


@pytest.mark.criterion("WH-08")
def test_versions_that_do_not_fit_are_refused_when_they_are_registered() -> None:
    other = websites("other.example.com")
    with pytest.raises(ValueError, match="versions of one kind"):
        Conversion(SITES.current, other.old)
    with pytest.raises(ValueError, match="exactly one version is the hub"):
        Conversion(SITES.old)
    with pytest.raises(ValueError, match="same version"):
        Conversion(SITES.current, SITES.old, SITES.old)


@pytest.mark.criterion("WH-08")
def test_a_way_there_and_back_that_loses_something_is_refused() -> None:
    kept = SITES.manifest(title="Shop", tier="large")
    Conversion(SITES.current, SITES.old, samples=[kept, old("a", "Shop/large")])
    with pytest.raises(ValueError, match=r"v1 to v1alpha1 and back: /spec/adminPort differ"):
        Conversion(SITES.current, SITES.old, samples=[SITES.manifest(adminPort=1, port=80)])


class Note(Resource[WebsiteSpec], group="notes.example.com", version="v1"):
    """A kind whose conversion makes metadata of its own."""


class OldNote(
    Resource[OldSpec],
    group="notes.example.com",
    version="v1alpha1",
    kind="Note",
    storage=False,
):
    """Keeps in an annotation what it has no field for."""

    def to_hub(self) -> Note:
        note = Note(metadata=self.metadata, spec=WebsiteSpec(title=self.spec.headline))
        note.spec.tier = note.metadata.annotations.pop("tier", None)
        return note

    @classmethod
    def from_hub(cls, hub: Note) -> Self:
        note = cls(metadata=hub.metadata, spec=OldSpec(headline=hub.spec.title))
        if hub.spec.tier:
            note.metadata.annotations["tier"] = hub.spec.tier
        return note


def test_labels_and_annotations_may_change_and_nothing_else_of_the_metadata() -> None:
    conversion = Conversion(Note, OldNote)
    metadata = {"name": "n", "uid": "u", "managedFields": [{"manager": "m", "x": 1}]}
    hub = {"apiVersion": "notes.example.com/v1", "kind": "Note", "metadata": metadata}
    there = conversion.convert({**hub, "spec": {"tier": "large"}}, "notes.example.com/v1alpha1")
    assert there["metadata"] == {**metadata, "annotations": {"tier": "large"}}
    back = conversion.convert(there, "notes.example.com/v1")
    assert back["metadata"] == metadata
    assert back["spec"]["tier"] == "large"


class BriefNote(
    Resource[OldSpec],
    group="notes.example.com",
    version="v1beta1",
    kind="Note",
    storage=False,
):
    """Sets the one annotation that it needs, perhaps with the name, and copies no metadata."""

    named: ClassVar[bool] = False

    def to_hub(self) -> Note:
        return Note(spec=WebsiteSpec(title=self.spec.headline))

    @classmethod
    def from_hub(cls, hub: Note) -> Self:
        metadata = ObjectMeta(annotations={"tier": hub.spec.tier or ""})
        if cls.named:
            metadata.name, metadata.namespace = hub.metadata.name, hub.metadata.namespace
        return cls(metadata=metadata, spec=OldSpec(headline=hub.spec.title))


@pytest.mark.parametrize("named", [False, True])
def test_g_r3_a_spoke_that_sets_one_annotation_keeps_labels_and_other_annotations(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.setattr(BriefNote, "named", named)
    conversion = Conversion(Note, BriefNote)
    metadata = {
        "name": "n",
        "uid": "u",
        "labels": {"app": "web"},
        "annotations": {"a": "1", "tier": "old"},
    }
    hub = {"apiVersion": "notes.example.com/v1", "kind": "Note", "metadata": metadata}
    there = conversion.convert({**hub, "spec": {"tier": "large"}}, "notes.example.com/v1beta1")
    assert there["metadata"] == {**metadata, "annotations": {"a": "1", "tier": "large"}}
    back = conversion.convert(there, "notes.example.com/v1")
    assert back["metadata"] == there["metadata"]
