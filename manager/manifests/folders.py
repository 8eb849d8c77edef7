"""Manifests from code: CRDs, roles from what controllers declare, webhooks, folders of kustomize."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from apis.cloud import FleetRollout, Instance
from apis.cosmos import CosmosFullNode
from apis.fleet.labels import KUBECONFIG_SECRET, ORPHAN_RECORD
from apis.operations import ChangeFreeze
from apis.tenancy import LIST_KINDS, TenantRegistry
from ctrlruntime import __version__
from ctrlruntime.api import BUILTIN, Manifest, Resource
from ctrlruntime.generate import drift, limit_to_namespaces, roles, to_yaml, webhook_files, write
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.generate.layout import (
    METRICS_AUTH,
    SYSTEM,
    RBACLayout,
    binding,
    crd_layout,
    kustomization,
    rbac_layout,
)
from ctrlruntime.generate.permissions import Rule, leads, policy_rules, writes_events
from ctrlruntime.generate.setup import declarations_of
from ctrlruntime.generate.webhook import serves_webhooks
from ctrlruntime.manager import Manager
from internal.cloud.subresources import SUBRESOURCES
from internal.fleet.stack_bindings import RBAC, STACK_ROLES
from internal.fleet.stack_builder import StackOptions
from internal.tenancy.shared.missing_permissions import AGGREGATE, verbs_for
from manager.commands.plane_objects import OWNERS
from manager.controllers.approvals import record_webhooks
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_admission import webhooks as cloud_webhooks
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.controllers.cosmos import add_cosmos
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from manager.controllers.tenancy import add_tenancy, webhooks
from manager.controllers.tenancy_options import TenancyOptions
from manager.manifests.argocd import argocd_files
from manager.manifests.by_system import by_system_files, install_files, patch_of
from manager.manifests.data_plane import (
    data_plane_files,
    data_plane_rules,
    of_cloud,
    of_cosmos,
    stack_roles,
)
from manager.options import LEADER_ELECTION_ID, RunOptions, mutating_name
from manager.serving.operator_run import OPERATOR_LEASE

LABELS = {"app.kubernetes.io/name": "ctrlruntime", "app.kubernetes.io/managed-by": "kustomize"}

IMPERSONATOR = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "impersonator-role"},
    "rules": policy_rules(
        [Rule(groups=("",), resources=("serviceaccounts",), verbs=("impersonate",))]
    ),
}
"""For RoleBindings in the namespaces whose templates name service accounts; never bound to all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One of the systems that the manager unites, as far as manifests tell of it.

    `module` has its kinds, `add` its controllers. `more` are rights beyond those that its controllers
    declare, `own` those that it needs in the manager's own namespace alone.
    """

    module: str
    add: Callable[[Manager], None]
    more: tuple[Rule, ...] = ()
    own: tuple[Rule, ...] = ()


READS_OWN_POD = Rule(groups=("",), resources=("pods",), verbs=("get",))
"""In its own namespace the manager reads which image it runs in, where Pods are to have the same."""


BINDS_STACKS = Rule(groups=(RBAC,), resources=("clusterroles",), verbs=("bind",), names=STACK_ROLES)
"""The operator gives accounts of stacks these roles, without their rights being its own."""


SYSTEMS: Mapping[str, System] = {
    "tenancy": System(
        module="apis.tenancy",
        add=lambda manager: add_tenancy(manager, TenancyOptions()),
        more=tuple(
            Rule(
                groups=(mapping.gvk.group,),
                resources=(mapping.plural,),
                verbs=verbs_for(mapping.gvk.group_kind),
            )
            for mapping in BUILTIN.values()
            if mapping.gvk.group_kind in set(LIST_KINDS.values())
        ),
    ),
    "cloud": System(
        module="apis.cloud",
        add=lambda manager: add_cloud(
            manager, CloudOptions(runs=RunsOptions(provider="jobs", job_image="none"))
        ),
        own=(READS_OWN_POD,),
    ),
    "cosmos": System(
        module="apis.cosmos",
        add=lambda manager: add_cosmos(manager, CosmosOptions()),
        own=(READS_OWN_POD,),
    ),
}


APPROVED: tuple[type[Resource[Any, Any]], ...] = (
    TenantRegistry,
    Instance,
    *(each.kind for each in SUBRESOURCES),
    FleetRollout,
    CosmosFullNode,
)
"""Kinds whose approvals admission records."""
FLEET = "apis.fleet"
"""The kind of the operator, a program of its own."""
OPERATIONS = "apis.operations"
"""Kinds that every system honours."""


def operator_rules() -> list[Rule]:
    """Return the rights that the operator needs on the hub: of Secrets and ConfigMaps those of one name."""
    stack = StackOptions(image="none")
    declared_rules = declarations_of(
        lambda manager: add_operator(manager, OperatorOptions(stack=stack))
    ).rules
    named: dict[tuple[str, ...], tuple[str, ...]] = {
        ("secrets",): (KUBECONFIG_SECRET,),
        ("configmaps",): (ORPHAN_RECORD,),
    }
    limited = [
        replace(rule, names=named.get(rule.resources, rule.names)) for rule in declared_rules
    ]
    return [*limited, BINDS_STACKS]


def rules_of(name: str) -> list[Rule]:
    """Return the rights that the manager needs for one system."""
    system = SYSTEMS[name]
    return [*declarations_of(system.add).rules, *system.more, *system.own]


def files(directory: Path) -> dict[str, str]:
    """Every generated file by its path below `directory`.

    The samples, the scripts for Argo CD and the namespaces of the overlay `namespaced` are read there.
    """
    modules = [system.module for system in SYSTEMS.values()]
    kinds = find_kinds(load([FLEET, OPERATIONS, *modules]))
    rbac = RBACLayout(
        kinds=kinds,
        rules=[rule for system in SYSTEMS for rule in rules_of(system)],
        election=leads(LEADER_ELECTION_ID),
        aggregate=AGGREGATE,
        more={"impersonator_role": IMPERSONATOR},
        labels=LABELS,
    )
    checks = {"tenancy": webhooks(), "cloud": cloud_webhooks()}
    served = {
        system: [*checks.get(system, ()), *record_webhooks(_approved(system))] for system in SYSTEMS
    }
    return {
        **crd_layout(kinds),
        **rbac_layout(rbac),
        **_webhook_layout(),
        **_operator_layout(),
        **_data_plane_layout(),
        **{name: text for system in SYSTEMS for name, text in _overlay(system).items()},
        **by_system_files({name: rules_of(name) for name in SYSTEMS}, NAMESPACE, PREFIX, LABELS),
        **install_files(served, NAMESPACE, PREFIX, LABELS),
        **namespaced_overlay(directory / "namespaced" / "namespaces.txt"),
        **argocd_files(directory / "argocd"),
        "samples/kustomization.yaml": kustomization(_samples(directory / "samples")),
    }


def _approved(system: str) -> list[type[Resource[Any, Any]]]:
    """Return the kinds of a system whose approvals are recorded."""
    return [kind for kind in APPROVED if kind.__module__.startswith(f"{SYSTEMS[system].module}.")]


def _data_plane_layout() -> dict[str, str]:
    """Return the folder of a data plane: the CRDs, and the rights of a stack's kubeconfig."""
    live = {kind.mapping().plural: kind.gvk().group for kind in OWNERS}
    systems = [
        *rules_of("tenancy"),
        *of_cosmos(rules_of("cosmos")),
        *of_cloud(rules_of("cloud")),
    ]
    return data_plane_files(data_plane_rules(systems, live), ["../crd"], LABELS)


