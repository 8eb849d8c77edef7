"""Certificates that managers make and rotate themselves, while an API server calls them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from cryptography import x509

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.auth import Authenticator, AuthError
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Invalid, NotFound
from ctrlruntime.client.patches import PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.users import User
from ctrlruntime.generate import roles, serves_webhooks, webhook_configurations, webhooks_of
from ctrlruntime.generate.crd import crd_of
from ctrlruntime.manager import ElectionOptions, Manager
from ctrlruntime.webhook.certificates import CertificateSet, due
from ctrlruntime.webhook.injection import (
    ANNOTATION,
    CRD,
    VALIDATING,
    Injection,
    Target,
    injection_patch,
)
from ctrlruntime.webhook.options import WebhookOptions
from ctrlruntime.webhook.rotation import SECRET, CertRotator
from ctrlruntime.webhook.rotation_options import RotationOptions
from tests.backends import SharedServer
from tests.docs.blocks import ROOT
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.handshakes import Clock, handshake
from tests.webhook.webhook_kinds import Websites

NAME = "webhook-server-cert"
OFTEN = RotationOptions(
    authority_lifetime=timedelta(days=1000),
    authority_renewal=timedelta(days=900),
    serving_lifetime=timedelta(days=800),
    serving_renewal=timedelta(days=750),
    overlap=timedelta(days=10),
)
"""An authority every 100 days, a certificate every 50; all are valid today if the clock began
less than 800 days ago, as the servers in these tests have clocks of their own."""


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime.now(UTC) - timedelta(days=500))


@pytest.fixture
async def namespace(environment: Environment) -> AsyncIterator[str]:
    name = f"hooks-{secrets.token_hex(4)}"
    client = environment.client()
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(GroupVersionKind("", "v1", "Namespace"), name)


@contextlib.asynccontextmanager
async def running(
    environment: Environment, sites: Websites, webhook: WebhookOptions, *, user: str = "admin",
    convert: bool = False, **options: object,
) -> AsyncIterator[Manager]:  # fmt: skip
    """A manager that serves; it may or may not lead."""
    given: dict[str, Any] = options
    manager = make_manager(environment.config(user), webhook=webhook, **given)
    manager.webhooks.register(sites.current)
    if convert:
        manager.webhooks.convert(sites.current, sites.old)
    async with manager.running(leading=False):
        yield manager


def own(namespace: str, clock: Clock | None = None, **options: object) -> WebhookOptions:
    """Self-made certificates, served on a free port of loopback."""
    given: dict[str, Any] = {"port": 0, **options}
    if clock is not None:
        given |= {"clock": clock, "rotation": OFTEN}
    return WebhookOptions(
        host="127.0.0.1", secret_namespace=namespace, hosts=("127.0.0.1",), **given
    )


def configurations(sites: Websites, port: int, name: str) -> list[Manifest]:
    """What the kind declares, called by URL, without a CA."""
    made = webhook_configurations(
        webhooks_of(sites.current), mutating_name=name, validating_name=name
    )
    for manifest in made:
        for hook in manifest["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}"}
    return made


@contextlib.asynccontextmanager
async def installed(client: Client, manifests: list[Manifest]) -> AsyncIterator[None]:
    for manifest in manifests:
        await client.create(manifest)
    try:
        yield
    finally:
        for manifest in manifests:
            metadata = manifest["metadata"]
            with contextlib.suppress(NotFound):
                await client.delete(
                    GroupVersionKind.of(manifest),
                    metadata["name"],
                    namespace=metadata.get("namespace"),
                )


async def stored(client: Client, namespace: str) -> CertificateSet:
    secret = await client.get(SECRET, NAME, namespace=namespace)
    assert secret["type"] == "kubernetes.io/tls"
    return CertificateSet.from_data(secret["data"])


async def bundle_of(client: Client, name: str) -> bytes:
    configuration = await client.get(VALIDATING, name)
    encoded = configuration["webhooks"][0]["clientConfig"].get("caBundle") or ""
    return base64.b64decode(encoded)


@dataclass
class Load:
    """Requests that the webhooks are asked about, one after the other from several clients."""

    client: Client
    sites: Websites
    done: int = 0
    failures: list[str] = field(default_factory=list)

    async def run(self, number: int) -> None:
        name = f"site-{number}"
        made = await self.client.create(self.sites.manifest(name, title="A"))
        while True:
            try:
                probe = self.sites.manifest(f"{name}-probe", title="B", port=self.done + 100)
                answer = await self.client.create(probe, dry_run=True)
                assert answer["spec"]["tier"] == "small"  # it was called
                made["spec"]["port"] = self.done + 100
                made = await self.client.update(made)
                with contextlib.suppress(Invalid):
                    await self.client.create(self.sites.manifest("bad", port=81), dry_run=True)
                    self.failures.append("a bad object was let in")
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
                self.failures.append(repr(error))
            self.done += 3

    async def more(self, count: int = 12) -> None:
        """Wait for so many further requests."""
        goal = self.done + count

        async def reached() -> bool:
            return self.done >= goal

        await eventually(reached, timeout=60)


@contextlib.asynccontextmanager
async def loaded(client: Client, sites: Websites, workers: int = 3) -> AsyncIterator[Load]:
    load = Load(client, sites)
    tasks = [asyncio.create_task(load.run(number)) for number in range(workers)]
    try:
        yield load
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving_trusted(
    environment: Environment, sites: Websites, name: str, clock: Clock, port: int
) -> AsyncIterator[Manager]:
    """Run a manager whose first certificates the API server trusts, in configurations of that name."""
    client = environment.client()
    await environment.install_crds(sites.current)
    options = own(
        name, clock, port=port,
        mutating_configurations=(name,), validating_configurations=(name,),
    )  # fmt: skip
    async with (
        running(environment, sites, options) as manager,
        installed(client, configurations(sites, port, name)),
    ):
        await eventually(lambda: is_trusted(client, name, manager))
        yield manager


async def test_authorities_and_certificates_are_rotated_while_requests_run(
    environment: Environment, sites: Websites, namespace: str, clock: Clock
) -> None:
    """Four authorities follow the first without one request that fails."""
    client, name, port = environment.client(), namespace, free_port()
    async with serving_trusted(environment, sites, name, clock, port) as manager:
        rotation = manager.webhooks.certificates
        assert rotation is not None
        serials = [rotation.current.serving.certificate.serial_number]  # type: ignore[union-attr]
        authorities = [rotation.current.authority.certificate]  # type: ignore[union-attr]
        async with loaded(client, sites) as load:
            await load.more()
            for days in (50, 50, 10, 40, 50, 10, 40, 50, 10, 40, 50, 10):
                clock.advance(days)
                rotation.look()
                await eventually(lambda: is_current(manager, clock))
                await eventually(lambda: is_trusted(client, name, manager))
                await load.more()
                current = rotation.current
                assert current is not None
                served = await handshake(port, current.bundle)
                assert served == current.serving.certificate
                if served.serial_number not in serials:
                    serials.append(served.serial_number)
                if current.authority.certificate not in authorities:
                    authorities.append(current.authority.certificate)
                    assert current.previous == (authorities[-2],)  # both are trusted
                else:
                    assert len(current.previous) == 0
        assert load.failures == []
        assert load.done > 100
        assert len(authorities) == 5
        assert len(serials) >= 8

        last = await stored(client, namespace)
        trusted = x509.load_pem_x509_certificates(await bundle_of(client, name))
        assert trusted == [authorities[-1]]
        assert last.crosses == last.previous == ()
        assert last.authority.certificate == authorities[-1]
    await environment.uninstall_crds(sites.current)


async def test_an_api_server_that_lags_behind_trusts_a_new_authority_all_the_same(
    environment: Environment,
    sites: Websites,
    namespace: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new bundle is kept back: all that the server knows is the authority before."""
    client, name, port = environment.client(), namespace, free_port()
    async with serving_trusted(environment, sites, name, clock, port) as manager:
        rotation = manager.webhooks.certificates
        assert rotation is not None
        monkeypatch.setattr(Injection, "use", lambda self, bundle: None)
        known = await bundle_of(client, name)
        async with loaded(client, sites) as load:
            await load.more()
            clock.advance(100)
            rotation.look()
            await eventually(lambda: is_current(manager, clock))
            await load.more(30)
        assert load.failures == []
        assert await bundle_of(client, name) == known
        assert rotation.current is not None
        assert rotation.current.bundle != known
        assert await handshake(port, known) == rotation.current.serving.certificate
    await environment.uninstall_crds(sites.current)


