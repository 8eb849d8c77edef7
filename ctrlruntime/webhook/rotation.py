"""Certificates that the managers make themselves, kept in a Secret that all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, APIError, Conflict, NotFound, TransportError
from ctrlruntime.clock import utc_now
from ctrlruntime.webhook.certificates import CertificateSet, UnusableSecret, due, following
from ctrlruntime.webhook.rotation_options import RotationOptions

__all__ = ["SECRET", "CertRotator"]

SECRET = GroupVersionKind("", "v1", "Secret")
FIRST_RETRY, LAST_RETRY = 0.5, 30.0
BREATH = 1.0
"""Seconds between the end of one watch and the next."""
LONGEST_SLEEP = 3600.0
"""Seconds: a clock may be set, so the time is looked at now and then."""

Changed = Callable[[CertificateSet], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class CertRotator:
    """Agrees with all other managers on one set of certificates, and replaces it in time.

    Whoever comes first writes; who loses the race takes what the winner wrote. No leader is needed.
    ``changed`` hears of every set that is to be served, the first one included, and returns when it
    is. ``clock`` decides when certificates begin and end; after moving it, :meth:`look`.
    """

    client: Client
    namespace: str
    name: str
    hosts: Sequence[str]
    changed: Changed
    logger: FilteringBoundLogger
    options: RotationOptions = field(default_factory=RotationOptions)
    clock: Callable[[], datetime] = utc_now
    labels: dict[str, str] = field(default_factory=dict)
    current: CertificateSet | None = None
    _secret: Manifest | None = None
    _read: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> None:
        """Have it look at Secret and clock again."""
        self._wake.set()

    async def prepare(self) -> None:
        """Return once there is a set to serve; try until it succeeds."""
        await self._retrying(self._agree)

    async def run(self) -> None:
        """Keep the set fresh until cancelled. Call :meth:`prepare` before."""
        watching = asyncio.create_task(self._watch(), name="watch of the webhook certificate")
        try:
            while True:
                await self._pause()
                await self._retrying(self._agree)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    # -- agreeing ----------------------------------------------------------------------------

    async def _agree(self) -> None:
        """Read, decide, write, until what is stored is what it should be."""
        while True:
            if not self._read:
                await self._get()
            stored = self._stored()
            known = stored if stored is not None else self.current  # deleted: written again
            wanted = following(known, self.hosts, self.clock(), self.options, name=self.name)
            if wanted is stored or await self._put(wanted):
                break
        if self.current is None or wanted.data() != self.current.data():
            self.current = wanted
            await self.changed(wanted)

    async def _get(self) -> None:
        try:
            self._secret = await self.client.get(SECRET, self.name, namespace=self.namespace)
        except NotFound:
            self._secret = None
        self._read = True

    def _stored(self) -> CertificateSet | None:
        if self._secret is None:
            return None
        try:
            return CertificateSet.from_data(self._secret.get("data"))
        except UnusableSecret as error:
            self.logger.warning(
                "Certificates are made anew", place=f"{self.namespace}/{self.name}",
                error=str(error),
            )  # fmt: skip
            return None

    async def _put(self, wanted: CertificateSet) -> bool:
        """Return False if another was faster: then read again."""
        try:
            if self._secret is None:
                self._secret = await self.client.create(self._manifest(wanted))
            else:
                changed = {**self._secret, "data": {**_data(self._secret), **wanted.data()}}
                self._secret = await self.client.update(changed)
        except (AlreadyExists, Conflict, NotFound):
            self._read = False
            return False
        certificate = wanted.serving.certificate
        self.logger.info(
            "Certificates written",
            place=f"{self.namespace}/{self.name}",
            authority=wanted.authority.certificate.subject.rfc4514_string(),
            serial=f"{certificate.serial_number:x}",
            until=certificate.not_valid_after_utc.isoformat(),
        )
        return True

    def _manifest(self, wanted: CertificateSet) -> Manifest:
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "kubernetes.io/tls",
            "data": wanted.data(),
        }

    # -- time and news -----------------------------------------------------------------------

    async def _pause(self) -> None:
        """Wait until a certificate may need renewal, or another process wrote."""
        assert self.current is not None  # noqa: S101 - prepare() has made it
        seconds = (due(self.current, self.options) - self.clock()).total_seconds()
        try:
            async with asyncio.timeout(min(max(seconds, 0.0), LONGEST_SLEEP)):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _watch(self) -> None:
        """Note every change of the Secret."""
        while True:
            try:
                await self._retrying(self._watch_once)
            except Exception as error:
                self.logger.error(
                    "Webhook certificate: an unexpected error ended the watch; it starts again",
                    place=f"{self.namespace}/{self.name}", exc_info=error, retry_seconds=LAST_RETRY,
                )  # fmt: skip
                await asyncio.sleep(LAST_RETRY)

    async def _watch_once(self) -> None:
        """Without a version to start from: the first event is the Secret as it is."""
        events = self.client.watch(SECRET, self.namespace, fields=f"metadata.name={self.name}")
        async with aclosing(events):
            async for kind, secret in events:
                self._note(None if kind == "DELETED" else secret)
        await asyncio.sleep(BREATH)

    def _note(self, secret: Manifest | None) -> None:
        mine = (self._secret or {}).get("metadata", {}).get("resourceVersion")
        if secret is not None and secret["metadata"]["resourceVersion"] == mine:
            return
        self._read = False  # an event may be older than our own write: the server is asked
        self.look()

    async def _retrying(self, action: Callable[[], Awaitable[None]]) -> None:
        delay = FIRST_RETRY
        while True:
            try:
                return await action()
            except (APIError, TransportError, AuthError, TimeoutError) as error:
                self.logger.warning(
                    "Webhook certificate: the API server gives no answer to work with",
                    place=f"{self.namespace}/{self.name}", error=str(error), retry_seconds=delay,
                )  # fmt: skip
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY)


def _data(secret: Manifest) -> dict[str, str]:
    return dict(secret.get("data") or {})
