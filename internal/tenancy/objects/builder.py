"""The builder: a Tenant and its variables to desired objects, in the order of the graph.

What is built depends on nothing but its arguments. A resource that cannot be rendered is a problem of
its own; the others are built all the same.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from apis.tenancy import (
    ConflictPolicy,
    CreationPolicy,
    Hook,
    HookMoment,
    Tenant,
    TResource,
    resource_lists,
)
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.resources import Desired, PatchStrategy, revision
from internal.tenancy.objects.expansion import expand, render_exactly
from internal.tenancy.objects.graph import MOST_RESOURCES, Graph, dependencies_of, load
from internal.tenancy.objects.ignore_fields import drift_paths_beside
from internal.tenancy.objects.path_errors import IgnoreFieldError
from internal.tenancy.objects.variables import Variables
from internal.tenancy.rendering import Manifest, Renderer, RenderError, combine
from internal.tenancy.shared.labels import HOOK, RESOURCE_ID, SKIP_HOOKS
from internal.tenancy.shared.missing_permissions import Grant
from internal.tenancy.shared.naming import LOCAL, IllegalName, ResourceKey, check_name, entry_id
from internal.tenancy.shared.policies import NAMESPACE, Tie, tracking
from internal.tenancy.shared.privileges import PrivilegeRefused, Privileges

Mappings = Callable[[GroupVersionKind], RESTMapping | None]
"""Finds how a kind is served; None when the server does not serve it."""

_SERVER_SET = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "ownerReferences",
)


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class BuiltResource:
    """One resource of the tenant: its desired object, or the problem with it in one sentence.

    `missing_kind` is set when the server does not serve its kind, `grant` when the manager may not
    read it; `transient`: the same input may work later.
    """

    resource: TResource
    level: int
    desired: Desired | None = None
    key: ResourceKey | None = None
    problem: str = ""
    missing_kind: GroupVersionKind | None = None
    grant: Grant | None = None
    transient: bool = False
    clusters: tuple[str, ...] = (LOCAL,)
    """The clusters that get the object, in the order of writing."""
    doubt: str = ""
    """Why these clusters may be the wrong ones, in one sentence."""
    lost: tuple[str, ...] = ()
    """What conversions in its templates lost, each with its place."""

    @property
    def entry(self) -> str:
        """The id of the entry of the template that it comes from."""
        return entry_id(self.resource.id)

    @property
    def further(self) -> tuple[ResourceKey, ...]:
        """The keys of the object in clusters after the first."""
        if self.key is None or len(self.clusters) == 1:
            return ()
        return tuple(replace(self.key, cluster=name) for name in self.clusters[1:])

    def key_in(self, cluster: str) -> ResourceKey | None:
        """Return the key of the object in one of its clusters."""
        if self.key is None or self.key.cluster == cluster:
            return self.key
        return replace(self.key, cluster=cluster)


@dataclass(frozen=True, slots=True)
class Build:
    """All resources of a tenant in the order of applying, and the graph they form."""

    resources: tuple[BuiltResource, ...]
    graph: Graph

    def levels(self) -> list[list[BuiltResource]]:
        made: list[list[BuiltResource]] = [[] for _ in self.graph.levels]
        for item in self.resources:
            made[item.level].append(item)
        return made

    def lost(self) -> list[str]:
        """Return what conversions lost, with resource and place, in the order of applying."""
        return [f"{item.resource.id}: {text}" for item in self.resources for text in item.lost]


async def build(
    tenant: Tenant,
    variables: Variables,
    renderer: Renderer,
    mappings: Mappings,
    privileges: Privileges | None = None,
) -> Build:
    """Return the tenant's resources. Raises GraphError when they cannot be put in order.

    What `privileges` do not allow is a problem of its resource; by default, they allow the least.
    """
    privileges = privileges or Privileges()
    renderer = renderer.for_namespace(tenant.metadata.namespace)
    resources = {item.id: item for _, item in resource_lists(tenant.spec)}
    await load()
    graph = graph_of(tenant)
    levels = graph.level_of()
    built: list[BuiltResource] = []
    taken: dict[tuple[object, str, str], str] = {}
    for name in graph.order:
        room = MOST_RESOURCES - len(built)
        entry = await _build_entry(
            tenant, resources[name], levels[name], variables, renderer, mappings, privileges, room
        )
        built += (_unique(item, taken) for item in entry)
    made = {item.key.name for item in built if item.key and item.key.kind == NAMESPACE}
    home = tenant.metadata.namespace or ""
    return Build(tuple(_in_place(item, made, home, privileges) for item in built), graph)


async def build_hook(
    tenant: Tenant,
    hook: Hook,
    variables: Variables,
    renderer: Renderer,
    mappings: Mappings,
    privileges: Privileges,
) -> BuiltResource:
    """Return the Job of a hook, or the problem with it."""
    renderer = renderer.for_namespace(tenant.metadata.namespace)
    built = await _build_one(
        tenant, hook_resource(hook), 0, variables, renderer, mappings, privileges
    )
    return _in_place(built, frozenset(), tenant.metadata.namespace or "", privileges)


def hooks_of(tenant: Tenant, annotations: Mapping[str, str], moment: HookMoment) -> list[Hook]:
    """Return the hooks of a moment, in the order of their runs, without those that the annotations skip."""
    skipped = {each.strip() for each in annotations.get(SKIP_HOOKS, "").split(",")}
    return [
        hook
        for hook in tenant.spec.hooks
        if hook.moment is moment and not skipped & {hook.id, "all"}
    ]


def hook_resource(hook: Hook) -> TResource:
    """Return a hook as a resource of its tenant."""
    job = dict(hook.spec)
    if isinstance(spec := job.get("spec"), Mapping):
        job["spec"] = {"activeDeadlineSeconds": hook.timeout_seconds, **spec}
    resource = TResource(id=hook.id, spec=job, name_template=hook.name_template)
    return resource.model_copy(update={"id": f"{HOOK}{hook.id}"})


async def _build_entry(
    tenant: Tenant,
    entry: TResource,
    level: int,
    variables: Variables,
    renderer: Renderer,
    mappings: Mappings,
    privileges: Privileges,
    room: int,
) -> list[BuiltResource]:
    """Return the resources of an entry of the template, or the problem with it."""
    try:
        expanded = await expand(entry, variables, renderer)
    except RenderError as error:
        problem, transient = str(error), error.transient
        return [BuiltResource(resource=entry, level=level, problem=problem, transient=transient)]
    if len(expanded) > room:
        problem = f"with its {len(expanded)} objects, the tenant has more than {MOST_RESOURCES}"
        return [BuiltResource(resource=entry, level=level, problem=problem)]
    return [
        await _build_one(
            tenant, each.resource, level, each.variables, renderer, mappings, privileges
        )
        for each in expanded
    ]


def _unique(item: BuiltResource, taken: dict[tuple[object, str, str], str]) -> BuiltResource:
    """Return the resource, or its problem if another one is the same object."""
    if item.key is None:
        return item
    place = (item.key.kind, item.key.namespace, item.key.name)
    holder = taken.setdefault(place, item.resource.id)
    if holder == item.resource.id:
        return item
    problem = f"it is the same object as the resource {holder!r}"
    return BuiltResource(resource=item.resource, level=item.level, problem=problem)


def _in_place(
    item: BuiltResource, made: Set[str], home: str, privileges: Privileges
) -> BuiltResource:
    """Return the item, or its problem if it is in a namespace that the tenant may not write to."""
    if item.desired is None or not item.desired.mapping.namespaced:
        return item
    try:
        privileges.check_place(item.desired.namespace, home, made=made)
    except PrivilegeRefused as error:
        return BuiltResource(resource=item.resource, level=item.level, problem=str(error))
    return item


def not_served(kind: GroupVersionKind) -> str:
    """Say which kind the server lacks, and what to do."""
    return (
        f"the server does not serve {kind.api_version} {kind.kind}; install its "
        "CustomResourceDefinition, or correct apiVersion and kind in the template"
    )


def graph_of(tenant: Tenant) -> Graph:
    """Return the graph of a tenant's resources; equal templates share one. Raises GraphError."""
    return _graph(
        tuple(
            (name, tuple(others))
            for name, others in dependencies_of(item for _, item in resource_lists(tenant.spec))
        )
    )


