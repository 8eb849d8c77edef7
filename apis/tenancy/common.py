"""What the kinds of the group share: a resource in a template, its policies, the sixteen lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import Field

from apis.references import Name, SecretKeyRef, ServiceAccountName
from ctrlruntime.api import CEL, ApiModel, GroupKind, Int32, ListMap, RawExtension

__all__ = [
    "GROUP",
    "LIST_KINDS",
    "VERSION",
    "Characters",
    "ConflictPolicy",
    "CreationPolicy",
    "DeletionPolicy",
    "ForEach",
    "GeneratedValue",
    "GeneratedValues",
    "Hook",
    "HookMoment",
    "Hooks",
    "Name",
    "OnImmutable",
    "PatchStrategy",
    "ReadyCheck",
    "ResourceLists",
    "SecretKeyRef",
    "ServiceAccountName",
    "TResource",
    "resource_lists",
]

GROUP = "tenancy.ctrlruntime.dev"
VERSION = "v1"


class CreationPolicy(StrEnum):
    """When a resource is applied."""

    ONCE = "Once"
    WHEN_NEEDED = "WhenNeeded"


class DeletionPolicy(StrEnum):
    """What becomes of a resource that is no longer wanted."""

    DELETE = "Delete"
    RETAIN = "Retain"


class ConflictPolicy(StrEnum):
    """What happens when someone else owns a field that the template sets."""

    STUCK = "Stuck"
    FORCE = "Force"


class OnImmutable(StrEnum):
    """What happens when the server refuses a change, since a field cannot be changed."""

    FAIL = "Fail"
    RECREATE = "Recreate"


class PatchStrategy(StrEnum):
    """How a resource is written."""

    APPLY = "apply"
    MERGE = "merge"
    REPLACE = "replace"


class ReadyCheck(ApiModel):
    """What must hold of a live object for it to count as ready: `jsonPath`, with or without `value`, or `cel` alone."""

    json_path: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    """Path of the value, such as $.status.conditions[?(@.type=='Synced')].status. Without recursive descent,
    functions and patterns."""
    cel: Annotated[str | None, Field(min_length=1, max_length=1024)] = None
    """Expression in CEL that must be true, with the object as self, such as self.status.replicas >= 2. Without
    matches(), times, bytes and optional syntax."""
    value: Annotated[str, Field(max_length=1024)] | None = None
    """Text that every selected value must equal (a number or boolean as JSON writes it); default: a value is
    there."""


class Characters(StrEnum):
    """What a generated value is made of."""

    ALPHANUMERIC = "Alphanumeric"
    LOWERCASE = "Lowercase"
    HEX = "Hex"
    DIGITS = "Digits"


class GeneratedValue(ApiModel):
    """A value that is drawn once for each tenant and then stays."""

    length: Annotated[Int32, Field(ge=8, le=256)] = 32
    """Characters of the value."""
    characters: Characters = Characters.ALPHANUMERIC
    """Alphanumeric: letters and digits. Lowercase: small letters and digits. Hex: 0 to 9 and a to f. Digits: 0 to 9."""


GeneratedValues = Annotated[
    dict[str, GeneratedValue],
    Field(max_length=32),
    CEL(
        "self.all(name, name.matches('^[A-Za-z][A-Za-z0-9_]*$') && name.size() <= 63)",
        message="a name has letters, digits and '_' only, 63 at most, and starts with a letter",
    ),
]


class HookMoment(StrEnum):
    """When a hook runs."""

    BEFORE_CREATE = "BeforeCreate"
    BEFORE_DELETE = "BeforeDelete"
    AFTER_DELETE = "AfterDelete"


class Hook(ApiModel):
    """A Job that runs once at a moment in the life of each tenant; those of one moment run one after the other."""

    id: Annotated[
        str,
        Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"),
    ]
    """Identity within the template."""
    moment: HookMoment
    """BeforeCreate: before anything of the tenant is applied. BeforeDelete: before anything is removed.
    AfterDelete: once all is removed."""
    name_template: str | None = None
    """Template of metadata.name; without it, spec.metadata.name is used."""
    spec: RawExtension
    """The whole manifest of a batch/v1 Job in the tenant's namespace. Strings in it are templates."""
    timeout_seconds: Annotated[Int32, Field(ge=1, le=86_400)] = 600
    """The Job's activeDeadlineSeconds, where its manifest has none."""


Hooks = Annotated[list[Hook], ListMap("id"), Field(max_length=16)]


class ForEach(ApiModel):
    """A list of the row: each of its elements gets an object of its own."""

    items: Annotated[str, Field(min_length=1, max_length=4096)]
    """Template of the list: a JSON array, or texts with commas between them; an empty list is []. Without
    sensitive variables."""
    variable: Annotated[
        str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    ] = "item"
    """Variable that holds the element in the other templates of the entry: its text, or an object as JSON."""
    key: Annotated[str, Field(min_length=1, max_length=63)] = "name"
    """Field that distinguishes elements that are objects; other elements are distinguished by themselves."""