def _webhook_layout() -> dict[str, str]:
    """Return the folder of an overlay with the option `--webhooks`.

    It has the configurations, and the right to put into them the authority of the certificates that managers
    make. The service is written by hand.
    """
    options = RunOptions()
    rules = serves_webhooks(
        options.webhook_secret_name,
        SYSTEM,
        mutating=[mutating_name(options.webhook_configuration)],
        validating=[options.webhook_configuration],
    )
    rights = [
        {**role, "metadata": {**role["metadata"], "labels": LABELS}}
        for role in roles(rules, "webhook-role")
    ]
    account = "controller-manager"
    bound = [
        {**each, "metadata": {**each["metadata"], "labels": LABELS}}
        for each in (
            binding("webhook-rolebinding", "webhook-role", account),
            binding("webhook-rolebinding", "webhook-role", account, kind="Role"),
        )
    ]
    files = {
        **webhook_files([*webhooks(), *cloud_webhooks(), *record_webhooks(APPROVED)]),
        "webhook/role.yaml": to_yaml(rights),
        "webhook/role_binding.yaml": to_yaml(bound),
    }
    names = [name.removeprefix("webhook/") for name in files]
    return {**files, "webhook/kustomization.yaml": kustomization([*names, "service.yaml"])}


def _operator_layout() -> dict[str, str]:
    """Return the folder of the operator, a program with rights of its own. Its Deployment is written by hand."""
    account = "fleet-operator"
    own = [*leads(OPERATOR_LEASE), READS_OWN_POD]
    made = {
        "service_account": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": SYSTEM},
        },
        "role": roles([*operator_rules(), *METRICS_AUTH], "fleet-operator-role")[0],
        "role_binding": binding("fleet-operator-rolebinding", "fleet-operator-role", account),
        "own_role": {
            **roles([replace(rule, namespace=SYSTEM) for rule in own], "fleet-operator-own-role")[0]
        },
        "own_role_binding": binding(
            "fleet-operator-own-rolebinding", "fleet-operator-own-role", account, kind="Role"
        ),
    }
    made |= stack_roles()
    labelled = {
        name: {**each, "metadata": {**each["metadata"], "labels": LABELS}}
        for name, each in made.items()
    }
    head = {
        "namespace": NAMESPACE,
        "namePrefix": "ctrlruntime-",
        "images": [{"name": "controller", "newName": IMAGE, "newTag": __version__}],
    }
    resources = [*(f"{name}.yaml" for name in made), "operator.yaml"]
    return {
        **{f"operator/{name}.yaml": to_yaml([each]) for name, each in labelled.items()},
        "operator/kustomization.yaml": kustomization(resources, **head),
    }