async def is_trusted(client: Client, name: str, manager: Manager) -> bool:
    """Whether the configuration has the bundle of what is served."""
    certificates = manager.webhooks.certificates
    assert certificates is not None
    assert certificates.current is not None
    return await bundle_of(client, name) == certificates.current.bundle


async def is_current(manager: Manager, clock: Clock) -> bool:
    """Whether nothing is due, and what is there is served."""
    certificates, tls = manager.webhooks.certificates, manager.webhooks.tls
    assert certificates is not None
    assert certificates.current is not None
    assert tls is not None
    return (
        due(certificates.current, OFTEN) > clock() and tls.certificate == certificates.current.chain
    )


async def test_two_managers_that_start_at_once_agree(
    environment: Environment, sites: Websites, namespace: str, clock: Clock
) -> None:
    """Only one leads; both serve, with one authority, before and after a rotation."""
    client = environment.client()
    election: dict[str, Any] = {
        "leader_election": True,
        "leader_election_id": "sites",
        "leader_election_namespace": namespace,
        "election": ElectionOptions(lease_duration=15, renew_deadline=10, retry_period=0.5),
    }
    async with (
        running(environment, sites, own(namespace, clock), **election) as one,
        running(environment, sites, own(namespace, clock), **election) as two,
    ):
        first = await both_serve(one, two, client, namespace)
        clock.advance(100)
        for manager in (one, two):
            assert manager.webhooks.certificates is not None
            manager.webhooks.certificates.look()

        async def rotated() -> bool:
            return all(is_followed(manager, first) for manager in (one, two))

        await eventually(rotated)
        second = await both_serve(one, two, client, namespace)
        assert second.previous == (first.authority.certificate,)

        async def one_leads() -> bool:
            return sum(manager.elected.is_set() for manager in (one, two)) == 1

        await eventually(one_leads)


