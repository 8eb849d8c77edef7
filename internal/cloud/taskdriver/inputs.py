"""What a task is carried out for: its inputs, named and compared."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apis.cloud import TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.resources.revision import canonical
from internal.cloud.content import content
from internal.cloud.labels import CONTROL

FOREIGN_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "argocd.argoproj.io",
    "meta.helm.sh",
)
"""Domains, with all below them, whose annotations tools write for themselves."""
LIBRARY_DOMAIN: Final = "ctrlruntime.dev"
"""What the library records on objects; the domains below it are those of the systems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of one object, now."""

    version: str
    """`<generation>-<40 hex>`: another one for every change that may matter."""
    hash: str
    """Of spec and annotations: the same again when the same content is asked for again."""
    annotations: Mapping[str, str]
    """The annotations that count."""


def inputs_of(resource: Resource[Any, TaskStatus]) -> Inputs:
    """The inputs of an object. Its status, labels and the order of its annotations are none."""
    annotations = counting(resource.metadata.annotations or {})
    generation = resource.metadata.generation or 0
    return Inputs(
        version=f"{generation}-{digest(annotations)}",
        hash=digest({"spec": content(resource.spec), "annotations": annotations}),
        annotations=annotations,
    )


def counting(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that are inputs: all but those of tools, and those that steer controllers."""
    return {key: value for key, value in sorted(annotations.items()) if _counts(key)}


def _counts(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if key in CONTROL or domain == LIBRARY_DOMAIN:
        return False
    return not any(domain == name or domain.endswith(f".{name}") for name in FOREIGN_DOMAINS)


def digest(value: Any) -> str:
    """SHA-1 of the canonical JSON, 40 hexadecimal digits. A name, not a protection."""
    return hashlib.sha1(canonical(value), usedforsecurity=False).hexdigest()
