"""Users that may do what the controllers of one system declare, and nothing else.

What they ask is taken down for the audit of rights (tests/audit). A suite is told in parts, by single
controllers or whole managers, on whichever server: a right has to be used in one of them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ctrlruntime.envtest import Environment
from ctrlruntime.generate.permissions import policy_rules
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.manager.sharding import SHARD_VERBS
from manager.manifests.folders import rules_of
from tests.audit.request_recorder import RequestRecorder
from tests.manifests.installation import RBAC

SERVERS = "its servers"
"""As a sort of server: what one of them was asked for need not be asked of the others."""


class Audit:
    """Who takes down what managers ask."""

    ledger: ClassVar[RequestRecorder | None] = None


@functools.cache
def rules(system: str) -> Sequence[dict[str, Any]]:
    """What `manager run --system NAME` needs: a part of the role that is shipped. `leases`: what several managers do with theirs."""
    if system == "leases":
        return [{"apiGroups": [LEASE.group], "resources": ["leases"], "verbs": [*SHARD_VERBS]}]
    return policy_rules(rules_of(system))


@contextmanager
def audited(environment: Environment, managers: Collection[str], system: str) -> Iterator[None]:
    """Nothing is refused to these users."""
    if Audit.ledger is None:
        yield
        return
    log = environment.proxy.log
    with Audit.ledger.watch(log, suite=system, server=SERVERS, users=managers) as watched:
        yield
    assert watched.refused == [], f"forbidden to the manager: {watched.refused}"


async def grant(environment: Environment, managers: Collection[str], system: str) -> None:
    """Give these users the rights of the system's controllers, everywhere."""
    name = f"{system}-manager"
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "apiGroup": RBAC, "name": each} for each in managers]
    metadata, version = {"name": name}, f"{RBAC}/v1"
    client = environment.client("envtest")
    needed = await asyncio.to_thread(rules, system)  # it runs a loop of its own
    await client.create(
        {"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": needed}
    )
    await client.create(
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": subjects,
        }
    )
