"""Conversion between the versions of a kind, through one of them: hub and spokes.

    class Website(Resource[SpecV2, Status], group="example.com", version="v2"): ...

    class WebsiteV1(Resource[SpecV1, Status], group="example.com", version="v1", kind="Website", storage=False):
        def to_hub(self) -> Website: ...

        @classmethod
        def from_hub(cls, hub: Website) -> Self: ...

The class without ``to_hub`` is the hub.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import msgspec
import orjson
from pydantic import ValidationError

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.json import json_patch
from ctrlruntime.webhook.admission import ReviewError, decode_body
from ctrlruntime.webhook.findings import findings_of

__all__ = [
    "Conversion",
    "ConversionError",
    "ConversionRequest",
    "Spoke",
    "decode_conversion",
    "encode_conversion",
    "encode_failure",
    "missing_conversion",
]

GROUP = "apiextensions.k8s.io"
VERSIONS = ("v1", "v1beta1")

Kind = type[Resource[Any, Any]]


class ConversionError(ValueError):
    """An object that cannot be converted; the text reaches the user."""


@runtime_checkable
class Spoke(Protocol):
    """A version that converts to the hub and back. Metadata need not be copied."""

    def to_hub(self) -> Resource[Any, Any]: ...

    @classmethod
    def from_hub(cls, hub: object, /) -> Self: ...


class Conversion:
    """Converts objects between the versions of one kind.

    Raises ValueError if the classes are not the versions of one kind, if not exactly one is the hub,
    or if one of ``samples``, objects of any version, does not come back from the others as it was.
    """

    def __init__(self, *kinds: Kind, samples: Iterable[Manifest] = ()) -> None:
        hubs = [kind for kind in kinds if not issubclass(kind, Spoke)]
        names = {kind.gvk().group_kind for kind in kinds}
        if len(names) > 1:
            listed = ", ".join(sorted(map(str, names)))
            raise ValueError(f"conversion is between versions of one kind, not of {listed}")
        if len(hubs) != 1:
            found = ", ".join(kind.__name__ for kind in hubs) or "none"
            raise ValueError(
                "exactly one version is the hub, all others have to_hub() and from_hub(); "
                f"without them: {found}"
            )
        self.hub = hubs[0]
        self._versions = {kind.gvk(): kind for kind in kinds}
        if len(self._versions) != len(kinds):
            raise ValueError(f"two classes stand for the same version of {self.group_kind}")
        for sample in samples:
            self._check_round_trip(sample)

    @property
    def group_kind(self) -> GroupKind:
        return self.hub.gvk().group_kind

    @property
    def kinds(self) -> Sequence[Kind]:
        """The classes, by version."""
        return [self._versions[gvk] for gvk in sorted(self._versions)]

    @property
    def versions(self) -> Sequence[str]:
        return sorted(gvk.version for gvk in self._versions)

    def convert(self, manifest: Manifest, api_version: str) -> Manifest:
        """Return the object in another version, its metadata the same but for labels and annotations.

        Raises ConversionError for what the classes refuse; other exceptions are mistakes in them.
        """
        if manifest.get("apiVersion") == api_version:
            raise ConversionError(f"{_name(manifest)} is of {api_version} already")
        source = self._class_of(GroupVersionKind.of(manifest))
        target = self._class_of(GroupVersionKind.parse(api_version, str(manifest.get("kind"))))
        try:
            obj: Any = source.from_manifest(manifest)
            hub = obj if source is self.hub else obj.to_hub()
            result = hub if target is self.hub else target.from_hub(hub)  # type: ignore[attr-defined]
        except ValidationError as error:
            found = "; ".join(map(str, findings_of(error)))
            raise ConversionError(f"{_name(manifest)}: {found}") from error
        wire: Manifest = result.to_manifest()
        return {
            "apiVersion": api_version,
            "kind": manifest["kind"],
            **{key: value for key, value in wire.items() if key not in ("apiVersion", "kind")},
            "metadata": _metadata(manifest.get("metadata") or {}, wire["metadata"]),
        }

    def _class_of(self, gvk: GroupVersionKind) -> Kind:
        kind = self._versions.get(gvk)
        if kind is None:
            known = ", ".join(self.versions)
            raise ConversionError(f"no conversion for {gvk}: {self.group_kind} has {known}")
        return kind

    def _check_round_trip(self, sample: Manifest) -> None:
        gvk = GroupVersionKind.of(sample)
        kind = self._class_of(gvk)
        origin = kind.from_manifest(sample).to_manifest(exclude_unset=False)
        for other in self._versions:
            if other == gvk:
                continue
            there = self.convert(sample, other.api_version)
            back = kind.from_manifest(self.convert(there, gvk.api_version))
            patch = json_patch(origin, back.to_manifest(exclude_unset=False))
            lost = sorted({step["path"] for step in patch})
            if lost:
                raise ValueError(
                    f"{_name(sample)} does not survive the way from {gvk.version} to "
                    f"{other.version} and back: {', '.join(lost)} differ"
                )


def _metadata(sent: Manifest, made: Manifest) -> Manifest:
    """Return what the server allows: nothing but labels and annotations may change.

    Metadata with the name and the UID of the object was copied by the class, so what is not in it was taken out. Else
    the class has set what it adds, and all others stay.
    """
    if not made:
        return sent
    identity = [key for key in ("name", "uid") if sent.get(key)]
    copied = bool(identity) and all(made.get(key) for key in identity)
    metadata = {key: sent[key] for key in sent if key not in ("labels", "annotations")}
    for key in ("labels", "annotations"):
        before = {} if copied else sent.get(key) or {}
        if merged := {**before, **(made.get(key) or {})}:
            metadata[key] = merged
    return metadata


def _name(manifest: Manifest) -> str:
    metadata = manifest.get("metadata") or {}
    namespace, name = metadata.get("namespace"), metadata.get("name", "")
    return f"{manifest.get('kind')} {namespace + '/' if namespace else ''}{name}"


def missing_conversion(crd: Manifest) -> str:
    """Return why the server does not convert between the versions of a CRD, or an empty text."""
    spec = crd.get("spec") or {}
    versions = [str(each["name"]) for each in spec.get("versions") or ()]
    strategy = (spec.get("conversion") or {}).get("strategy", "None")
    if len(versions) < 2 or strategy == "Webhook":
        return ""
    return (
        f"the CRD {crd['metadata']['name']} has the versions {', '.join(versions)} and the conversion strategy {strategy}: "
        "a write of one version drops the fields of the others. Set spec.conversion to the webhook, as "
        "`ctrlruntime generate crd` writes it"
    )


class ConversionRequest(msgspec.Struct, frozen=True):
    """Objects, and the version they are wanted in."""

    uid: str = ""
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: tuple[msgspec.Raw, ...] = ()


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    request: ConversionRequest | None = None


_DECODER = msgspec.json.Decoder(_Review)


def decode_conversion(body: bytes) -> tuple[str, ConversionRequest]:
    """Return API version and request of a ConversionReview. Raises ReviewError, saying what is wrong."""
    review = decode_body(_DECODER, body, "a ConversionReview")
    group, _, version = review.api_version.partition("/")
    if review.kind != "ConversionReview" or group != GROUP or version not in VERSIONS:
        raise ReviewError(
            f"the body is a {review.kind} of {review.api_version}, not a ConversionReview "
            f"of {GROUP}/v1 or {GROUP}/v1beta1"
        )
    if review.request is None:
        raise ReviewError("the ConversionReview has no request")
    return review.api_version, review.request


def encode_conversion(api_version: str, uid: str, objects: list[Manifest]) -> bytes:
    """Return the ConversionReview that answers with the converted objects."""
    return _encode(api_version, uid, objects, {"status": "Success"})


def encode_failure(api_version: str, uid: str, message: str) -> bytes:
    """All or nothing: one object that cannot be converted fails the request."""
    return _encode(api_version, uid, [], {"status": "Failure", "message": message})


def _encode(api_version: str, uid: str, objects: list[Manifest], result: dict[str, str]) -> bytes:
    response = {"uid": uid, "convertedObjects": objects, "result": result}
    review = {"apiVersion": api_version, "kind": "ConversionReview", "response": response}
    return orjson.dumps(review)
