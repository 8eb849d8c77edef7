"""Servers on which managers may do what the cloud controllers declare, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from tests.rbac import audited, grant

SUITE = "cloud"


@asynccontextmanager
async def embedded(
    *managers: str, people: Collection[str] = ("admin",), **options: object
) -> AsyncIterator[Environment]:
    """An embedded server with a proxy. `managers`: users with the rights of the cloud controllers;
    `people` have all."""
    users = [*map(administrator, people), *(User(name=name) for name in managers)]
    settings: dict[str, Any] = {"authorization": "RBAC", "proxy": True, **options}
    async with Environment(users=users, **settings) as environment:
        with audited(environment, managers, SUITE):
            await grant(environment, managers, SUITE)
            yield environment