class TResource(ApiModel):
    """One resource of every tenant: what to render and how to look after it."""

    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        ),
    ]
    """Identity within the template, across all its lists; named by dependIds."""
    spec: RawExtension
    """The whole manifest: apiVersion, kind, metadata, spec and so on. Strings in it are templates."""
    name_template: str | None = None
    """Template of metadata.name; without it, spec.metadata.name is used."""
    target_namespace: str | None = None
    """Template of the namespace to put the resource in; default: the tenant's own."""
    labels_template: dict[str, str] = Field(default_factory=dict)
    """Labels to add; the values are templates."""
    annotations_template: dict[str, str] = Field(default_factory=dict)
    """Annotations to add; the values are templates."""
    when: Annotated[str | None, Field(min_length=1, max_length=4096)] = None
    """Template of true or false: whether the tenant gets the resource; default: it does. Where it does not,
    deletionPolicy decides what becomes of one that was applied, and what depends on it goes on without it."""
    for_each: ForEach | None = None
    """Make an object for each element of a list, with the ids `id[element]`."""
    depend_ids: list[str] = Field(default_factory=list)
    """Ids of the resources that must be ready before this one is applied."""
    skip_on_dependency_failure: bool = True
    """Skip the resource when one it depends on has failed; otherwise apply it all the same."""
    creation_policy: CreationPolicy = CreationPolicy.WHEN_NEEDED
    """Once: apply it a single time and leave it alone afterwards. WhenNeeded: keep it as rendered."""
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    """Delete: remove it with the tenant or its template entry. Retain: keep it, marked as orphaned."""
    conflict_policy: ConflictPolicy = ConflictPolicy.STUCK
    """Stuck: report a conflict over fields owned by others. Force: take the fields over."""
    patch_strategy: PatchStrategy = PatchStrategy.APPLY
    """apply: server-side apply. merge: JSON merge patch. replace: full update."""
    on_immutable: OnImmutable | None = None
    """Fail, the default: report a change that the server refuses. Recreate: where the server would take the content as a new
    object, delete the present one and create it again; not of kinds that hold data or other objects."""
    ignore_fields: list[str] = Field(default_factory=list)
    """JSON paths of fields that keep their live value once the resource exists."""
    wait_for_ready: bool = True
    """Count the resource as ready, and let others depend on it, only when it really is."""
    ready_when: Annotated[list[ReadyCheck], Field(max_length=8)] = Field(default_factory=list)
    """What must hold of the live object as well, once its kind's own rule calls it ready."""
    timeout_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 300
    """How long the resource may take to become ready before it counts as failed."""


MOST_OF_A_LIST: Final = 500
"""Most resources of one list; all lists of a template together have no more."""
ResourceList = Annotated[list[TResource], Field(max_length=MOST_OF_A_LIST), ListMap("id")]


class ResourceLists(ApiModel):
    """The sixteen lists of resources. Their names group; each entry names its kind."""

    service_accounts: ResourceList = Field(default_factory=list)
    """ServiceAccounts."""
    deployments: ResourceList = Field(default_factory=list)
    """Deployments."""
    stateful_sets: ResourceList = Field(default_factory=list)
    """StatefulSets."""
    daemon_sets: ResourceList = Field(default_factory=list)
    """DaemonSets."""
    services: ResourceList = Field(default_factory=list)
    """Services."""
    ingresses: ResourceList = Field(default_factory=list)
    """Ingresses."""
    config_maps: ResourceList = Field(default_factory=list)
    """ConfigMaps."""
    secrets: ResourceList = Field(default_factory=list)
    """Secrets."""
    persistent_volume_claims: ResourceList = Field(default_factory=list)
    """PersistentVolumeClaims."""
    jobs: ResourceList = Field(default_factory=list)
    """Jobs."""
    cron_jobs: ResourceList = Field(default_factory=list)
    """CronJobs."""
    pod_disruption_budgets: ResourceList = Field(default_factory=list)
    """PodDisruptionBudgets."""
    network_policies: ResourceList = Field(default_factory=list)
    """NetworkPolicies."""
    horizontal_pod_autoscalers: ResourceList = Field(default_factory=list)
    """HorizontalPodAutoscalers."""
    namespaces: ResourceList = Field(default_factory=list)
    """Namespaces."""
    manifests: ResourceList = Field(default_factory=list)
    """Resources of any other kind."""


_LISTS = tuple((name, str(field.alias)) for name, field in ResourceLists.model_fields.items())

LIST_KINDS: Mapping[str, GroupKind] = MappingProxyType(
    {
        "serviceAccounts": GroupKind("", "ServiceAccount"),
        "deployments": GroupKind("apps", "Deployment"),
        "statefulSets": GroupKind("apps", "StatefulSet"),
        "daemonSets": GroupKind("apps", "DaemonSet"),
        "services": GroupKind("", "Service"),
        "ingresses": GroupKind("networking.k8s.io", "Ingress"),
        "configMaps": GroupKind("", "ConfigMap"),
        "secrets": GroupKind("", "Secret"),
        "persistentVolumeClaims": GroupKind("", "PersistentVolumeClaim"),
        "jobs": GroupKind("batch", "Job"),
        "cronJobs": GroupKind("batch", "CronJob"),
        "podDisruptionBudgets": GroupKind("policy", "PodDisruptionBudget"),
        "networkPolicies": GroupKind("networking.k8s.io", "NetworkPolicy"),
        "horizontalPodAutoscalers": GroupKind("autoscaling", "HorizontalPodAutoscaler"),
        "namespaces": GroupKind("", "Namespace"),
    }
)
"""The kind that each list is named after, by wire name; ``manifests`` takes any."""


def resource_lists(spec: ResourceLists) -> Iterator[tuple[str, TResource]]:
    """Every resource with the wire name of its list, in the order of the lists and of each list."""
    for name, wire_name in _LISTS:
        for resource in getattr(spec, name):
            yield wire_name, resource