IMAGE = "registry.example.com/ctrlruntime-manager"
"""The manager's image in every overlay."""
PREFIX = "ctrlruntime-"
"""Of the names in every overlay."""
NAMESPACE = "ctrlruntime-system"
"""The manager's own namespace in every overlay."""
_FREEZES = ChangeFreeze.mapping()
CLUSTER_SCOPED = frozenset(
    (mapping.gvk.group, mapping.plural) for mapping in BUILTIN.values() if not mapping.namespaced
) | {(_FREEZES.gvk.group, _FREEZES.plural)}
"""Group and plural of the cluster-scoped resources; all other kinds of the manager are namespaced."""
OMITTED = frozenset({("", "namespaces")})
"""Cluster-scoped resources that a manager of some namespaces has no rights to: tenants make none."""
NAMESPACES_TEXT = """\
# The namespaces that the manager of config/namespaced watches and has rights in, one on each line.
# Run `make generate` after a change.
default
"""


def namespaced_rules(
    namespaces: Collection[str], systems: Collection[str] = tuple(SYSTEMS)
) -> list[Rule]:
    """Return what the manager needs where it watches these namespaces alone."""
    declared_rules = [rule for name in systems for rule in rules_of(name)]
    kept = [
        rule for rule in declared_rules if not OMITTED & {*product(rule.groups, rule.resources)}
    ]
    own = [
        *writes_events(NAMESPACE),  # about its Lease
        *(replace(rule, namespace=NAMESPACE) for s in systems for rule in SYSTEMS[s].own),
    ]
    return limit_to_namespaces([*kept, *own], namespaces, CLUSTER_SCOPED)


def read_namespaces(file: Path) -> list[str]:
    """Return the names in a file, in order, each once. Raises ValueError if there are none."""
    text = file.read_text("utf-8") if file.exists() else NAMESPACES_TEXT
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    names = list(dict.fromkeys(line for line in lines if line))
    if not names:
        raise ValueError(f"{file} names no namespace; write one on each line")
    return names


