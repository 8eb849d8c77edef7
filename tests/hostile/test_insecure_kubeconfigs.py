"""A kubeconfig of a Secret by which a cluster is reached insecurely is used, and never silently (S-F23)."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config, ConfigError
from ctrlruntime.client.kubeconfig import Kubeconfig
from ctrlruntime.cluster.provider import ClusterSync, Engager, Wanted
from internal.cloud.tasks.kubernetes.access import insecurity_of
from internal.fleet.plane_access import access_of
from internal.fleet.stack_deployer import deployed
from internal.fleet.targets import TargetError
from tests.fleet.operator.harness import kubeconfig
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("S-F23")
SKIP: dict[str, Any] = {"insecure-skip-tls-verify": True}
INSECURE = [
    ("https://plane.example:6443", SKIP, "certificate-authority-data"),
    ("HTTPS://127.0.0.1:6443", SKIP, "certificate-authority-data"),
    ("http://plane.example:8080", {}, "write https://"),
    ("HTTP://10.0.0.1:8080", SKIP, "write https://"),
    ("http://127.0.0.1.example:8080", {}, "write https://"),
]
SECURE = ["https://plane.example:6443", "http://127.0.0.1:8080", "http://[::1]:1"]


def config_of(server: str, cluster: dict[str, Any] | None = None) -> Config:
    """Return the configuration by a kubeconfig of a Secret."""
    text = kubeconfig(server, cluster=cluster)
    return Config.of_kubeconfig(Kubeconfig.parse(text.encode(), "Secret a/b"))


@pytest.mark.parametrize(("server", "cluster", "remedy"), INSECURE)
async def test_what_is_insecure_is_in_every_text_that_people_read(
    server: str, cluster: dict[str, Any], remedy: str
) -> None:
    config = config_of(server, cluster)
    assert remedy in config.insecurity
    if server[:5].islower():
        text = kubeconfig(server, cluster=cluster)
        access = access_of({"kubeconfig": base64.b64encode(text.encode()).decode()})
        assert remedy in deployed(access.config.insecurity).message
    async with Client.connect(config) as client:
        assert remedy in insecurity_of(client)
    found: list[str] = []
    with structlog.testing.capture_logs() as logs:
        engager = cast("Engager", _Engager())
        sync = ClusterSync(
            engager, None, lambda *_: None, lambda name, why: found.append(name + why)
        )
        sync.want("plane", Wanted("1", lambda: config))
        await eventually(lambda: bool(found))
        await sync.close()
    assert remedy in found[0]
    assert [remedy in each["reason"] for each in logs] == [True]


@pytest.mark.parametrize("server", SECURE)
async def test_what_is_secure_is_mentioned_nowhere(server: str) -> None:
    config = config_of(server)
    assert config.insecurity == ""
    assert deployed(config.insecurity).message == "Namespace deployed successfully"
    async with Client.connect(config) as client:
        assert insecurity_of(client) == ""


def test_a_server_by_https_in_capitals_is_verified() -> None:
    assert config_of("HTTPS://plane.example").ssl_context() is not None


def test_a_flag_that_is_a_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="insecure-skip-tls-verify of a cluster is neither true"):
        config_of("https://plane.example", {"insecure-skip-tls-verify": "false"})


@pytest.mark.criterion("S-F7")
@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"tls-server-name": "a..b"}, {}, "has a host name that is none"),
        ({"tls-server-name": "a" * 100}, {}, "has a host name that is none"),
        ({"tls-server-name": "a\0b"}, {}, "tls-server-name is not one line"),
        ({"server": "https://a..b"}, {}, "has a host name that is none"),
        ({"server": "https://a/x y"}, {}, "its path is not escaped"),
        ({"server": "https://a/x\r\nHost: b"}, {}, "server is not one line"),
        ({"proxy-url": "http://a..b:1"}, {}, "proxy-url of cluster 'c'"),
        ({}, {"token": "a\r\nX: y"}, "token is not one line"),
        ({}, {"token": "t", "as": "a\nb"}, "as is not one line"),
        ({}, {"as": "a", "as-groups": ["x\r\ny"]}, "as-groups is not a list of texts"),
        ({}, {"as": "a", "as-user-extra": {"a": ["\0"]}}, "as-user-extra is not a mapping"),
    ],
)
def test_what_no_request_can_hold_is_an_invalid_kubeconfig(
    cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://a", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    data = {"kubeconfig": base64.b64encode(json.dumps(document).encode()).decode()}
    with pytest.raises(TargetError, match=message):
        access_of(data)


class _Engager:
    """Takes every cluster in."""

    def __init__(self) -> None:
        self.logger = structlog.get_logger()

    def new_cluster(self, name: str, *_: object) -> object:
        return SimpleNamespace(name=name)

    async def engage(self, _cluster: object) -> None: ...
