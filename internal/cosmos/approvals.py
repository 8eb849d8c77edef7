"""What a person approves on a CosmosFullNode, and which fields decide what needs that."""

from typing import Final

from apis.cosmos import GROUP
from internal.approvals.rules import ApprovalRules, Paths
from internal.removal_holds import allow_delete

RULES: Final = ApprovalRules(
    annotations=frozenset({allow_delete(GROUP)}),
    fields=Paths(
        {
            "deletionProtection": True,
            "deletions.maxPercent": 20,
            "deletions.maxWithState": 1,
            "volumeRetentionPolicy": None,
        }
    ),
)
