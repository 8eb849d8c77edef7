"""Pods as their owners make them, and what can be read from their status. No I/O."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import orjson
from fnv_hash_fast import fnv1a_32

from ctrlruntime.api.meta import set_controller_reference
from ctrlruntime.cache.entry import Entry
from ctrlruntime.clock import random_choice
from ctrlruntime.envtest.nodes.kinds import HASH_LABEL, NODE_NAME, Manifest

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery's safe characters: no words arise


def template_hash(template: Mapping[str, Any]) -> str:
    """Return a label value that stands for a Pod template; equal templates have equal ones."""
    value = fnv1a_32(orjson.dumps(template, option=orjson.OPT_SORT_KEYS))
    return "".join(_ALPHABET[int(digit) % len(_ALPHABET)] for digit in str(value))


def random_suffix(length: int = 5) -> str:
    return "".join(random_choice(_ALPHABET) for _ in range(length))


def with_hash(template: Manifest, value: str) -> Manifest:
    """Return a copy of `template` whose labels carry the hash."""
    labelled = copy.deepcopy(template)
    metadata = labelled.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: value}
    return labelled


def pod_of(
    owner: Manifest, template: Manifest, name: str, labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a Pod of `owner` from `template`, placed on the one node."""
    metadata = copy.deepcopy(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    metadata["name"] = name
    metadata["namespace"] = owner["metadata"]["namespace"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **(labels or {})}
    spec = copy.deepcopy(template.get("spec") or {})
    spec["nodeName"] = NODE_NAME
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    set_controller_reference(owner, pod)
    return pod


class PodView:
    """What a workload's controller wants to know of one of its Pods."""

    def __init__(self, entry: Entry) -> None:
        status = entry.field("status") or {}
        self.entry = entry
        self.name = entry.name
        self.phase: str = status.get("phase", "Pending")
        self.finished = self.phase in ("Succeeded", "Failed")
        self.deleting = entry.deletion_timestamp is not None
        self.active = not self.finished and not self.deleting
        self.ready = self.active and any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])
        )


def fails_to_pull(template: Mapping[str, Any]) -> bool:
    """Whether a container's image is named like one that does not exist."""
    spec = template.get("spec") or {}
    return any(c.get("image", "").endswith(":does-not-exist") for c in spec.get("containers", []))
