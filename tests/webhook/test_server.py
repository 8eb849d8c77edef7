"""The listener: mounted certificates, client certificates, ports, readiness."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from ctrlruntime.client.config import Config
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.manager import Group, Manager
from ctrlruntime.pki import KeyPair, issue, make_authority, pem
from ctrlruntime.webhook.options import WebhookOptions
from ctrlruntime.webhook.tls import CertificateError
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.handshakes import handshake
from tests.webhook.webhook_kinds import websites

SITES = websites()
DAY = timedelta(days=1)


def authority() -> KeyPair:
    return make_authority("tests", datetime.now(UTC), DAY)


def write(folder: Path, pair: KeyPair) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(pem(pair.certificate))
    (folder / "tls.key").write_bytes(pair.key_pem)


def pair_of(ca: KeyPair) -> KeyPair:
    return issue(ca, ["127.0.0.1"], datetime.now(UTC), DAY)


@contextlib.asynccontextmanager
async def serving(config: Config, folder: Path, **options: object) -> AsyncIterator[Manager]:
    """A manager with webhooks and the certificate of ``folder``."""
    given: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "certificate_folder": folder,
        **options,
    }
    manager = make_manager(
        config, webhook=WebhookOptions(**given), health_bind_address="127.0.0.1:0"
    )
    manager.webhooks.register(SITES.current)
    async with manager.running():
        yield manager


def port_of(manager: Manager) -> int:
    assert manager.webhooks.port is not None
    return manager.webhooks.port


async def until_served(manager: Manager, pair: KeyPair, bundle: bytes) -> None:
    """Wait until new connections get the certificate."""

    async def served() -> bool:
        return (await handshake(port_of(manager), bundle)) == pair.certificate

    await eventually(served)


def sample(manager: Manager, name: str) -> float:
    value = manager.metrics.registry.get_sample_value(name)
    assert value is not None
    return value


@pytest.mark.criterion("WH-09")
async def test_a_certificate_replaced_on_disk_is_served_without_a_restart(
    config: Config, tmp_path: Path
) -> None:
    ca = authority()
    bundle = pem(ca.certificate)
    first, second = pair_of(ca), pair_of(ca)
    write(tmp_path, first)
    async with serving(config, tmp_path) as manager:
        assert await handshake(port_of(manager), bundle) == first.certificate
        write(tmp_path, second)
        await until_served(manager, second, bundle)
        assert sample(manager, "certwatcher_read_certificate_total") >= 2


@pytest.mark.criterion("WH-09")
async def test_a_connection_from_before_ends_with_its_next_answer(
    config: Config, tmp_path: Path
) -> None:
    ca = authority()
    bundle = pem(ca.certificate)
    write(tmp_path, pair_of(ca))
    async with serving(config, tmp_path) as manager, aiohttp.ClientSession() as session:
        trusting = ssl.create_default_context(cadata=bundle.decode())
        url = f"https://127.0.0.1:{port_of(manager)}/validate-sites-example-com-v1-website"

        async def is_kept() -> bool:
            async with session.post(url, json={}, ssl=trusting) as answer:
                await answer.read()
                return answer.headers.get("Connection", "") != "close"

        assert await is_kept()
        second = pair_of(ca)
        write(tmp_path, second)
        await until_served(manager, second, bundle)
        assert not await is_kept()
        assert await is_kept()


@pytest.mark.criterion("WH-09")
async def test_a_mounted_secret_is_followed_through_its_links(
    config: Config, tmp_path: Path
) -> None:
    """A kubelet writes a new folder beside the old one and turns the link ``..data`` to it."""
    ca = authority()
    bundle = pem(ca.certificate)
    pairs = [pair_of(ca) for _ in range(3)]
    mount = tmp_path / "mount"
    mount.mkdir()
    for number, pair in enumerate(pairs):
        write(mount / f"..{number}", pair)
    (mount / "..data").symlink_to("..0")
    for name in ("tls.crt", "tls.key"):
        (mount / name).symlink_to(f"..data/{name}")
    async with serving(config, mount) as manager:
        assert await handshake(port_of(manager), bundle) == pairs[0].certificate
        for number in (1, 2):
            (mount / "..next").symlink_to(f"..{number}")
            (mount / "..next").rename(mount / "..data")
            await until_served(manager, pairs[number], bundle)


@pytest.mark.criterion("WH-09")
async def test_a_broken_pair_is_counted_and_the_one_before_is_served(
    config: Config, tmp_path: Path
) -> None:
    ca = authority()
    bundle = pem(ca.certificate)
    first, second = pair_of(ca), pair_of(ca)
    write(tmp_path, first)
    async with serving(config, tmp_path) as manager:
        (tmp_path / "tls.key").write_bytes(second.key_pem)

        async def counted() -> bool:
            return sample(manager, "certwatcher_read_certificate_errors_total") > 0

        await eventually(counted)
        assert await handshake(port_of(manager), bundle) == first.certificate
        (tmp_path / "tls.key").unlink()
        (tmp_path / "tls.crt").write_bytes(pem(second.certificate))
        (tmp_path / "tls.key").write_bytes(second.key_pem)
        await until_served(manager, second, bundle)


@pytest.mark.criterion("WH-09")
async def test_a_certificate_of_another_sort_takes_the_place_of_the_one_before(
    config: Config, tmp_path: Path
) -> None:
    """An RSA key after an elliptic one: nobody is served the old one any more."""
    ca = authority()
    first = pair_of(ca)
    write(tmp_path, first)
    key = rsa.generate_private_key(65537, 2048)
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(ca.certificate.subject)
        .issuer_name(ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .sign(ca.key, hashes.SHA256())
    )
    async with serving(config, tmp_path) as manager:
        (tmp_path / "tls.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        (tmp_path / "tls.crt").write_bytes(pem(certificate))

        async def replaced() -> bool:
            return (await handshake(port_of(manager))).serial_number == 7

        await eventually(replaced)


async def test_without_a_certificate_in_its_folder_a_manager_does_not_start(
    config: Config, tmp_path: Path
) -> None:
    with pytest.raises(CertificateError, match=r"it takes tls\.crt and tls\.key"):
        async with serving(config, tmp_path):
            pass


@pytest.mark.criterion("WH-10")
async def test_clients_show_a_certificate_where_that_is_asked(
    config: Config, tmp_path: Path
) -> None:
    ca, theirs, stranger = authority(), Authority("theirs"), Authority("stranger")
    folder = tmp_path / "serving"
    write(folder, pair_of(ca))
    (tmp_path / "clients.crt").write_bytes(theirs.ca_data)

    def client(signed_by: Authority) -> ssl.SSLContext:
        file = tmp_path / "client.pem"
        file.write_bytes(b"".join(signed_by.issue_client("api-server", ())))
        context = ssl.create_default_context(cadata=pem(ca.certificate).decode())
        context.load_cert_chain(file)
        return context

    async with serving(config, folder, client_ca=tmp_path / "clients.crt") as manager:
        url = f"https://127.0.0.1:{port_of(manager)}/validate-sites-example-com-v1-website"
        nobody = ssl.create_default_context(cadata=pem(ca.certificate).decode())
        async with aiohttp.ClientSession() as session:
            for context in (nobody, client(stranger)):
                with pytest.raises(aiohttp.ClientError):
                    await session.post(url, json={}, ssl=context)
            async with session.post(url, json={}, ssl=client(theirs)) as answer:
                assert answer.status == 400


@pytest.mark.criterion("WH-10")
async def test_the_port_minus_one_serves_nothing(config: Config, tmp_path: Path) -> None:
    async with serving(config, tmp_path / "none", port=-1) as manager:
        assert manager.elected.is_set()
        assert manager.webhooks.port is None
        assert await manager.webhooks.check()


@pytest.mark.criterion("WH-10")
async def test_it_is_not_ready_before_it_listens_nor_after_it_has_ended(
    config: Config, tmp_path: Path
) -> None:
    ca = authority()
    write(tmp_path, pair_of(ca))
    async with serving(config, tmp_path) as manager:
        assert await manager.webhooks.check()
        port = port_of(manager)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{manager.health_port}/readyz/webhooks") as answer,
        ):
            assert answer.status == 200
    assert not await manager.webhooks.check()
    with pytest.raises(OSError, match=r"refused|Connect"):
        socket.create_connection(("127.0.0.1", port), 5).close()

    fresh = make_manager(config, webhook=WebhookOptions(certificate_folder=tmp_path))
    fresh.webhooks.register(SITES.current)
    assert not await fresh.webhooks.check()
    await fresh.live_client.close()


async def test_webhooks_come_before_the_caches_and_take_no_late_ones(
    config: Config, tmp_path: Path
) -> None:
    write(tmp_path, pair_of(authority()))
    async with serving(config, tmp_path) as manager:
        assert manager.webhooks.runnable_group is Group.WEBHOOKS
        with pytest.raises(RuntimeError, match="after the manager was started"):
            manager.webhooks.register(SITES.current)
