"""People as an API server knows them, with groups and rights: by impersonation, as the server then tells admission."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.generate import Webhook, webhook_configurations
from internal.approvals.key import KEY
from tests.webhook.patient import patient

APPROVERS = "approvers"
"""The group whose members approve."""
EVERYTHING = "system:masters"
"""The group that may do everything, so that no test waits for rights."""


@contextlib.asynccontextmanager
async def person(environment: Environment, user: str, group: str = "") -> AsyncIterator[Client]:
    """A client of a person who may do everything; without a group of their own they are in none that approves.

    The right to write comes from the one who impersonates nothing: the group is what admission is told.
    """
    config = environment.config("admin")
    headers = {**config.extra_headers, "Impersonate-User": user}
    if group:
        headers["Impersonate-Group"] = group
    async with Client.connect(replace(config, extra_headers=headers)) as client:
        yield client


async def let_write(client: Client, names: Sequence[str]) -> None:
    """Let these users do everything."""
    rbac = "rbac.authorization.k8s.io"
    await client.apply(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "people-of-tests"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": name} for name in names],
        },
        field_manager="test",
        force=True,
    )


@contextlib.asynccontextmanager
async def recorded(
    environment: Environment, webhooks: Sequence[Webhook], name: str
) -> AsyncIterator[LocalWebhooks]:
    """Webhooks of a manager that this server calls, with a key for records."""
    async with LocalWebhooks(environment) as hooks:
        (environment.folder / "webhooks" / KEY).write_bytes(b"k" * 32)
        await hooks.install(*patient(webhook_configurations(webhooks, mutating_name=name)))
        yield hooks
