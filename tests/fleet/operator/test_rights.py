"""The operator does with the rights of config/operator, and uses each of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User
from ctrlruntime.generate.permissions import policy_rules
from internal.fleet.stack_bindings import ROLE_BINDING
from manager.manifests.folders import operator_rules
from tests.audit.rights import rights_of

from .harness import OBJECTS, SCALE, SECRET, Hub, deployed, eventually, planes
from .test_bindings import binding, bound, expect_bound, grants, parallel, reads

RBAC = "rbac.authorization.k8s.io"


async def grant(environment: Environment) -> list[dict[str, Any]]:
    """Give the operator the generated role and no other right. Return its rules."""
    rules = policy_rules(await asyncio.to_thread(operator_rules))  # it runs a loop of its own
    metadata = {"name": "fleet-operator-role"}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "fleet-operator-role"},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "limited"}],
    }
    for manifest in (role, binding):
        await environment.client("admin").create(manifest)
    return rules


async def test_the_generated_role_suffices_and_other_secrets_are_not_readable() -> None:
    users = ("admin", User(name="limited"))
    async with Hub.running(users=users, authorization="RBAC") as hub, planes(1) as (east,):
        hub.user = "limited"
        rules = await grant(hub.environment)
        async with hub.operator():
            await hub.configure(**SCALE)
            await hub.add("mistyped", None, label="True")  # an event
            await parallel(hub, "acme", "east")
            await deployed(hub, east=east)
            assert await hub.objects("east") == OBJECTS
            await expect_bound(hub, *reads("east"), *grants("east", "acme"))
            await hub.client.delete(ROLE_BINDING, "fleet-stack-east", namespace="acme")
            await expect_bound(hub, *reads("east"), *grants("east", "acme"))
            await hub.label("east", None)
            await hub.until_torn_down("east")

            async def recorded() -> bool:
                counts = hub.environment.proxy.log.counts().select(user="limited")
                return counts.select(resource="events.events.k8s.io").total > 0

            await eventually(recorded)
        log = hub.environment.proxy.log.counts().select(user="limited")
        assert log.select(code=403).total == 0, str(log)
        used = {(row.resource.partition(".")[0], row.verb) for row in log}
        written = {verb for resource, verb in used if resource == "deployments"}
        assert {"apply", "delete"} <= written
        assert await bound(hub) == set()
        assert not {right for rule in rules for right in rights_of(rule) if "*" in str(right)}
        client = hub.environment.client("limited")
        for role in ("cluster-admin", "edit"):
            reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
            made = binding("more", "acme", "east") | {"roleRef": reference}
            with pytest.raises(Forbidden):
                await client.create(made)
        with pytest.raises(Forbidden):
            await client.list(SECRET)
        with pytest.raises(Forbidden):
            await client.list(SECRET, "east", fields="metadata.name=another")
        found = await client.list(SECRET, fields="metadata.name=data-plane-kubeconfig")
        assert [each["metadata"]["namespace"] for each in found] == ["east"]
