"""A kind for kopf's handlers, and operators of a test's own handlers on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ctrlruntime import kopf
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_gone, eventually_holds
from ctrlruntime.manager import ManagerOptions

BOTH = pytest.mark.parametrize("bench", ["embedded", "kube-apiserver"], indirect=True)
"""Runs a test on the real server too."""
KIND = GroupVersionKind("kopf.dev", "v1", "KopfExample")
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NAMES = {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample"}


def definition(status: dict[str, Any] = ANY) -> Manifest:
    """The CRD; without `ANY` its status keeps no records."""
    properties = {"spec": ANY, "status": status}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {
            "group": "kopf.dev",
            "names": {**NAMES, "shortNames": ["kex"]},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def example(name: str = "a", **spec: Any) -> Manifest:
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"somelabel": "somevalue"},
        "annotations": {"someannotation": "somevalue"},
    }
    return {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": metadata,
        "spec": {"field": "value", "items": ["item1", "item2"], **spec},
    }


@dataclass
class Bench:
    """An API server with the kind, and what handlers did."""

    environment: Environment
    client: Client
    calls: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def operator(self, **options: Any) -> AsyncIterator[Any]:
        """Run the handlers of the default registry."""
        given = ManagerOptions(
            name="op", metrics_bind_address="0", health_bind_address="0", webhook=options.pop("webhook", None) or ManagerOptions().webhook
        )  # fmt: skip
        options.setdefault("options", given)
        async with kopf.running(config=self.environment.config("op"), **options) as manager:
            yield manager

    async def create(self, name: str = "a", **spec: Any) -> Manifest:
        return await self.client.create(example(name, **spec))

    async def patch(self, patch: Manifest, name: str = "a") -> Manifest:
        return await self.client.patch(KIND, name, patch, namespace="default")

    async def delete(self, name: str = "a") -> None:
        await self.client.delete(KIND, name, namespace="default")

    async def read(self, name: str = "a") -> Manifest | None:
        try:
            return await self.client.get(KIND, name, namespace="default")
        except NotFound:
            return None

    async def check_calls(self, *names: str) -> None:
        """Wait until exactly these calls were made, in any order."""
        wanted = sorted(names)

        def question() -> bool:
            assert sorted(self.calls) == wanted, f"called: {self.calls}"
            return True

        await eventually_holds(question)

    async def check_status(self, check: Callable[[Manifest], object], name: str = "a") -> Manifest:
        """Wait until the status passes a check, and return it without the record."""
        found: Manifest = {}

        async def question() -> bool:
            found.clear()
            found.update((await self.read(name) or {}).get("status") or {})
            found.pop("kopf", None)
            assert check(found), f"status: {found}"
            return True

        await eventually_holds(question)
        return found

    async def check_gone(self, name: str = "a") -> None:
        await eventually_gone(self.client, KIND, name, namespace="default")

    def writes(self, resource: str | None = None) -> int:
        """What the operator wrote so far, of one resource as `kopfexamples.kopf.dev/status` or of all."""
        return self.environment.proxy.log.counts().select(user="op", resource=resource).writes
