"""What a person approves on a TenantRegistry, and which fields decide what needs that."""

from typing import Final

from apis.tenancy import TenantRegistry
from internal.approvals.rules import ApprovalRules, Paths
from internal.tenancy.shared.policies import ALLOW_DELETE, APPROVE_DELETION

REGISTRY: Final = f"{TenantRegistry.gvk().kind}.{TenantRegistry.gvk().group}"
RULES: Final = ApprovalRules(
    annotations=frozenset({ALLOW_DELETE, APPROVE_DELETION}),
    fields=Paths(
        {
            "deletionProtection": True,
            "deletionGuard.maxDeletePercent": 20,
            "deletionGuard.alwaysAllowedRows": 1,
            "deletionGuard.window": "24h",
            "deletionGuard.allowEmpty": False,
        }
    ),
    of_spec=frozenset({APPROVE_DELETION}),
)
