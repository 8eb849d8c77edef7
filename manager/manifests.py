"""Manifests from code: CRDs, roles from what controllers declare, webhooks, folders of kustomize."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from apis.tenancy import LIST_KINDS
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.client.config import Config
from ctrlruntime.controller.controller import Controller
from ctrlruntime.generate import drift, roles, to_yaml, webhook_files, write
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.generate.layout import (
    SYSTEM,
    RBACLayout,
    binding,
    crd_layout,
    kustomization,
    rbac_layout,
)
from ctrlruntime.generate.permissions import Rule, declared, leads, policy_rules, writes_events
from ctrlruntime.generate.webhook import serves_webhooks
from ctrlruntime.manager import Manager, ManagerOptions, Runnable
from internal.tenancy.grants import AGGREGATE, verbs_for
from manager.controllers.cloud import CloudOptions, add_cloud
from manager.controllers.cosmos import add_cosmos
from manager.controllers.cosmos_parts import CosmosOptions
from manager.controllers.runs import RunsOptions
from manager.controllers.tenancy import TenancyOptions, add_tenancy, webhooks
from manager.options import LEADER_ELECTION_ID, RunOptions

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
    declare.
    """

    module: str
    add: Callable[[Manager], None]
    more: tuple[Rule, ...] = ()


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
    ),
    "cosmos": System(
        module="apis.cosmos",
        add=lambda manager: add_cosmos(manager, CosmosOptions()),
        more=(
            # In its own namespace it reads which image it runs in, where nodes are to have the same.
            Rule(groups=("",), resources=("pods",), verbs=("get",)),
        ),
    ),
}


class _Listing(Manager):
    """A manager that is never started: it only takes down what is added to it."""

    def __init__(self) -> None:
        self.controllers: list[Controller] = []
        super().__init__(
            Config(host="http://127.0.0.1:9"),
            ManagerOptions(metrics_bind_address="0", health_bind_address="0"),
        )

    def add(self, runnable: Runnable) -> None:
        if isinstance(runnable, Controller):
            self.controllers.append(runnable)


async def _declared(system: System) -> list[Rule]:
    manager = _Listing()
    system.add(manager)
    rules = [rule for item in manager.controllers for rule in declared(item.permissions())]
    await manager.live_client.close()
    return [*rules, *system.more]


def rules_of(system: str) -> list[Rule]:
    """The rights that one system needs, besides those that every manager has."""
    return asyncio.run(_declared(SYSTEMS[system]))


def files(directory: Path) -> dict[str, str]:
    """Every generated file by its path below `directory`, where the samples are looked for."""
    kinds = find_kinds(load([system.module for system in SYSTEMS.values()]))
    rbac = RBACLayout(
        kinds=kinds,
        rules=[*writes_events(), *(rule for system in SYSTEMS for rule in rules_of(system))],
        election=leads(name=LEADER_ELECTION_ID),
        aggregate=AGGREGATE,
        more={"impersonator_role": IMPERSONATOR},
        labels=LABELS,
    )
    return {
        **crd_layout(kinds),
        **rbac_layout(rbac),
        **_webhook_layout(),
        "samples/kustomization.yaml": kustomization(_samples(directory / "samples")),
    }


def _webhook_layout() -> dict[str, str]:
    """The folder of an overlay with the option `--webhooks`: configurations, and the right to put
    into them the authority of the certificates that managers make. The service is written by hand.
    """
    options = RunOptions()
    rules = serves_webhooks(
        options.webhook_secret_name, SYSTEM, validating=[options.webhook_configuration]
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
        **webhook_files(webhooks()),
        "webhook/role.yaml": to_yaml(rights),
        "webhook/role_binding.yaml": to_yaml(bound),
    }
    names = [name.removeprefix("webhook/") for name in files]
    return {**files, "webhook/kustomization.yaml": kustomization([*names, "service.yaml"])}


def _samples(directory: Path) -> list[str]:
    names = (path.name for path in directory.glob("*.yaml"))
    return sorted(name for name in names if name != "kustomization.yaml")


def generate(directory: Path) -> list[Path]:
    """Write the files that differ. Returns their paths."""
    return write(files(directory), directory)


def check(directory: Path) -> str:
    """What differs between code and files, as a diff; empty if nothing does."""
    return drift(files(directory), directory)
