"""The manager as dist/install.yaml has it run: it makes its certificates, and is called.

The API server reaches it by URL instead of the Service; all else is as kustomize builds it.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from apis.tenancy import TenantTemplate
from ctrlruntime.client.errors import Invalid, NotFound
from ctrlruntime.client.patches import PatchType
from ctrlruntime.envtest.backends.ports import LOOPBACK, free_port
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.webhook.certificates import CertificateSet, due
from ctrlruntime.webhook.injection import VALIDATING
from ctrlruntime.webhook.rotation import SECRET
from ctrlruntime.webhook.rotation_options import RotationOptions
from manager.options import RunOptions
from tests.manifests.installation import NAMESPACE, Manifest, add, of_kind, of_webhooks, remove
from tests.tenancy.harness import NAMESPACE_KIND
from tests.tenancy.rights_scenario import LeadersHarness
from tests.webhook.handshakes import Clock

ROTATION = RotationOptions(
    authority_lifetime=timedelta(days=1000),
    authority_renewal=timedelta(days=900),
    serving_lifetime=timedelta(days=800),
    serving_renewal=timedelta(days=750),
    overlap=timedelta(days=10),
)
"""Another authority every 100 days, another certificate every 50; all are valid today, as API servers
have clocks of their own."""


def deployed_options() -> dict[str, str]:
    """The arguments of the installation's Deployment."""
    (deployment,) = of_kind("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(each.removeprefix("--").partition("=")[::2] for each in container["args"])


def added(port: int) -> list[Manifest]:
    """The installation's webhooks, which are called on this machine."""
    found = of_webhooks()
    for manifest in found:
        for hook in manifest.get("webhooks") or ():
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}{path}"}
    return found


@dataclass(slots=True)
class WebhooksHarness(LeadersHarness):
    """A harness whose manager serves webhooks, on a clock that is set."""

    clock: Clock = field(default_factory=lambda: Clock(datetime.now(UTC) - timedelta(days=500)))
    port: int = field(default_factory=free_port)

    def manager_options(self) -> ManagerOptions:
        """As the overlay says, on free ports of loopback."""
        given = deployed_options()
        assert self.options.webhooks is ("webhooks" in given)
        run = RunOptions(
            webhook_service_name=given["webhook-service-name"],
            webhook_configuration=given["webhook-configuration"],
            webhook_secret_namespace=NAMESPACE,
        ).manager_options()
        webhook = replace(
            run.webhook,
            host=LOOPBACK,
            port=self.port,
            hosts=(LOOPBACK,),
            rotation=ROTATION,
            clock=self.clock,
        )
        return replace(LeadersHarness.manager_options(self), webhook=webhook)

    @property
    def secret(self) -> str:
        """Of the certificates."""
        return RunOptions().webhook_secret_name

    @property
    def configuration(self) -> str:
        """What the API server calls the webhooks by."""
        return deployed_options()["webhook-configuration"]

    @property
    def certificates(self) -> CertificateSet:
        """What is served."""
        assert self.manager is not None
        assert self.manager.webhooks.certificates is not None
        assert self.manager.webhooks.certificates.current is not None
        return self.manager.webhooks.certificates.current

    @contextlib.asynccontextmanager
    async def overlaid(self, users: Collection[str] = ()) -> AsyncIterator[None]:
        """With the overlay's objects; `users` get the rights of the account."""
        objects = added(self.port)
        await self.forget_the_secret()
        await add(self.client, objects, users=users)
        try:
            await self.start_manager()
            yield
        finally:
            await self.stop_manager()
            await remove(self.client, objects)
            await self.forget_the_secret()

    async def forget_the_secret(self) -> None:
        """Certificates are made anew."""
        with contextlib.suppress(NotFound):
            await self.client.delete(SECRET, self.secret, namespace=NAMESPACE)

    async def is_trusted(self) -> bool:
        """Whether the API server was told to trust what is served."""
        found = await self.client.get(VALIDATING, self.configuration)
        bundles = [hook["clientConfig"].get("caBundle") or "" for hook in found["webhooks"]]
        wanted = base64.b64encode(self.certificates.bundle).decode()
        return bundles == [wanted] * len(bundles)

    async def is_asked(self, namespace: str) -> bool:
        """Whether the API server calls the webhooks: they refuse what could never work."""
        spec = {"registryId": "r", "configMaps": [{"id": "a", "nameTemplate": "{{ uid "}]}
        head = {"apiVersion": TenantTemplate.gvk().api_version, "kind": "TenantTemplate"}
        metadata = {"name": "never-works", "namespace": namespace}
        try:
            await self.client.create({**head, "metadata": metadata, "spec": spec}, dry_run=True)
        except Invalid:
            return True
        return False  # who does not answer is passed over


async def certificates_come_and_go(harness: WebhooksHarness) -> None:
    """Certificates are made, replaced in time and after a loss; the API server trusts them throughout."""
    namespace = f"{harness.namespace}-hooks"
    await harness.make_namespace(namespace)
    try:
        first = harness.certificates
        await harness.eventually(harness.is_trusted)
        await harness.eventually(lambda: harness.is_asked(namespace))
        for days in (50, 50, 20):  # another certificate, another authority, the first one forgotten
            before = harness.certificates
            harness.clock.advance(days)
            rotate(harness)
            await harness.eventually(partial(is_followed, harness, before))
            await harness.eventually(harness.is_trusted)
            await harness.eventually(lambda: harness.is_asked(namespace))
        assert first.authority.certificate not in (
            harness.certificates.authority.certificate,
            *harness.certificates.previous,
        )
        await what_is_lost_is_put_back(harness)
        await harness.eventually(lambda: harness.is_asked(namespace))
    finally:
        await harness.client.delete(NAMESPACE_KIND, namespace)


def rotate(harness: WebhooksHarness) -> None:
    """The clock was moved."""
    assert harness.manager is not None
    assert harness.manager.webhooks.certificates is not None
    harness.manager.webhooks.certificates.look()


async def is_followed(harness: WebhooksHarness, before: CertificateSet) -> bool:
    """Whether something else is served than before, and nothing is due."""
    now = harness.certificates
    return now.data() != before.data() and due(now, ROTATION) > harness.clock()


async def what_is_lost_is_put_back(harness: WebhooksHarness) -> None:
    """The Secret that somebody deleted, and the bundle that somebody took away."""
    await harness.client.delete(SECRET, harness.secret, namespace=NAMESPACE)

    async def secret() -> Manifest | None:
        try:
            return await harness.client.get(SECRET, harness.secret, namespace=NAMESPACE)
        except NotFound:
            return None

    await harness.eventually(secret)
    gone = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    await harness.client.patch(VALIDATING, harness.configuration, gone, type=PatchType.JSON)
    await harness.eventually(harness.is_trusted)
