"""Names of tenants, and the keys under which a status remembers applied resources."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from ctrlruntime.api.kinds import GroupKind

LONGEST_NAME = 253
LONGEST_LABEL = 63
LOCAL = ""
"""The name of the cluster that has the tenants."""

_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)


class IllegalName(ValueError):
    """A row's uid, or a name made of it, is not a valid Kubernetes name."""


def check_uid(uid: str) -> str:
    """Return the uid itself. Raises IllegalName; a uid is never rewritten, or two rows could become one."""
    if len(uid) > LONGEST_LABEL:
        raise IllegalName(f"it is longer than {LONGEST_LABEL} characters")
    if not _SUBDOMAIN.fullmatch(uid):
        raise IllegalName(
            "it may have lower-case letters, digits, '-' and '.' only, and starts and ends with a "
            "letter or digit"
        )
    return uid


def tenant_name(uid: str, template: str) -> str:
    """`{uid}-{template}`. Raises IllegalName."""
    name = f"{check_uid(uid)}-{template}"
    if len(name) > LONGEST_NAME or not _SUBDOMAIN.fullmatch(name):
        raise IllegalName(f"with template {template!r} it makes no valid name")
    return name


def check_name(name: object) -> str:
    """Return a rendered object name. Raises IllegalName. Some kinds allow less; the server has the last word."""
    if not isinstance(name, str) or not name:
        raise IllegalName("the rendered manifest has no metadata.name")
    if len(name) > LONGEST_NAME or "/" in name or name in {".", ".."} or "%" in name:
        raise IllegalName("the rendered metadata.name is not a valid name")
    return name


def entry_id(resource_id: str) -> str:
    """Return the id that a template gives the entry of a resource: `shard` for `shard[eu]`."""
    return resource_id.partition("[")[0]


def label_value(text: str) -> str:
    """Return the text as a label value: itself where it fits, else its beginning and a digest of all of it."""
    if len(text) <= LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{text[: LONGEST_LABEL - 11].rstrip('-._')}-{digest}"


@dataclass(frozen=True, slots=True, order=True)
class ResourceKey:
    """One resource of a tenant: `Deployment.apps/namespace/name@id`; no namespace if it has none.

    In another cluster than the tenant's, the cluster's name comes first:
    `hub:Deployment.apps/namespace/name@id`.

    The group makes every kind deletable later, custom kinds included; the version is left to the
    server's choice, since it may have moved on by then.
    """

    kind: GroupKind
    namespace: str
    name: str
    id: str
    cluster: str = LOCAL

    def __str__(self) -> str:
        key = f"{self.kind}/{self.namespace}/{self.name}@{self.id}"
        return f"{self.cluster}:{key}" if self.cluster else key

    @classmethod
    def parse(cls, text: str) -> ResourceKey:
        """Return the key that `str` wrote. Raises ValueError."""
        place, at, resource = text.partition("@")
        parts = place.split("/")
        if not at or len(parts) != 3 or not parts[0] or not parts[2]:
            raise ValueError(f"{text!r} is not a resource key (Kind.group/namespace/name@id)")
        cluster, _, kind = parts[0].rpartition(":")
        kind, _, group = kind.partition(".")
        return cls(GroupKind(group, kind), parts[1], parts[2], resource, cluster)