def is_followed(manager: Manager, first: CertificateSet) -> bool:
    assert manager.webhooks.certificates is not None
    current = manager.webhooks.certificates.current
    return current is not None and current.bundle != first.bundle


async def both_serve(one: Manager, two: Manager, client: Client, namespace: str) -> CertificateSet:
    agreed = await stored(client, namespace)
    for manager in (one, two):
        assert manager.webhooks.port is not None
        served = await handshake(manager.webhooks.port, agreed.bundle)
        assert served == agreed.serving.certificate
    return agreed


async def test_many_that_start_in_the_same_instant_make_one_authority(
    environment: Environment, sites: Websites, namespace: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        managers = await asyncio.gather(
            *(
                stack.enter_async_context(running(environment, sites, own(namespace)))
                for _ in range(4)
            )
        )
        bundles = {manager.webhooks.certificates.current.bundle for manager in managers}  # type: ignore[union-attr]
        assert bundles == {(await stored(environment.client(), namespace)).bundle}


@pytest.mark.parametrize("environment", ["kube-apiserver"], indirect=True)
async def test_a_manager_that_is_killed_comes_back_with_the_same_authority(
    environment: Environment, sites: Websites, namespace: str
) -> None:
    client, port = environment.client(), free_port()
    command = ["-m", "tests.webhook.program", str(environment.kubeconfig()), namespace, str(port)]
    seen: list[tuple[x509.Certificate, str]] = []
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await eventually(lambda: answers(port), timeout=60)
            secret = await client.get(SECRET, NAME, namespace=namespace)
            bundle = CertificateSet.from_data(secret["data"]).bundle
            certificate = await handshake(port, bundle)
            seen.append((certificate, secret["metadata"]["resourceVersion"]))
        finally:
            process.kill()
            await process.wait()
    assert seen[0] == seen[1]


async def answers(port: int) -> bool:
    try:
        await handshake(port)
    except OSError:
        return False
    return True


async def test_a_secret_that_is_deleted_is_written_again_and_one_that_is_spoilt_is_replaced(
    environment: Environment, sites: Websites, namespace: str
) -> None:
    client = environment.client()
    async with running(environment, sites, own(namespace)) as manager:
        first = await stored(client, namespace)
        await client.delete(SECRET, NAME, namespace=namespace)

        async def back() -> bool:
            with contextlib.suppress(Exception):
                return (await stored(client, namespace)).data() == first.data()
            return False

        await eventually(back)
        spoilt = {"data": {"tls.key": base64.b64encode(b"rubbish").decode()}}
        await client.patch(SECRET, NAME, spoilt, namespace=namespace)
        await eventually(back)
        assert manager.webhooks.port is not None
        assert await handshake(manager.webhooks.port, first.bundle) == first.serving.certificate


# -- injection ------------------------------------------------------------------------------


async def test_the_bundle_goes_where_it_is_named_or_asked_for_and_nowhere_else(
    environment: Environment, sites: Websites, namespace: str
) -> None:
    client, name = environment.client(), namespace
    named = configurations(sites, 9, f"{name}-named")
    asking = configurations(sites, 9, f"{name}-asking")
    for manifest in asking:
        manifest["metadata"]["annotations"] = {ANNOTATION: f"{namespace}/{NAME}"}
    strange = configurations(sites, 9, f"{name}-strange")
    strange[0]["metadata"]["annotations"] = {ANNOTATION: "elsewhere/else"}
    options = own(
        namespace,
        mutating_configurations=(f"{name}-named",),
        validating_configurations=(f"{name}-named", f"{name}-not-there-yet"),
        inject_annotated=True,
    )
    async with (
        installed(client, [*named, *asking, *strange]),
        running(environment, sites, options) as manager,
    ):
        assert manager.webhooks.certificates is not None
        assert manager.webhooks.certificates.current is not None
        bundle = manager.webhooks.certificates.current.bundle
        for manifest in (*named, *asking):
            live = await client.get(GroupVersionKind.of(manifest), manifest["metadata"]["name"])
            assert injection_patch(live, bundle) == []
        assert await bundle_of(client, f"{name}-strange") == b""

        late = configurations(sites, 9, f"{name}-not-there-yet")[1:]
        async with installed(client, late):
            await eventually(lambda: has(client, f"{name}-not-there-yet", bundle))
        empty = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await client.patch(VALIDATING, f"{name}-named", empty, type=PatchType.JSON)
        await eventually(lambda: has(client, f"{name}-named", bundle))

        versions = [await version_of(client, manifest) for manifest in (*named, *asking)]
        async with running(environment, sites, options):
            again = [await version_of(client, manifest) for manifest in (*named, *asking)]
        assert again == versions  # what is equal is not written


async def has(client: Client, name: str, bundle: bytes) -> bool:
    return await bundle_of(client, name) == bundle


async def version_of(client: Client, manifest: Manifest) -> str:
    live = await client.get(GroupVersionKind.of(manifest), manifest["metadata"]["name"])
    return str(live["metadata"]["resourceVersion"])


def test_a_webhook_that_moved_in_between_is_not_written_to() -> None:
    hooks = [{"name": "a", "clientConfig": {}}, {"name": "b", "clientConfig": {}}]
    patch = injection_patch({"webhooks": hooks}, b"x")
    assert [step["op"] for step in patch] == ["test", "add", "test", "add"]
    assert patch[2] == {"op": "test", "path": "/webhooks/1/name", "value": "b"}
    assert injection_patch({"kind": "CustomResourceDefinition", "spec": {}}, b"x") == []


async def test_a_definition_converted_here_trusts_the_manager(
    environment: Environment, sites: Websites, namespace: str
) -> None:
    client, port = environment.client(), free_port()
    definition = crd_of([sites.current, sites.old])
    definition["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": f"https://127.0.0.1:{port}/convert"},
            "conversionReviewVersions": ["v1"],
        },
    }
    async with running(environment, sites, own(namespace, port=port), convert=True):
        await environment.install_crds(definition)
        crd_name = definition["metadata"]["name"]

        async def trusted() -> bool:
            live = await client.get(CRD, crd_name)
            return bool(live["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle"))

        await eventually(trusted)

        async def converted() -> bool:
            with contextlib.suppress(Exception):
                old = sites.manifest(secrets.token_hex(4), version="v1alpha1", headline="A/large")
                made = await client.create(old)
                got = await client.get(sites.current, made["metadata"]["name"], namespace="default")
                return bool(got.spec.title == "A")
            return False

        await eventually(converted)
        await environment.uninstall_crds(definition)


