"""Answers of kube-apiserver 1.20, without what releases since then changed, and only that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from tests.differential.masking import Masking, View
from tests.differential.requests import Step
from tests.differential.servers import Answer
from tests.differential.subject import Subject

WORDING: Final = (
    # (words now, words of 1.20) -> one form of both
    (r"failed to create typed (\w+) object \([^)]*\):", r"failed to create typed \1 object:"),
    (r"Invalid value: \"\": uid must not be empty", 'Invalid value: "": must not be empty'),
    (r'Invalid value: "null":', "Invalid value: null:"),
    (r"(Invalid|Duplicate) value: (?:\w+\.\w+\{.*?\}\}?|\{.*?\})", r"\1 value: (object)"),
    (r"(NetworkPolicy|Ingress)\.extensions", r"\1.networking.k8s.io"),
    (r' with subresource "\w+"', ""),
    (r"got \*value\.valueUnstructured", "got string"),
    (r"failed to convert new object \([^)]*\) to", "failed to convert new object to"),
    (
        r'.* cannot be handled as a \w+: no kind "\w+" is registered for version "(\S+)" in scheme.*',
        r"the API version in the data (\1) does not match",
    ),
    (
        r"the API version in the data \((\S+)\) does not match the expected API version .*",
        r"the API version in the data (\1) does not match",
    ),
    (r"(cannot be handled as a \w+:).*", r"\1 (how the decoder says it)"),
    (r"(`spec\.tolerations`).*", r"\1 and so on"),
    (r"(immutable after creation except) .*", r"\1 some"),
    (r"fields other than .* are forbidden", "fields other than some are forbidden"),
    (
        r"the namespace of the object \(\S+\) does not match the namespace on the request \(\S+\)",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
)
"""What later releases say in other words."""
_WORDING: Final = tuple((re.compile(old, re.DOTALL), new) for old, new in WORDING)

ATOMIC: Final = frozenset(
    {"selector", "nodeSelector", "roleRef", "scaleTargetRef", "port", "configMapKeyRef"}
)
"""Members owned as a whole since 1.22, member by member before: references and selectors."""
ASSOCIATIVE: Final = frozenset(
    [
        "conditions",
        "containers",
        "env",
        "finalizers",
        "imagePullSecrets",
        "ownerReferences",
        "ports",
        "secrets",
        "volumeMounts",
        "volumes",
    ]
)
"""Lists merged by key: an apply brings its own order along now, and added at the end before."""
_JOB_LABELS: Final = "batch.kubernetes.io/"
_REFERENCES: Final = frozenset({"f:secrets", "f:imagePullSecrets"})
_ATOMIC_FIELDS: Final = frozenset(f"f:{name}" for name in ATOMIC)
_BELOW_ATOMIC: Final = re.compile(rf"(\.(?:{'|'.join(sorted(ATOMIC))}))\.[A-Za-z]+")
_BELOW_REFERENCE: Final = re.compile(r'(\.(?:secrets|imagePullSecrets)\[name="\w+"\])\.\w+')


class OlderMasking(Masking):
    """Compares with a current server what 1.20 and it have in common."""

    def agree(self, step: Step, real: View, ours: View) -> bool:
        if step.verb == "apply" and real.code in (400, 500) and ours.code == 400:
            # Another kind in the body is refused before the merge now.
            words = {"invalid", "object", "type:"}
            if words < set(ours.content["message"]):
                return True
        if step.verb == "delete" and real.code == ours.code == 200:
            # A deleted Service is shown now, where there was a Status.
            return "kind" in ours.content or real.content == ours.content
        if step.verb == "apply" and real.wrote and not ours.wrote:
            # Times alone are no write now.
            real = replace(real, wrote=ours.wrote)
        return super().agree(step, real, ours)

    def view(self, subject: Subject, step: Step, answer: Answer) -> View:
        # Unknown fields bring warnings since 1.25.
        return replace(super().view(subject, step, answer), warnings=())

    def misleads(self, view: View) -> bool:
        """Whether somebody owns a map or item and nothing in it any more.

        The next apply makes 1.20 believe that they own all of it.
        """
        managers = view.content.get("managers", ()) if isinstance(view.content, dict) else ()
        return any(_emptied(fields) for _, _, fields in managers)

    def settled(self, subject: Subject, obj: Any) -> Any:
        return super().settled(subject, _without(obj, subject.newer))

    def _managers(self, subject: Subject, managed: Any) -> Any:
        # Appliers that change nothing but owners get no time now.
        return [
            (writer, timed or writer[1] == "Apply", fields)
            for writer, timed, fields in super()._managers(subject, managed)
        ]

    def _writer(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        # Entries name the subresource since 1.22.
        return (entry["manager"], entry["operation"], entry["apiVersion"])

    def _fields(self, subject: Subject, entry: Mapping[str, Any]) -> Any:
        newer = frozenset(f"f:{name}" for name in subject.newer)
        return _collapsed(_without(entry["fieldsV1"], newer))

    def _status(self, subject: Subject, status: Mapping[str, Any]) -> Any:
        view = super()._status(subject, status)
        # How often a finding is repeated differs.
        view["message"] = sorted(set(view["message"]))
        view["causes"] = sorted(set(view["causes"]))
        if view["details"].get("group") == "extensions":
            view["details"]["group"] = "networking.k8s.io"
        return view

    def worded(self, subject: Subject, text: str) -> str:
        text = super().worded(subject, text)
        for pattern, words in _WORDING:
            text = pattern.sub(words, text)
        text = _BELOW_ATOMIC.sub(r"\1", text)
        return _BELOW_REFERENCE.sub(r"\1", text)


def _without(value: Any, names: frozenset[str]) -> Any:
    """Without what later releases fill in, and the nulls that they leave out."""
    if isinstance(value, dict):
        kept = {}
        for key, item in value.items():
            if key in names or item is None:
                continue
            inner = _without(item, names)
            if key in ASSOCIATIVE and isinstance(inner, list):
                inner.sort(key=lambda each: orjson.dumps(each, option=orjson.OPT_SORT_KEYS))
            kept[key.removeprefix(_JOB_LABELS)] = inner
        return kept
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    return value


def _emptied(fields: Any) -> bool:
    return fields.keys() == {"."} or any(_emptied(below) for below in fields.values())


def _collapsed(fields: Any, *, reference: bool = False) -> Any:
    kept: dict[str, Any] = {}
    for key, below in fields.items():
        if key in _ATOMIC_FIELDS or (reference and key.startswith("k:")):
            kept[key] = {}
        else:
            kept[key] = _collapsed(below, reference=key in _REFERENCES)
    return kept
