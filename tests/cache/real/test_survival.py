"""The watch survives what happens to servers and networks: in the end the store is the server's state.

Every test makes changes before, during and after the trouble, and compares objects and the events
that handlers were told with a list of the server.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctrlruntime.client.auth import Authenticator, CallbackAuth, FileAuth, StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Unauthorized
from ctrlruntime.envtest.backends import KubeApiserverBackend
from ctrlruntime.envtest.users import administrator
from tests.support.waiting import eventually, eventually_raises

from .following import (
    BEFORE,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    Following,
    change,
    following,
    some_of_everything,
    write,
)
from .relay import Relay


def through(relay: Relay, config: Config) -> Config:
    return replace(config, host=relay.url)


DROPPED = "watcher close due to unresponsiveness"
"""What the server logs at level 1."""
pytestmark = [
    pytest.mark.criterion("watch survives"),
    pytest.mark.xdist_group("survival"),  # one server for all
]


@pytest.mark.criterion("RF-05")
async def test_the_server_is_killed_and_comes_back(
    backend: KubeApiserverBackend, admin: Client, namespace: str
) -> None:
    await write(admin, namespace, *BEFORE)
    async with following(backend.own_config(), namespace) as followed:
        await followed.watches(admin)
        await some_of_everything(admin, namespace)
        await backend.kill()
        await backend.restart()
        await write(admin, namespace, "after")
        await followed.holds_what(admin)
        assert {"made", "after"} <= followed.held().keys()


@pytest.mark.criterion("RF-03")
@pytest.mark.criterion("RF-07")
async def test_what_was_missed_is_compacted_away(
    backend: KubeApiserverBackend, relay: Relay, admin: Client, namespace: str
) -> None:
    """The informer is away while things change and their history is forgotten: 410, a new list."""
    await write(admin, namespace, *BEFORE)
    async with following(through(relay, backend.own_config()), namespace) as followed:
        await followed.watches(admin)
        relay.refusing = True
        relay.cut()
        await some_of_everything(admin, namespace)
        await backend.compact()
        await backend.restart()  # its own cache of the history is gone as well
        relay.refusing = False
        await followed.holds_what(admin)
        assert followed.lists == 2, "the server was asked for what it had forgotten"
        assert followed.unknown_deletions == {"deleted"}


async def test_the_peer_goes_silent(
    backend: KubeApiserverBackend, relay: Relay, admin: Client, namespace: str
) -> None:
    await write(admin, namespace, *BEFORE)
    config = through(relay, backend.own_config())
    async with following(config, namespace, inactivity=1.0) as followed:
        await followed.watches(admin)
        assert relay.freeze() >= 1
        await some_of_everything(admin, namespace)
        await followed.holds_what(admin)
        assert followed.lists == 1, "the watch is taken up where it was"


@pytest.mark.criterion("RF-02")
async def test_a_reader_too_slow_is_dropped_by_the_server(
    backend: KubeApiserverBackend, relay: Relay, admin: Client, namespace: str
) -> None:
    """Buffers fill until the server gives the watch up; what was in flight still counts."""
    kind = SERVICE_ACCOUNT  # of ConfigMaps and a few others the server keeps a hundred times more
    await write(admin, namespace, *BEFORE, kind=kind)
    config = through(relay, backend.own_config())
    async with following(config, namespace, kind=kind) as followed:
        await followed.watches(admin)
        before = followed.restarts
        relay.freeze()
        log = backend.processes["kube-apiserver"].log
        bulk = "x" * 200_000
        for number in range(500):  # first the kernel's buffers are full, then the server's
            await change(admin, namespace, "kept", f"{number}{bulk}", kind)
            if DROPPED in log.read_text():
                break
        await some_of_everything(admin, namespace, kind)
        assert followed.restarts == before
        relay.thaw()
        await followed.holds_what(admin)
        assert followed.restarts > before, "the server did not drop the watch"


async def test_a_token_expires(
    backend: KubeApiserverBackend, relay: Relay, admin: Client, namespace: str, tmp_path: Path
) -> None:
    """Watches that run go on; the next is refused, and made with the token of that time."""
    old, new = administrator("rotating"), administrator("rotating")
    file = tmp_path / "token"
    current = old

    async def token() -> str:
        return current.token

    backend.add_users([old])
    file.write_text(old.token)
    await write(admin, namespace, *BEFORE)
    base = through(relay, replace(backend.own_config(), auth=StaticAuth()))
    auths: list[Authenticator] = [CallbackAuth(token), FileAuth(file)]
    callback, from_file = (replace(base, auth=auth) for auth in auths)
    async with following(callback, namespace) as one, following(from_file, namespace) as two:
        await one.watches(admin)
        await two.holds_what(admin)
        backend.remove_users([old])
        await refused(replace(base, host=backend.url, auth=StaticAuth(token=old.token)))
        await some_of_everything(admin, namespace)
        relay.cut()
        await eventually(lambda: all(is_refused(followed) for followed in (one, two)))
        backend.add_users([new])
        current = new
        file.write_text(new.token)
        await write(admin, namespace, "after")
        for followed in (one, two):
            await followed.holds_what(admin)


def is_refused(followed: Following) -> bool:
    return isinstance(followed.informer.last_error, Unauthorized)


async def refused(config: Config) -> None:
    """Wait until the server has forgotten the token; it keeps those it has seen for ten seconds."""
    async with Client.connect(config) as client:
        await eventually_raises(Unauthorized, lambda: client.list(CONFIG_MAP, "default", limit=1))


async def test_certificates_roll_over(
    backend: KubeApiserverBackend, admin: Client, namespace: str, tmp_path: Path
) -> None:
    """A new serving certificate of a new authority, a new client certificate: files are read again."""
    ca, certificate, key = (tmp_path / name for name in ("ca.crt", "client.crt", "client.key"))
    ca.write_bytes(backend.ca_data or b"")
    put_client_certificate(backend, certificate, key)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=backend.url))
    await write(admin, namespace, *BEFORE)
    async with following(await Config.load(kubeconfig), namespace) as followed:
        await some_of_everything(admin, namespace)
        backend.pki.issue_serving(new_authority=True)
        await backend.restart()
        async with Client.connect(backend.own_config()) as fresh:
            await eventually(
                lambda: "certificate verify failed" in str(followed.informer.last_error)
            )
            ca.write_bytes(backend.ca_data or b"")
            put_client_certificate(backend, certificate, key)
            await write(fresh, namespace, "after")
            await followed.holds_what(fresh)


def put_client_certificate(backend: KubeApiserverBackend, certificate: Path, key: Path) -> None:
    identity = backend.certified(administrator("by-file"))
    assert identity.certificate is not None
    certificate.write_bytes(identity.certificate.certificate)
    key.write_bytes(identity.certificate.key)


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: only
contexts: [{{name: only, context: {{cluster: only, user: only}}}}]
clusters: [{{name: only, cluster: {{server: "{url}", certificate-authority: ca.crt}}}}]
users: [{{name: only, user: {{client-certificate: client.crt, client-key: client.key}}}}]
"""