async def test_a_manager_needs_no_more_than_the_generated_roles(
    real_server: SharedServer, sites: Websites
) -> None:
    """On the real server with RBAC: rotation and injection without one request refused."""
    user = User(name=f"hooks-{secrets.token_hex(4)}")
    async with real_server.environment(users=("admin", user), proxy=True) as environment:
        admin = Client.connect(environment.config(direct=True))
        name = user.name
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        rules = serves_webhooks(NAME, name, mutating=[name], validating=[name])
        made = [*roles(rules, name), *bindings(name, user.name)]
        port = free_port()
        options = own(
            name, port=port, mutating_configurations=(name,), validating_configurations=(name,)
        )
        async with (
            admin,
            installed(admin, [*made, *configurations(sites, port, name)]),
            running(environment, sites, options, user=user.name),
        ):
            await eventually(lambda: injected(admin, name))
            assert not [e for e in environment.proxy.log.entries() if e.code in (401, 403)]
            await admin.delete(GroupVersionKind("", "v1", "Namespace"), name)


async def injected(client: Client, name: str) -> bool:
    return bool(await bundle_of(client, name))


def bindings(name: str, user: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    subject = [{"kind": "User", "name": user, "apiGroup": group}]
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": name, **({"namespace": name} if kind == "Role" else {})},
            "subjects": subject,
            "roleRef": {"kind": kind, "name": name, "apiGroup": group},
        }
        for kind in ("ClusterRole", "Role")
    ]