def namespaced_overlay(file: Path) -> dict[str, str]:
    """Return the folder of an installation that watches the namespaces in `file`.

    A Role in each of them, and a ClusterRole for cluster-scoped resources alone.
    """
    namespaces = read_namespaces(file)
    cluster, *limited = roles(namespaced_rules(namespaces), "ctrlruntime-manager-role")
    aggregated = "ctrlruntime-manager-aggregated"
    bound = [
        _bound(
            role["metadata"]["namespace"], "ctrlruntime-manager-rolebinding", "Role", "manager-role"
        )
        for role in limited
    ]
    bound += [
        _bound(name, f"{aggregated}-rolebinding", "ClusterRole", "manager-aggregated-role")
        for name in namespaces
    ]
    rights = {"op": "replace", "path": "/rules", "value": cluster["rules"]}
    arguments = [_argument(f"--namespace={name}") for name in namespaces]
    made = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../default", "role.yaml", "role_binding.yaml"],
        "patches": [
            patch_of([rights], "ClusterRole", "ctrlruntime-manager-role"),
            patch_of(arguments, "Deployment", "ctrlruntime-controller-manager"),
            patch_of(_DELETED, "ClusterRoleBinding", f"{aggregated}-rolebinding"),
        ],
    }
    labelled = [
        {**each, "metadata": {**each["metadata"], "labels": LABELS}} for each in [*limited, *bound]
    ]
    return {
        "namespaced/namespaces.txt": file.read_text("utf-8") if file.exists() else NAMESPACES_TEXT,
        "namespaced/kustomization.yaml": to_yaml([made]),
        "namespaced/role.yaml": to_yaml(labelled[: len(limited)]),
        "namespaced/role_binding.yaml": to_yaml(labelled[len(limited) :]),
    }


def _bound(namespace: str, name: str, kind: str, role: str) -> Manifest:
    """Return a RoleBinding of a role to the manager's account, in a namespace that is not its own."""
    made = binding(name, f"ctrlruntime-{role}", "ctrlruntime-controller-manager", kind="Role")
    (subject,) = made["subjects"]
    return {
        **made,
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {**made["roleRef"], "kind": kind},
        "subjects": [{**subject, "namespace": NAMESPACE}],
    }


def _overlay(system: str) -> dict[str, str]:
    """Return the folder of an installation with one system: its CRDs, its roles, and no other rights."""
    modules = [each.module for name, each in SYSTEMS.items() if name != system]
    others = find_kinds(load([FLEET, *modules]))
    role, *_ = roles(rules_of(system))
    names = "|".join(sorted(kind.gvk().kind.lower() for kind in others))
    removed = [("ClusterRole", f"ctrlruntime-({names})-(admin|editor|viewer)-role")]
    removed += [
        ("CustomResourceDefinition", f"{each.mapping().plural}[.]{each.gvk().group}")
        for each in others
    ]
    if system != "tenancy":  # rights to the kinds that templates name
        removed.append(("ClusterRoleBinding", "ctrlruntime-manager-aggregated-rolebinding"))
    rights = {"op": "replace", "path": "/rules", "value": role["rules"]}
    patches = [
        patch_of([rights], "ClusterRole", "ctrlruntime-manager-role"),
        patch_of([_argument(f"--system={system}")], "Deployment", "ctrlruntime-controller-manager"),
        *(patch_of(_DELETED, kind, name) for kind, name in removed),
    ]
    made = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../default"],
        "patches": patches,
    }
    return {f"only-{system}/kustomization.yaml": to_yaml([made])}


_NAMELESS = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}}
"""What kustomize wants of a patch whose target names what it is for."""
_DELETED = {**_NAMELESS, "$patch": "delete"}


def _argument(value: str) -> dict[str, str]:
    """Return the operation of a JSON patch that adds an argument of the manager."""
    path = "/spec/template/spec/containers/0/args/-"
    return {"op": "add", "path": path, "value": value}


def _samples(directory: Path) -> list[str]:
    names = (path.name for path in directory.glob("*.yaml"))
    return sorted(name for name in names if name != "kustomization.yaml")


def generate(directory: Path) -> list[Path]:
    """Write the files that differ. Returns their paths."""
    return write(files(directory), directory)


def check(directory: Path) -> str:
    """Return what differs between code and files, as a diff; empty if nothing does."""
    return drift(files(directory), directory)
