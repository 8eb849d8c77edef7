"""A kubeconfig means what it means to kubectl, or is refused when it is read: nothing of it is left out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config, ConfigError, proxy_of_environment
from ctrlruntime.client.request_head import RequestHead
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator

pytestmark = pytest.mark.criterion("R-10")

EXEC = "client.authentication.k8s.io/v1"
PLUGIN = """#!/bin/sh
echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t", "expirationTimestamp": "'$STAMP'"}}'
"""
CA = {"certificate-authority-data": "QQ=="}


def written(
    path: Path,
    server: str = "https://x",
    user: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
) -> Path:
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_impersonation_takes_every_group_and_every_extra(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-groups": ["one", "two"],
        "as-user-extra": {"scopes": ["read", "list"], "example.com/a%b": ["x"]},
    }
    config = await Config.load(written(tmp_path / "c", user=user))
    head = RequestHead.of(config, {}, compression=False).encode("GET", "/", None, None, "")
    lines = [line for line in head.decode().split("\r\n") if line.startswith("Impersonate-")]
    assert sorted(lines) == [
        "Impersonate-Extra-example.com%2Fa%25b: x",
        "Impersonate-Extra-scopes: list",
        "Impersonate-Extra-scopes: read",
        "Impersonate-Group: one",
        "Impersonate-Group: two",
        "Impersonate-User: jane",
    ]


def _of(env: Environment) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path(env.kubeconfig("admin")).read_text())
    return found


async def test_the_server_sees_all_groups(tmp_path: Path) -> None:
    async with Environment(users=(administrator("admin"),)) as env:
        found = _of(env)
        found["users"][0]["user"] |= {
            "as": "jane",
            "as-groups": ["one", "two"],
            "as-user-extra": {"a/b": ["c"]},
        }
        (tmp_path / "c").write_text(yaml.safe_dump(found))
        async with Client.connect(await Config.load(tmp_path / "c")) as client:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            status: Any = (await client.create(review))["status"]
    seen = status["userInfo"]
    assert seen["username"] == "jane"
    assert {"one", "two"} <= set(seen["groups"])
    assert seen["extra"] == {"a/b": ["c"]}


@pytest.mark.parametrize(
    ("server", "cluster", "host"),
    [
        ("10.0.0.1:6443", CA, "https://10.0.0.1:6443"),
        ("10.0.0.1:6443", {"insecure-skip-tls-verify": True}, "https://10.0.0.1:6443"),
        ("localhost:8080", {}, "http://localhost:8080"),
    ],
)
async def test_a_server_without_a_scheme_gets_one(
    tmp_path: Path, server: str, cluster: dict[str, Any], host: str
) -> None:
    assert (await Config.load(written(tmp_path / "c", server, cluster=cluster))).host == host


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"as-groups": ["g"]}, {}, "names no user: set as"),
        ({"as": "j", "as-groups": "g"}, {}, "as-groups is not a list"),
        ({"as": "j", "as-user-extra": {"a": "b"}}, {}, "as-user-extra is not a mapping"),
        ({"exec": "aws"}, {}, "names no command"),
        ({"exec": {"command": "x", "env": [{"value": "v"}]}}, {}, "has no name"),
        ({"exec": {"command": "x", "args": "a b"}}, {}, "args of the exec section"),
        ({"exec": {"command": "x", "apiVersion": f"{EXEC}alpha1"}}, {}, "not supported"),
        ({"exec": {"command": "x", "interactiveMode": "Always"}}, {}, "no terminal"),
        ({"exec": {"command": "x"}, "auth-provider": {"name": "oidc"}}, {}, "one is allowed"),
        ({"token": "t", "username": "u", "password": "p"}, {}, "token and username"),
        ({"auth-provider": "oidc"}, {}, "auth-provider is not a mapping"),
        ({"auth-provider": {"name": "oidc"}}, {}, "has no config"),
        ({}, {"proxy-url": "socks5://proxy:1080"}, "proxy-url of cluster 'c'.*SOCKS"),
        ({}, {**CA, "insecure-skip-tls-verify": True}, "contradict each other"),
        ({}, {"server": "ftp://x"}, "server of cluster 'c'"),
        ({}, {"server": "not a url"}, "server of cluster 'c'.*not the URL"),
    ],
)
async def test_what_cannot_be_used_is_refused_when_it_is_read(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await Config.load(written(tmp_path / "c", user=user, cluster=cluster))


async def test_the_end_of_a_line_is_no_part_of_a_server_and_entries_without_use_refuse_nothing(
    tmp_path: Path,
) -> None:
    """A merged file has entries of many clusters; block texts of YAML end in a newline."""
    proxy = {"proxy-url": "http://p:1\n"}
    path = written(tmp_path / "c", "https://x:1\n", {"token": "t\n"}, proxy)
    document = yaml.safe_load(path.read_text())
    document["users"].append({"name": "other", "user": {"token": "a\nb"}})
    path.write_text(yaml.safe_dump(document))
    config = await Config.load(path)
    assert (config.host, config.proxy_url) == ("https://x:1", "http://p:1")
    assert (await config.auth.headers())["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("stamp", "message"),
    [("2100-01-01T00:00:00Z", ""), ("2100-01-01T00:00:00", "no time"), ("soon", "no time")],
)
async def test_a_relative_plugin_begins_at_the_kubeconfig_and_its_time_has_a_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stamp: str, message: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "plugin").write_text(PLUGIN)
    (tmp_path / "bin" / "plugin").chmod(0o755)
    monkeypatch.chdir("/")
    env = [{"name": "STAMP", "value": stamp}, {"name": "EMPTY"}]
    user = {"exec": {"command": "bin/plugin", "env": env}}
    config = await Config.load(written(tmp_path / "c", user=user))
    if message:
        with pytest.raises(AuthError, match=message):
            await config.auth.headers()
    else:
        assert await config.auth.headers() == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"token": "a\r\nX: y"}, "not one line"),
        ({"token": 7}, "token is not a text"),
        ({"clientCertificateData": 7, "clientKeyData": "k"}, "clientCertificateData is not a text"),
        ({"clientCertificateData": "c"}, "only one"),
        (7, "neither token"),
    ],
)
@pytest.mark.parametrize("version", [EXEC, f"{EXEC}beta1"])
async def test_what_a_plugin_prints_beside_the_format_is_an_error_of_credentials(
    tmp_path: Path, status: object, message: str, version: str
) -> None:
    (tmp_path / "printed").write_text(json.dumps({"apiVersion": EXEC, "status": status}))
    plugin = {"command": "cat", "args": [str(tmp_path / "printed")], "apiVersion": version}
    config = await Config.load(written(tmp_path / "c", user={"exec": plugin}))
    with pytest.raises(AuthError, match=message if version == EXEC else f"printed {EXEC}, not"):
        await config.auth.headers()


@pytest.mark.parametrize("content", [b"a\nb", b"\xff\xfe", b"\n"])
async def test_a_token_file_that_has_no_token_is_an_error_of_credentials(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)
    config = await Config.load(written(tmp_path / "c", user={"tokenFile": "token"}))
    with pytest.raises(AuthError, match="token"):
        await config.auth.headers()


@pytest.mark.parametrize("given", [{}, {"id-token": "a.b"}, {"refresh-token": "r"}])
async def test_an_oidc_provider_without_a_token_is_an_error_of_credentials(
    tmp_path: Path, given: dict[str, str]
) -> None:
    user = {"auth-provider": {"name": "oidc", "config": given}}
    config = await Config.load(written(tmp_path / "c", user=user))
    with pytest.raises(AuthError, match="auth-provider 'oidc'"):
        await config.auth.headers()


async def test_an_empty_file_among_several_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    listed = os.pathsep.join([str(tmp_path / "empty"), str(written(tmp_path / "c"))])
    assert (await Config.load(environment={"KUBECONFIG": listed})).host == "https://x"


async def test_the_proxy_is_that_of_the_kubeconfig_or_of_the_environment(tmp_path: Path) -> None:
    path, own = written(tmp_path / "c"), {"proxy-url": "http://own"}
    environment = {"HTTPS_PROXY": "proxy:3128"}
    assert (await Config.load(path, environment=environment)).proxy_url == "http://proxy:3128"
    written(path, cluster=own)
    assert (await Config.load(path, environment=environment)).proxy_url == "http://own"
    written(path)
    with pytest.raises(ConfigError, match=r"\$HTTPS_PROXY.*SOCKS"):
        await Config.load(path, environment={"HTTPS_PROXY": "socks5://proxy:1080"})


@pytest.mark.parametrize(
    ("server", "excepted", "direct"),
    [
        ("https://api.example.com:6443", "", False),
        ("https://api.example.com:6443", "*", True),
        ("https://api.example.com:6443", "other.com, EXAMPLE.com", True),
        ("https://api.example.com:6443", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://example.com", "*.example.com", False),
        ("https://notexample.com", "example.com", False),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://10.96.0.1", "10.0.0.0/16", False),
        ("https://10.96.0.1", "10.96.0.1", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
        ("http://api.example.com", "", True),
    ],
)
def test_no_proxy_lists_what_is_reached_directly(server: str, excepted: str, direct: bool) -> None:
    for names in (("HTTPS_PROXY", "NO_PROXY"), ("https_proxy", "no_proxy")):
        environment = dict(zip(names, ("http://proxy", excepted), strict=True))
        assert (proxy_of_environment(server, environment) is None) is direct
