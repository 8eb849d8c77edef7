"""What the Pods of a set may do: read it, and tell their height."""

from __future__ import annotations

import pytest

from internal.cosmos.fullnode.plain_control import build_role_bindings, build_roles
from internal.cosmos.fullnode.service_account_builder import build_service_accounts

from .samples import node_set


@pytest.mark.criterion("COSMOS-A2-15")
def test_one_account_with_rights_to_its_own_set_alone() -> None:
    (account,) = build_service_accounts(node_set())
    (role,) = build_roles(node_set())
    (binding,) = build_role_bindings(node_set())
    assert [each.name for each in (account, role, binding)] == [
        "test-vc-sa",
        "test-vc-r",
        "test-vc-rb",
    ]
    assert role.manifest["rules"] == [
        {
            "apiGroups": ["cosmos.ctrlruntime.dev"],
            "resources": ["cosmosfullnodes"],
            "resourceNames": ["test"],
            "verbs": ["get"],
        },
        {
            "apiGroups": ["cosmos.ctrlruntime.dev"],
            "resources": ["cosmosfullnodes/status"],
            "resourceNames": ["test"],
            "verbs": ["patch"],
        },
    ]
    assert binding.manifest["roleRef"]["name"] == "test-vc-r"
    assert binding.manifest["subjects"] == [
        {"kind": "ServiceAccount", "name": "test-vc-sa", "namespace": "chains"}
    ]


@pytest.mark.criterion("COSMOS-A2-15")
def test_an_account_that_is_named_is_not_ours_to_give_rights() -> None:
    nodes = node_set(serviceAccountName="own")
    assert build_service_accounts(nodes) == []
    assert build_roles(nodes) == []
    assert build_role_bindings(nodes) == []
