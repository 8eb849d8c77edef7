"""The webhook server of a manager: registration, certificates, and its place in start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, NotFound, TransportError
from ctrlruntime.manager.app_server import AppServer
from ctrlruntime.manager.health import CheckFailed
from ctrlruntime.manager.http import listen
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import SERVICE_ACCOUNT_NAMESPACE
from ctrlruntime.manager.runnables import Group
from ctrlruntime.webhook.admission import Handler
from ctrlruntime.webhook.application import Application
from ctrlruntime.webhook.authentication import Authenticate
from ctrlruntime.webhook.certificates import CertificateSet
from ctrlruntime.webhook.conversion import Conversion, missing_conversion
from ctrlruntime.webhook.declaration import AdmissionOptions
from ctrlruntime.webhook.injection import CRD, MUTATING, VALIDATING, Injection, Target
from ctrlruntime.webhook.mounted import CertWatcher
from ctrlruntime.webhook.options import WebhookOptions
from ctrlruntime.webhook.review import Step
from ctrlruntime.webhook.rotation import CertRotator
from ctrlruntime.webhook.tls import ServingTLS

__all__ = ["WebhookServer", "Webhooks", "own_namespace"]

FIRST_INJECTION = 10.0
"""Seconds that caches wait for the first injection: one may be needed to list a converted kind."""
DIAL = 10.0
LOOK_AGAIN = 30.0
"""Seconds between two looks at CRDs that have no conversion yet, where no watch shows them."""


class WebhookServer(AppServer):
    """An aiohttp application, in the group of webhooks: up before the caches, down after them."""

    def __init__(self, app: web.Application, options: WebhookOptions, tls: ServingTLS) -> None:
        host = f"[{options.host}]" if ":" in options.host else options.host
        listener = listen(f"{host}:{options.port}", "the webhooks")
        assert listener is not None  # noqa: S101 - the address names a port
        super().__init__("webhooks", app, listener, group=Group.WEBHOOKS, tls=tls.context)


class Webhooks:
    """What a manager serves to the API server: ``manager.webhooks``."""

    runnable_group = Group.WEBHOOKS
    needs_leader_election = False

    def __init__(
        self,
        options: WebhookOptions,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        connect: Callable[[], Client],
    ) -> None:
        self.options = options
        self.application = Application(logger, metrics.registry)
        self._certificate_metrics = metrics.certificates
        self.tls: ServingTLS | None = None
        self.certificates: CertRotator | None = None
        """The rotation, where the managers make their own certificates."""
        self._connect = connect
        self._logger = logger
        self._server: WebhookServer | None = None
        self._injection: Injection | None = None
        self._serving = asyncio.Event()
        self._started = False
        self._unconverted: dict[str, str] = {}
        """By CRD, why the server does not convert by this manager."""
        self._missing: set[Target] = set()
        """Configurations and CRDs that are waited for, and that the server does not have."""

    def __repr__(self) -> str:
        return f"Webhooks({', '.join(self.application.paths)})"

    # -- registration ------------------------------------------------------------------------

    def register(
        self,
        kind: type[Resource[Any, Any]] | GroupVersionKind,
        *steps: Step,
        options: AdmissionOptions | None = None,
        mutating_path: str = "",
        validating_path: str = "",
    ) -> tuple[str, ...]:
        """Serve what a class declares: see :meth:`Application.register`. Before the start."""
        self._before_start()
        return self.application.register(
            kind,
            *steps,
            options=options,
            mutating_path=mutating_path,
            validating_path=validating_path,
        )

    def convert(self, *kinds: type[Resource[Any, Any]], samples: Iterable[Manifest] = ()) -> None:
        """Serve conversions between these versions of a kind: see :class:`Conversion`."""
        self._before_start()
        self.application.convert(Conversion(*kinds, samples=samples))

    def handle(self, path: str, handler: Handler) -> None:
        """Serve admission reviews at ``path`` with a handler of one's own."""
        self._before_start()
        self.application.handle(path, handler)

    def authenticate(self, path: str, authenticate: Authenticate) -> None:
        """Serve token reviews at ``path``: see :class:`TokenReviews`."""
        self._before_start()
        self.application.authenticate(path, authenticate)

    @property
    def enabled(self) -> bool:
        """Whether there is anything to serve, and somewhere to serve it."""
        return len(self.application) > 0 and self.options.port != -1

    @property
    def converted_crds(self) -> list[str]:
        """Names of the CRDs whose versions are converted here."""
        return [_definition(item) for item in self.application.conversions]

    @property
    def port(self) -> int | None:
        """The port it listens on, once started."""
        return self._server.port if self._server is not None else None

    # -- running -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve until cancelled; do nothing without registrations, or with the port -1."""
        self._started = True
        if not self.enabled:
            self._serving.set()
            return
        client_ca = self.options.client_ca
        ca_data = await asyncio.to_thread(client_ca.read_bytes) if client_ca is not None else None
        self.tls = ServingTLS(ca_data)
        app = web.Application(middlewares=[self.tls.renewal])
        app.add_routes(self.application.routes())
        self._server = WebhookServer(app, self.options, self.tls)
        try:
            if self.options.certificate_folder is not None:
                await self._serve_mounted(self.options.certificate_folder, self.tls, self._server)
            else:
                await self._serve_shared(self._server)
        finally:
            self._serving.clear()
            self._server.close()

    async def wait_ready(self) -> None:
        await self._serving.wait()

    async def check(self) -> bool:
        """Return a readiness check: whether a TLS handshake with the server succeeds.

        Raises CheckFailed while the server does not convert a kind that is converted here, or has no object of a name
        that the options give.
        """
        if not self.enabled:
            return True
        if self._missing and self.options.certificate_folder is not None:
            await self._look_for_missing()
        for reason in self._unconverted.values():
            raise CheckFailed(reason)
        if self._missing:
            raise CheckFailed(
                f"the server does not have: {', '.join(map(str, sorted(self._missing)))}. Apply what "
                "`python -m ctrlruntime.generate all` writes, or take the names out of WebhookOptions"
            )
        if self._server is None or not self._serving.is_set():
            return False
        # Not the default one, which reads the machine's authorities: a tenth of a second on the loop.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # whether it answers at all; the caller is ourselves
        host = self.options.host if self.options.host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - compared with
        async with asyncio.timeout(DIAL):
            _, writer = await asyncio.open_connection(host, self._server.port, ssl=context)
            writer.transport.abort()  # a farewell would wait for the other side
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return True

    async def _serve_mounted(self, folder: Path, tls: ServingTLS, server: WebhookServer) -> None:
        mounted = CertWatcher(
            folder,
            tls,
            self._certificate_metrics,
            self._logger,
            self.options.certificate_name,
            self.options.key_name,
        )
        await mounted.prepare()
        async with asyncio.TaskGroup() as group:
            group.create_task(mounted.run(), name="mounted webhook certificate")
            group.create_task(self._await_conversions(), name="conversion of CRDs")
            await self._serve(server, group)

    async def _serve_shared(self, server: WebhookServer) -> None:
        options = self.options
        namespace = options.secret_namespace or own_namespace()
        async with self._connect() as client:
            self._injection = Injection(
                client,
                self._targets(),
                f"{namespace}/{options.secret_name}",
                self._logger,
                seen=self._look_at,
                missing=self._missing,
            )
            self.certificates = CertRotator(
                client=client,
                name=options.secret_name,
                namespace=namespace,
                hosts=options.certificate_hosts(namespace),
                changed=self._use,
                logger=self._logger,
                options=options.rotation,
                clock=options.clock,
            )
            await self.certificates.prepare()
            async with asyncio.TaskGroup() as group:
                group.create_task(self.certificates.run(), name="webhook certificates")
                group.create_task(self._injection.run(), name="CA bundle")
                await self._serve(server, group, self._injection)

    async def _await_conversions(self) -> None:
        """Look at the CRDs of converted kinds until each has its conversion. Without the right to, log that once."""
        waiting = set(self.converted_crds)
        if not waiting:
            return
        async with self._connect() as client:
            while True:
                for name in sorted(waiting):
                    try:
                        crd = await client.get(CRD, name)
                    except NotFound:
                        self._missing.add(Target(CRD, name))
                        continue
                    except (APIError, TransportError) as error:
                        self._logger.warning("Conversion not checked", crd=name, error=str(error))
                        waiting -= {name} if isinstance(error, APIError) else set()
                        continue
                    self._missing.discard(Target(CRD, name))
                    self._look_at(crd)
                    waiting -= set() if name in self._unconverted else {name}
                if not waiting:
                    return
                await asyncio.sleep(LOOK_AGAIN)

    async def _look_for_missing(self) -> None:
        """Look for the CRDs that were missing, where no watch shows them."""
        async with self._connect() as client:
            for target in sorted(self._missing):
                with contextlib.suppress(APIError, TransportError):
                    self._look_at(await client.get(target.kind, target.name))
                    self._missing.discard(target)

    def _look_at(self, manifest: Manifest) -> None:
        """Note whether a CRD that is converted here has its conversion."""
        name = str(manifest["metadata"]["name"])
        if manifest.get("kind") != CRD.kind or name not in self.converted_crds:
            return
        reason = missing_conversion(manifest)
        if not reason:
            self._unconverted.pop(name, None)
        elif self._unconverted.get(name) != reason:
            self._unconverted[name] = reason
            self._logger.error("Versions not converted", crd=name, reason=reason)

    async def _serve(
        self, server: WebhookServer, group: asyncio.TaskGroup, injection: Injection | None = None
    ) -> None:
        group.create_task(server.start(), name="webhook server")
        await server.wait_ready()
        if injection is not None:
            try:
                async with asyncio.timeout(FIRST_INJECTION):
                    await injection.wait_first()
            except TimeoutError:
                self._logger.warning("The CA bundle is not injected yet")
        self._logger.info("Serving webhooks", port=self.port, paths=self.application.paths)
        self._serving.set()

    async def _use(self, certificates: CertificateSet) -> None:
        assert self.tls is not None  # noqa: S101 - made before the rotation
        assert self._injection is not None  # noqa: S101 - the same
        self.tls.load(certificates.chain, certificates.serving.key_pem)
        self._injection.use(certificates.bundle)

    def _targets(self) -> list[Target]:
        options = self.options
        targets = [Target(MUTATING, name) for name in options.mutating_configurations]
        targets += [Target(VALIDATING, name) for name in options.validating_configurations]
        targets += [Target(CRD, name) for name in self.converted_crds]
        if options.inject_annotated:
            targets += [Target(kind) for kind in (MUTATING, VALIDATING, CRD)]
        return targets

    def _before_start(self) -> None:
        if self._started:
            raise RuntimeError("webhooks cannot be added after the manager was started")


def _definition(conversion: Conversion) -> str:
    mapping = conversion.hub.mapping()
    return f"{mapping.plural}.{mapping.gvk.group}"


def own_namespace() -> str:
    """Return the Pod's namespace. Raises ValueError outside of a cluster."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:
        raise ValueError(
            "webhooks outside of a cluster need a certificate_folder, or a secret_namespace for "
            "the certificates that the manager makes"
        ) from None
