"""Answers of kube-apiserver 1.20, without what releases since then changed, and only that.

Names in quotes are those of `tests.conformance.releases`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from ctrlruntime.json import Json
from tests.differential.masking import Masking, View
from tests.differential.requests import STATUS, Step
from tests.differential.servers import Answer
from tests.differential.subject import Subject

WORDING: Final = (
    # (words now, words of 1.20) -> one form of both
    (r"failed to create typed (\w+) object \([^)]*\):", r"failed to create typed \1 object:"),
    (r"Invalid value: \"\": uid must not be empty", 'Invalid value: "": must not be empty'),
    (r'Invalid value: "null":', "Invalid value: null:"),
    (r"(Invalid|Duplicate|Unsupported) value: [\w.\[\]]*\{.*\}", r"\1 value: (object)"),
    (r"(NetworkPolicy|Ingress)\.extensions", r"\1.networking.k8s.io"),
    (r"not a valid CIDR", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    (r"can not be less than (previous value|status.capacity)", "can not be less than before"),
    (r"must to greater or equal than", "must be greater than or equal to"),
    (r', "ReadWriteOncePod"', ""),
    (r"(unable to parse requirement: .*, expected:).*", r"\1 an operator"),
    (r' with subresource "\w+"', ""),
    (r"got \*value\.valueUnstructured", "got string"),
    (r"failed to convert new object \([^)]*\) to", "failed to convert new object to"),
    (
        r'.* cannot be handled as a (\w+): no kind "\1" is registered for version "(\S+)" in scheme.*',
        r"the API version in the data (\2) does not match",
    ),
    (
        r"the API version in the data \((\S+)\) does not match the expected API version .*",
        r"the API version in the data (\1) does not match",
    ),
    (r"(cannot be handled as a \w+:).*", r"\1 (how the decoder says it)"),
    (r"(pod updates may not change fields other than) .*", r"\1 some"),
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
"""Owned as a whole now ("references as a whole"), member by member before."""
ASSOCIATIVE: Final = frozenset(
    [
        "conditions",
        "containers",
        "env",
        "finalizers",
        "imagePullSecrets",
        "ownerReferences",
        "podIPs",
        "ports",
        "secrets",
        "tags",
        "volumeMounts",
        "volumes",
    ]
)
"""Sorted before they are compared ("order of applied lists"): new items were added at the end before."""
_SELECTORS: Final = frozenset({"selector", "podSelector", "namespaceSelector"})
_COUNTS: Final = frozenset({"generation", "deprecated.daemonset.template.generation"})
_JOB_LABELS: Final = "batch.kubernetes.io/"
_REFERENCES: Final = frozenset({"f:secrets", "f:imagePullSecrets"})
_ATOMIC_FIELDS: Final = frozenset(f"f:{name}" for name in ATOMIC)
_BELOW_ATOMIC: Final = re.compile(rf"(\.(?:{'|'.join(sorted(ATOMIC))}))\.[A-Za-z]+")
_INDEX: Final = re.compile(r"\[(\d+|n)\]")
_BELOW_REFERENCE: Final = re.compile(r'(\.(?:secrets|imagePullSecrets)\[name="\w+"\])\.\w+')


class OlderMasking(Masking):
    """Compares with a current server what 1.20 and it have in common."""

    def agree(self, step: Step, real: View, ours: View) -> bool:
        if step.verb == "apply" and real.code in (400, 500) and ours.code == 400:
            # "types of applies": refused before the merge now.
            words = {"invalid", "object", "type:"}
            if words < set(ours.content["message"]):
                return True
        if step.verb == "delete" and real.code == ours.code == 200:
            # "deleted services": the object, where there was a Status.
            return "kind" in ours.content or real.content == ours.content
        if step.verb == "apply" and real.wrote and not ours.wrote:
            # "times of owners"
            real = replace(real, wrote=ours.wrote)
        return super().agree(step, real, ours)

    def view(self, subject: Subject, step: Step, answer: Answer) -> View:
        # "field validation"
        view = replace(super().view(subject, step, answer), warnings=())
        # "order of applied lists": another order is a write.
        return replace(view, wrote=None) if subject.reorders else view

    def misleads(self, answer: Answer) -> bool:
        """Whether somebody owns a map or item without owning anything in it: "emptied owners".

        The next apply makes 1.20 believe that it is all theirs.
        """
        if not isinstance(answer.body, dict) or "metadata" not in answer.body:
            return False
        return any(
            _emptied(entry["fieldsV1"], answer.body)
            for entry in answer.body["metadata"].get("managedFields", ())
            if entry["operation"] == "Update"
        )

    def settled(self, subject: Subject, obj: object) -> Json:
        shown = super().settled(subject, _without(obj, subject.newer))
        if subject.reorders:
            # A list in another order is a change of the spec, and of the template.
            for holder in (shown["metadata"], shown["metadata"].get("annotations", {})):
                for name in _COUNTS & holder.keys():
                    holder[name] = "present"
        return shown

    def _managers(self, subject: Subject, managed: object) -> Json:
        # "times of owners"
        return [
            (writer, timed or writer[1] == "Apply", fields)
            for writer, timed, fields in super()._managers(subject, managed)
        ]

    def _writer(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        # "subresource of managers"
        return (entry["manager"], entry["operation"], entry["apiVersion"])

    def _fields(self, subject: Subject, entry: Mapping[str, Any]) -> Json:
        newer = frozenset(f"f:{name}" for name in subject.newer)
        fields = _collapsed(_without(entry["fieldsV1"], newer))
        if not entry["manager"].startswith(STATUS):
            fields.pop("f:status", None)  # "owners of resets"
        return fields

    def _status(self, subject: Subject, status: Mapping[str, Any]) -> Json:
        view = super()._status(subject, status)
        # How often a finding is repeated differs.
        if subject.custom and view["reason"] == "Invalid":
            # "wording of schema errors"
            view["causes"] = [(_INDEX.sub("", field), "", "") for field, _, _ in view["causes"]]
        if view["causes"] and view["reason"] == "Invalid":
            view["message"] = ()  # it is the causes again, in full
        if view["reason"] == "Conflict" and len(view["causes"]) > 1:
            # "several conflicting paths"
            view["causes"] = [("", reason, message) for _, reason, message in view["causes"]]
            view["message"] = [word for word in view["message"] if not word.startswith(".")]
        view["message"] = sorted(set(view["message"]))
        view["causes"] = sorted(set(view["causes"]))
        if view["details"].get("group") == "extensions":
            view["details"]["group"] = "networking.k8s.io"
        return view

    def worded(self, subject: Subject, text: str) -> str:
        text = super().worded(subject, text)
        for pattern, words in _WORDING:
            text = pattern.sub(words, text)
        if subject.reorders:
            text = _INDEX.sub("[n]", text)
        text = _BELOW_ATOMIC.sub(r"\1", text)
        return _BELOW_REFERENCE.sub(r"\1", text)


def _without(value: object, names: frozenset[str]) -> Json:
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


def _emptied(fields: Json, value: object) -> bool:
    for key, below in fields.items():
        name = key[2:]
        inside = value.get(name) if key.startswith("f:") and isinstance(value, dict) else None
        if below:
            if _emptied(below, inside):
                return True
        elif (
            key.startswith("k:")
            or (isinstance(inside, list) and inside and name in ASSOCIATIVE)
            or (isinstance(inside, dict) and inside and name not in _SELECTORS)
        ):
            return True
    return False


def _collapsed(fields: Json, *, reference: bool = False) -> Json:
    kept: dict[str, Any] = {}
    for key, below in fields.items():
        if key.startswith(f"f:{_JOB_LABELS}"):
            continue
        if key in _ATOMIC_FIELDS or (reference and key.startswith("k:")):
            kept[key] = {}
        else:
            kept[key] = _collapsed(below, reference=key in _REFERENCES)
    return kept
