"""The suites that are audited, and what each has to use of the roles that are shipped."""

from __future__ import annotations

import yaml

from ctrlruntime.generate.permissions import policy_rules
from manager.manifests.folders import SYSTEMS, rules_of
from tests.audit.report import Audit, shares
from tests.audit.rights import Manifest, Right, granted, rights_of
from tests.manifests.installation import NAMESPACE, ROOT, without_webhooks

SUITES = {system: ROOT / "tests" / system for system in ("tenancy", "cloud", "cosmos")}
"""By system of the manager, the suite whose worlds hand in what their managers ask."""
COMMON = ("tenancy",)
"""Suites that show what every manager does, whatever its controllers: leading, events, metrics,
webhooks and their certificates."""

NOT_REQUESTED = frozenset(
    {
        # Asked of the authorizer by an admission plugin, OwnerReferencesPermissionEnforcement, when
        # an object gets an owner that must not go before it: no request names them.
        Right("update", "tenants.tenancy.ctrlruntime.dev/finalizers"),
        Right("update", "tenantregistries.tenancy.ctrlruntime.dev/finalizers"),
        Right("update", "tenanttemplates.tenancy.ctrlruntime.dev/finalizers"),
        *(
            Right("update", f"{plural}.cloud.ctrlruntime.dev/finalizers")
            for plural in (
                "instances",
                "instanceinvariants",
                "instancekubernetes",
                "instancekubernetespvcs",
                "instanceterraforms",
                "upgradeinstancetasks",
            )
        ),
        Right("update", "cosmosfullnodes.cosmos.ctrlruntime.dev/finalizers"),
        Right("update", "statefuljobs.cosmos.ctrlruntime.dev/finalizers"),
    }
)


def of_the_manager() -> Audit:
    """The suites of the manager's systems."""
    return Audit(
        folders=SUITES,
        shares=lambda: shares(shipped(), {system: declared(system) for system in SYSTEMS}, COMMON),
        exempt=NOT_REQUESTED,
        unaudited=frozenset(SYSTEMS) - frozenset(SUITES),
    )


def shipped() -> frozenset[Right]:
    """What the installation and its overlay with webhooks let the manager's account do."""
    return granted(without_webhooks()) | granted(overlay())


def overlay() -> list[Manifest]:
    """Roles and bindings that `config/webhook` adds, in the namespace they get."""
    found: list[Manifest] = []
    for name in ("role", "role_binding"):
        text = (ROOT / "config" / "webhook" / f"{name}.yaml").read_text()
        for manifest in yaml.load_all(text, yaml.CSafeLoader):
            metadata = manifest["metadata"]
            namespaced = manifest["kind"] in ("Role", "RoleBinding")
            found.append(
                {
                    **manifest,
                    "metadata": {**metadata, **({"namespace": NAMESPACE} if namespaced else {})},
                }
            )
    return found


def declared(system: str) -> frozenset[Right]:
    """What the controllers of a system say they need."""
    rules = policy_rules(rules_of(system))
    return frozenset(right for rule in rules for right in rights_of(rule))
