"""Reviews sent as Kubernetes protobuf, the form in which kubectl sends them from 1.32 on."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.protobuf import messages

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_REVIEW: Final = "metadata:ObjectMeta=1 spec:{}=2"
_TABLE: Final = {
    "TypeMeta": "apiVersion=1 kind=2",
    "Unknown": "typeMeta:TypeMeta=1 raw:bytes=2 contentEncoding=3 contentType=4",
    "ObjectMeta": "name=1 generateName=2 namespace=3",
    "ResourceAttributes": ("namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7"),
    "NonResourceAttributes": "path=1 verb=2",
    "ExtraValue": "items:string*=1",
    "ExtraEntry": "key=1 value:ExtraValue=2",
    "SelfAccessSpec": (
        "resourceAttributes:ResourceAttributes=1 nonResourceAttributes:NonResourceAttributes=2"
    ),
    "AccessSpec": (
        "resourceAttributes:ResourceAttributes=1 nonResourceAttributes:NonResourceAttributes=2 "
        "user=3 groups:string*=4 extra:ExtraEntry*=5 uid=6"
    ),
    "RulesSpec": "namespace=1",
    "TokenReviewSpec": "token=1 audiences:string*=2",
    "BoundObjectReference": "kind=1 apiVersion=2 name=3 uid=4",
    "TokenRequestSpec": (
        "audiences:string*=1 boundObjectRef:BoundObjectReference=3 expirationSeconds:int64=4"
    ),
    "SelfSubjectAccessReview": _REVIEW.format("SelfAccessSpec"),
    "SubjectAccessReview": _REVIEW.format("AccessSpec"),
    "LocalSubjectAccessReview": _REVIEW.format("AccessSpec"),
    "SelfSubjectRulesReview": _REVIEW.format("RulesSpec"),
    "TokenReview": _REVIEW.format("TokenReviewSpec"),
    "TokenRequest": _REVIEW.format("TokenRequestSpec"),
    "SelfSubjectReview": "metadata:ObjectMeta=1",
}
_GROUPS: Final = ("authentication.k8s.io/", "authorization.k8s.io/")


@cache
def _messages() -> dict[str, type[Message]]:
    return messages("ctrlruntime.reviews", _TABLE)


def decode(body: bytes) -> Manifest | None:
    """The review in the body; None where it is none, or not protobuf."""
    if not body.startswith(_MAGIC):
        return None
    try:
        envelope: Any = _messages()["Unknown"].FromString(body[len(_MAGIC) :])
        api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
        if not api_version.startswith(_GROUPS) or kind not in _TABLE:
            return None
        review = _messages()[kind].FromString(envelope.raw)
    except DecodeError:
        return None
    obj = MessageToDict(review, preserving_proto_field_name=True)
    return {"kind": kind, "apiVersion": api_version, **_plain(obj)}


def _plain(obj: dict[str, Any]) -> Manifest:
    """Maps and 64-bit numbers as the API writes them in JSON."""
    spec = obj.get("spec")
    if isinstance(spec, dict):
        if "expirationSeconds" in spec:
            spec["expirationSeconds"] = int(spec["expirationSeconds"])
        if "extra" in spec:
            spec["extra"] = {
                entry["key"]: entry.get("value", {}).get("items", []) for entry in spec["extra"]
            }
    return obj
