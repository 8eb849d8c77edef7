"""The folder `data-plane`: what is installed on a data plane, without containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from apis.cloud import GROUP as CLOUD
from apis.cosmos import GROUP as COSMOS
from apis.fleet.labels import ADMISSION_SECRET, ORPHAN_RECORD, PLANE_NAMESPACE
from ctrlruntime.api import BUILTIN, GroupKind, Manifest, RESTMapping
from ctrlruntime.generate import Rule, roles, serves_webhooks, to_yaml
from ctrlruntime.generate.layout import METRICS_AUTH, aggregated_role, binding, kustomization
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from internal.fleet.labels import ADMISSION
from internal.fleet.pods import WORKLOADS
from internal.fleet.routing import FOLLOWERS
from internal.tenancy.shared.missing_permissions import AGGREGATE

GRANTED = "fleet-stack-aggregated-role"
"""The rules of all ClusterRoles that an administrator of the data plane labels for the stack."""
ACCOUNT = "fleet-stack"
"""The account of the kubeconfig that its owner makes for the hub."""
SECRET = GroupKind("", "Secret")
READS = ("list", "watch")
WRITES = ("create", "delete", "patch", "update")
_LEASES = ("coordination.k8s.io",), ("leases",)
_WORKLOADS = frozenset(
    (mapping.gvk.group, mapping.plural)
    for mapping in BUILTIN.values()
    if mapping.gvk.group_kind in WORKLOADS
)

IDENTIFIES = Rule(
    groups=("",),
    resources=("namespaces",),
    verbs=("get",),
    names=(PLANE_NAMESPACE, "kube-system"),
)
"""The UID of `kube-system`, or without that of `fleet-system`, is the id of a data plane."""


CONFIGURES = Rule(
    groups=("admissionregistration.k8s.io",),
    resources=("validatingwebhookconfigurations",),
    verbs=("create", "delete", "list"),
    names=(ADMISSION,),
)
"""Where a namespace has the annotation `admission-url`. An apply is authorized to create by name."""


HOLDS_JOBS = Rule(groups=(COSMOS,), resources=("statefuljobs",), verbs=("patch",))
"""On a data plane alone StatefulJobs have a finalizer: no garbage collector removes what they have on the hub."""
BUNDLES = Rule(groups=("",), resources=("configmaps",), verbs=READS)
"""ConfigMaps that workloads of Instances are made from; a run is given their texts."""
RECORDS = Rule(
    groups=("",), resources=("configmaps",), verbs=("get", "patch"), names=(ORPHAN_RECORD,)
)
"""What the sweep of orphans let go, and what waits; a create has no name that a rule could restrict."""
READ_LIVE = ("Pod", "Job", "PersistentVolumeClaim")
"""Kinds of the hub of which a stack reads single objects past its cache."""


def of_cosmos(rules: Iterable[Rule]) -> list[Rule]:
    """Return what the cosmos system needs on a data plane: its own kinds.

    All else that it writes is on the hub, and no object there names an owner that blocks its deletion.
    """
    own = (each for each in rules if each.groups == (COSMOS,))
    return [*(each for each in own if not _is_of_finalizers(each)), HOLDS_JOBS]


def of_cloud(rules: Iterable[Rule]) -> list[Rule]:
    """Return what the cloud system needs on a data plane: its own kinds, and the ConfigMaps of bundles.

    Runs, and the Secrets that they read and hand over, are on the hub.
    """
    return [each for each in rules if each.groups == (CLOUD,) or each == BUNDLES]


def _is_of_finalizers(rule: Rule) -> bool:
    return all(each.endswith("/finalizers") for each in rule.resources)


def without_workloads(rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules without the kinds that run containers, which never go to a data plane."""
    kept: list[Rule] = []
    for rule in rules:
        for group in rule.groups:
            left = tuple(name for name in rule.resources if (group, name) not in _WORKLOADS)
            if left:
                kept.append(replace(rule, groups=(group,), resources=left))
    return kept


