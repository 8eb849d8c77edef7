"""Servers on which managers may do what the cloud controllers declare, and nothing else.

What they ask is taken down for the audit of rights (tests/audit). The suite is told in parts, by
providers, by drivers, by whole managers: a right has to be used in one of them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar

from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.generate.permissions import policy_rules, writes_events
from manager.manifests import rules_of
from tests.audit.ledger import Ledger
from tests.manifests.installation import RBAC

SUITE = "cloud"
SERVERS = "its servers"
"""As a sort of server: what one of them was asked for need not be asked of the others."""
ROLE = "cloud-manager"


class Audit:
    """Who takes down what managers ask."""

    ledger: ClassVar[Ledger | None] = None


@functools.cache
def rules() -> Sequence[dict[str, Any]]:
    """What `manager run --system cloud` needs: a part of the role that is shipped."""
    return policy_rules([*writes_events(), *rules_of("cloud")])


@asynccontextmanager
async def embedded(
    *managers: str, people: Collection[str] = ("admin",), **options: Any
) -> AsyncIterator[Environment]:
    """An embedded server with a proxy. `managers`: users with the rights of the cloud controllers;
    `people` have all."""
    users = [*map(administrator, people), *(User(name=name) for name in managers)]
    settings: dict[str, Any] = {"authorization": "RBAC", "proxy": True, **options}
    async with Environment(users=users, **settings) as environment:
        with audited(environment, managers):
            await _grant(environment, managers)
            yield environment


@contextmanager
def audited(environment: Environment, managers: Collection[str]) -> Iterator[None]:
    """Nothing is refused to these users."""
    if Audit.ledger is None:
        yield
        return
    log = environment.proxy.log
    with Audit.ledger.watch(log, suite=SUITE, server=SERVERS, users=managers) as watched:
        yield
    assert watched.refused == [], "forbidden to the manager"


async def _grant(environment: Environment, managers: Collection[str]) -> None:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE}
    subjects = [{"kind": "User", "apiGroup": RBAC, "name": name} for name in managers]
    metadata, version = {"name": ROLE}, f"{RBAC}/v1"
    client = environment.client("envtest")
    needed = await asyncio.to_thread(rules)  # it runs a loop of its own
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