@lru_cache(maxsize=256)
def _graph(resources: tuple[tuple[str, tuple[str, ...]], ...]) -> Graph:
    return Graph.build(resources)


async def _build_one(
    tenant: Tenant,
    resource: TResource,
    level: int,
    variables: Variables,
    renderer: Renderer,
    mappings: Mappings,
    privileges: Privileges,
) -> BuiltResource:
    lost: list[str] = []
    try:
        manifest = await render(resource, variables, renderer, lost)
        kind = GroupVersionKind.of(manifest)
        privileges.check_kind(kind.group_kind, namespaced=True)
        mapping = mappings(kind)
        if mapping is None:
            problem = not_served(kind)
            return BuiltResource(resource=resource, level=level, problem=problem, missing_kind=kind)
        desired = await _desired(tenant, resource, level, manifest, mapping)
        privileges.check(desired.manifest, kind.group_kind, namespaced=mapping.namespaced)
        if not mapping.namespaced:
            home = tenant.metadata.namespace or ""
            privileges.check_cluster_scoped(desired.manifest, kind.group_kind, home)
            desired = _without_takeover(desired, home, privileges)
    except RenderError as error:
        return BuiltResource(
            resource=resource, level=level, problem=str(error), transient=error.transient
        )
    except (IllegalName, IgnoreFieldError, ValueError) as error:
        return BuiltResource(resource=resource, level=level, problem=str(error))
    key = ResourceKey(kind.group_kind, desired.namespace, desired.name, resource.id)
    return BuiltResource(resource=resource, level=level, desired=desired, key=key, lost=tuple(lost))


