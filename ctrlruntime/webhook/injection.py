"""The CA bundle in webhook configurations and in the conversion of definitions."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, NotFound, TransportError
from ctrlruntime.client.patches import PatchType

__all__ = ["ANNOTATION", "CRD", "MUTATING", "VALIDATING", "Injection", "Target", "injection_patch"]

MUTATING = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")
VALIDATING = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
)
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

ANNOTATION = "ctrlruntime.dev/inject-ca-from"
"""``<namespace>/<name>`` of the Secret whose authority an object is to trust."""
FIRST_RETRY, LAST_RETRY = 0.5, 30.0
BREATH = 1.0
"""Seconds between the end of one watch and the next."""


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One object that gets the bundle; without a name, every annotated object of the kind."""

    kind: GroupVersionKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name or 'annotated'}"


def injection_patch(manifest: Manifest, bundle: bytes) -> list[dict[str, Any]]:
    """Return the JSON patch that puts ``bundle`` everywhere it belongs; empty if it is there.

    It tests that the webhooks still stand where they stood.
    """
    encoded = base64.b64encode(bundle).decode()
    patch: list[dict[str, Any]] = []
    for path, holder, test in _places(manifest):
        if holder.get("caBundle") != encoded:
            patch += [test, {"op": "add", "path": f"{path}/caBundle", "value": encoded}]
    return patch


def _places(manifest: Manifest) -> Iterator[tuple[str, Manifest, dict[str, Any]]]:
    """Where a bundle belongs: the path, what is there, and what must be true for it to stay so."""
    for index, hook in enumerate(manifest.get("webhooks") or ()):
        path = f"/webhooks/{index}"
        test = {"op": "test", "path": f"{path}/name", "value": hook["name"]}
        yield f"{path}/clientConfig", hook["clientConfig"], test
    conversion = (manifest.get("spec") or {}).get("conversion") or {}
    if manifest.get("kind") == CRD.kind and conversion.get("strategy") == "Webhook":
        path = "/spec/conversion"
        test = {"op": "test", "path": f"{path}/strategy", "value": "Webhook"}
        client = (conversion.get("webhook") or {}).get("clientConfig")
        if client is not None:
            yield f"{path}/webhook/clientConfig", client, test


@dataclass(slots=True)
class Injection:
    """Keeps the bundle of all targets as it should be: at once, and whenever one is changed.

    An object that is not there (yet) is waited for. What has the bundle is not written. Without a
    name a target is all objects of its kind that carry :data:`ANNOTATION` with ``secret``.
    """

    client: Client
    targets: Iterable[Target]
    secret: str
    logger: FilteringBoundLogger
    seen: Callable[[Manifest], None] = lambda _manifest: None
    """Gets each target whenever it is read."""
    missing: set[Target] = field(default_factory=set)
    """Those of the named targets that the server does not have."""
    _bundle: bytes = b""
    _news: dict[Target, asyncio.Event] = field(default_factory=dict)
    _first: dict[Target, asyncio.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.targets = sorted(set(self.targets))
        self._news = {target: asyncio.Event() for target in self.targets}
        self._first = {target: asyncio.Event() for target in self.targets}

    def use(self, bundle: bytes) -> None:
        """Inject this bundle from now on."""
        self._bundle = bundle
        for event in self._news.values():
            event.set()

    async def wait_first(self) -> None:
        """Return once every target was looked at."""
        for event in self._first.values():
            await event.wait()

    async def run(self) -> None:
        """Run until cancelled; wait for a bundle."""
        async with asyncio.TaskGroup() as group:
            for target in self.targets:
                group.create_task(self._keep(target), name=f"CA bundle of {target}")

    async def _keep(self, target: Target) -> None:
        delay = FIRST_RETRY
        while True:
            try:
                await self._once(target)
                delay = FIRST_RETRY
            except (APIError, TransportError, AuthError, TimeoutError) as error:
                self.logger.warning(
                    "CA bundle not injected", target=str(target), error=str(error),
                    retry_seconds=delay,
                )  # fmt: skip
                self._first[target].set()  # others must not wait for it
                await asyncio.sleep(delay)
                delay = min(delay * 2, LAST_RETRY)

    async def _once(self, target: Target) -> None:
        """Look at what there is, then follow changes until there is a new bundle."""
        self._news[target].clear()
        await self._look(target)
        self._first[target].set()
        following = asyncio.create_task(self._follow(target))
        news = asyncio.create_task(self._news[target].wait())
        try:
            await asyncio.wait({following, news}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            following.cancel()
            news.cancel()
            await asyncio.gather(following, news, return_exceptions=True)

    async def _look(self, target: Target) -> None:
        if not target.name:
            for manifest in await self.client.list(target.kind):
                await self._inject(target, manifest)
            return
        try:
            await self._inject(target, await self.client.get(target.kind, target.name))
        except NotFound:
            self.missing.add(target)

    async def _follow(self, target: Target) -> None:
        """Until cancelled; every watch begins with what there is."""
        fields = f"metadata.name={target.name}" if target.name else None
        while True:
            events = self.client.watch(target.kind, fields=fields)
            async with aclosing(events):
                async for kind, manifest in events:
                    if kind != "DELETED":
                        await self._inject(target, manifest)
                    elif target.name:
                        self.missing.add(target)
            await asyncio.sleep(BREATH)
            if target.name:
                await self._look(target)  # it may have been deleted between two watches

    async def _inject(self, target: Target, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        asked = (metadata.get("annotations") or {}).get(ANNOTATION)
        if not target.name and asked != self.secret:
            return
        self.missing.discard(target)
        self.seen(manifest)
        patch = injection_patch(manifest, self._bundle)
        if not patch:
            return
        await self.client.patch(target.kind, metadata["name"], patch, type=PatchType.JSON)
        self.logger.info("CA bundle injected", kind=target.kind.kind, name=metadata["name"])