class LostCredentials:
    """Credentials of a plugin that fails for a while."""

    renewable = False
    generation = 0
    certificate = None

    def __init__(self, inner: Authenticator) -> None:
        self.inner = inner
        self.failures = 0
        self.lost = True

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        if self.lost:
            self.failures += 1
            raise AuthError("the plugin failed")
        return await self.inner.headers(refused=refused)


async def test_credentials_that_are_lost_for_a_while_end_neither_certificates_nor_injection(
    environment: Environment, namespace: str
) -> None:
    config = environment.config("admin")
    auth = LostCredentials(config.auth)
    served = asyncio.Queue[CertificateSet]()

    async def changed(certificates: CertificateSet) -> None:
        served.put_nowait(certificates)

    logger = structlog.get_logger()
    async with Client.connect(replace(config, auth=auth)) as client:
        rotator = CertRotator(
            client=client, namespace=namespace, name=NAME, hosts=("127.0.0.1",), changed=changed,
            logger=logger,
        )  # fmt: skip
        injection = Injection(client, (Target(VALIDATING, "none"),), "", logger)
        injection.use(b"bundle")
        injecting = asyncio.create_task(injection.run())
        preparing = asyncio.create_task(rotator.prepare())
        await eventually(lambda: auth.failures >= 2)
        assert not preparing.done()
        auth.lost = False
        await asyncio.wait_for(preparing, 60)
        assert served.qsize() == 1
        assert not injecting.done()
        injecting.cancel()
        await asyncio.gather(injecting, return_exceptions=True)