def data_plane_rules(systems: Iterable[Rule], kinds: Mapping[str, str]) -> list[Rule]:
    """Return what a stack needs on its data plane.

    `systems`: what those that run there need; `kinds`: plural of each kind whose objects are read live, and its group.
    """
    reads = [
        Rule(groups=(group,), resources=(name,), verbs=("get",)) for name, group in kinds.items()
    ]
    groups, resources = _LEASES
    election = [
        Rule(
            groups=groups,
            resources=resources,
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            namespace=PLANE_NAMESPACE,
        )
    ]  # without names: each member of a stack has a Lease of its own
    certificates = serves_webhooks(ADMISSION_SECRET, PLANE_NAMESPACE, validating=[ADMISSION])
    return [*without_workloads(systems), IDENTIFIES, *reads, *election, *certificates, CONFIGURES]


def data_plane_files(
    rules: Iterable[Rule], crds: Iterable[str], labels: Mapping[str, str]
) -> dict[str, str]:
    """Return the folder's files by path. `crds`: files of `config/crd/bases`."""
    made: dict[str, list[Manifest]] = {
        "namespace": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLANE_NAMESPACE}}
        ],
        "service_account": [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": ACCOUNT, "namespace": PLANE_NAMESPACE},
            }
        ],
        "role": roles(rules, "fleet-stack-role"),
        "aggregated_role": [aggregated_role(GRANTED, AGGREGATE)],
        "aggregated_role_binding": [_bound(binding(f"{GRANTED}binding", GRANTED, ACCOUNT))],
        "role_binding": [
            _bound(binding("fleet-stack-rolebinding", "fleet-stack-role", ACCOUNT)),
            _bound(binding("fleet-stack-rolebinding", "fleet-stack-role", ACCOUNT, kind="Role")),
        ],
    }
    files = {
        f"data-plane/{name}.yaml": to_yaml(
            [{**each, "metadata": {**each["metadata"], "labels": dict(labels)}} for each in found]
        )
        for name, found in made.items()
    }
    resources = [*(f"{name}.yaml" for name in made), *crds]
    return {**files, "data-plane/kustomization.yaml": kustomization(resources)}


def _bound(made: Manifest) -> Manifest:
    """Return the binding, of the account on the data plane."""
    (subject,) = made["subjects"]
    metadata = dict(made["metadata"])
    if made["kind"] == "RoleBinding":
        metadata["namespace"] = PLANE_NAMESPACE
    return {
        **made,
        "metadata": metadata,
        "subjects": [{**subject, "namespace": PLANE_NAMESPACE}],
    }


def stack_roles() -> dict[str, Manifest]:
    """Return the ClusterRoles that the account of a stack is bound to on the hub, by the names of their files.

    The first for all namespaces, as what a stack watches cannot be narrowed by label; the second in each
    parallel namespace; the third, for Secrets, in either; the fourth in the target namespace. Runs of Instances read theirs one by one.
    """
    on_hub = [each for each in BUILTIN.values() if each.gvk.group_kind in WORKLOADS | FOLLOWERS]
    # The sweep of orphans reads its target namespace; tenants may have Namespaces; readers of metrics are reviewed;
    # events have why a Job of a run has no Pod.
    namespaces = Rule(groups=("",), resources=("namespaces",), verbs=("get", *READS))
    secrets = [each for each in on_hub if each.gvk.group_kind == SECRET]
    live = [each for each in on_hub if each.gvk.kind in READ_LIVE]
    rules = {
        "reader": [
            namespaces,
            *METRICS_AUTH,
            *_rules(READS, (each for each in on_hub if each not in secrets)),
            *_rules(("get",), live),
            *_rules(READS, [VOLUME_SNAPSHOT]),
            Rule(groups=("",), resources=("events",), verbs=READS),
        ],
        "writer": _rules(WRITES, (*(each for each in on_hub if each.namespaced), VOLUME_SNAPSHOT)),
        "secret-reader": _rules(("get", *READS), secrets),
        "recorder": [RECORDS, Rule(groups=("",), resources=("configmaps",), verbs=("create",))],
    }
    return {
        f"stack_{who.replace('-', '_')}_role": roles(found, f"fleet-stack-{who}")[0]
        for who, found in rules.items()
    }


def _rules(verbs: tuple[str, ...], kinds: Iterable[RESTMapping]) -> list[Rule]:
    return [Rule(groups=(each.gvk.group,), resources=(each.plural,), verbs=verbs) for each in kinds]