async def render(
    resource: TResource, variables: Variables, renderer: Renderer, lost: list[str] | None = None
) -> Manifest:
    """Return the resource's manifest, rendered once; what conversions lost is added to `lost`. Raises RenderError.

    Kind, name and namespace show in statuses and events, so no sensitive variable is defined there. They decide
    which object it is, so a conversion that loses something is an error there.
    """
    manifest = combine(
        resource.spec,
        name=resource.name_template,
        namespace=resource.target_namespace,
        labels=resource.labels_template,
        annotations=resource.annotations_template,
    )
    if not variables.sensitive:
        found: list[str] = []
        rendered = await renderer.render(manifest, variables.values, found)
        if found:  # only a bounded number is listed, so the identity is looked at by itself
            await render_exactly(_split(manifest)[0], variables, renderer)
        if lost is not None:
            lost += found
        return rendered
    identity, body = _split(manifest)
    shown = await render_exactly(identity, variables, renderer)
    rendered = await renderer.render(body, variables.values, lost)
    return {**rendered, **shown, "metadata": {**rendered["metadata"], **shown["metadata"]}}


def _split(manifest: Manifest) -> tuple[Manifest, Manifest]:
    """Identity and body: each string is in one of them, so that each is rendered once."""
    metadata = manifest["metadata"]
    shown = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    identity: Manifest = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
    rest = {key: item for key, item in metadata.items() if key not in shown}
    body = {key: item for key, item in manifest.items() if key != "apiVersion"}
    body["kind"] = manifest.get("kind") if "{{" not in str(manifest.get("kind")) else ""
    return {**identity, "metadata": shown}, {**body, "metadata": rest}


async def _desired(
    tenant: Tenant, resource: TResource, level: int, manifest: Manifest, mapping: RESTMapping
) -> Desired:
    home = tenant.metadata.namespace or ""
    cleaned = clean(manifest, namespace=home if mapping.namespaced else None)
    name = check_name(cleaned["metadata"].get("name"))
    namespace = str(cleaned["metadata"].get("namespace", ""))
    marks = tracking(
        resource, mapping.gvk.group_kind, namespace, tenant.metadata.name or name, home
    )
    return Desired(
        mapping=mapping,
        manifest=cleaned,
        revision=revision(cleaned),
        ordinal=level,
        strategy=PatchStrategy(resource.patch_strategy.value),
        force=resource.conflict_policy is ConflictPolicy.FORCE,
        once=resource.creation_policy is CreationPolicy.ONCE,
        reference=marks.tie is Tie.REFERENCE,
        labels=marks.labels,
        annotations={**marks.annotations, RESOURCE_ID: resource.id},
        ignored=await drift_paths_beside(cleaned, resource.ignore_fields),
    )


def _without_takeover(desired: Desired, home: str, privileges: Privileges) -> Desired:
    """Return the desired object, unforced where only a Namespace of the tenant's own is allowed."""
    is_namespace = desired.mapping.gvk.group_kind == NAMESPACE
    if is_namespace and (desired.name == home or not privileges.foreign.lists(desired.name)):
        return replace(desired, force=False, revision=desired.revision)
    return desired


def clean(manifest: Manifest, *, namespace: str | None) -> Manifest:
    """Return the manifest as it is applied: no status, nothing the server sets, `stringData` as `data`.

    `namespace` is the default; None for cluster-scoped kinds, whose namespace is dropped.
    """
    metadata = {key: item for key, item in manifest["metadata"].items() if key not in _SERVER_SET}
    if namespace is None:
        metadata.pop("namespace", None)
    else:
        metadata["namespace"] = metadata.get("namespace") or namespace
    cleaned = {key: item for key, item in manifest.items() if key != "status"}
    cleaned["metadata"] = metadata
    if cleaned.get("kind") == "Secret" and cleaned.get("apiVersion") == "v1":
        _encode_string_data(cleaned)
    return cleaned


def _encode_string_data(secret: dict[str, Any]) -> None:
    texts = secret.pop("stringData", None)
    if not texts:
        return
    if not isinstance(texts, Mapping) or not all(isinstance(t, str) for t in texts.values()):
        raise ValueError("stringData must be a mapping of texts")
    data = secret.get("data") or {}
    if not isinstance(data, Mapping):
        raise ValueError("data must be a mapping of texts")
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    secret["data"] = {**data, **encoded}
