"""The metrics over https, for whom the API server allows; health endpoints."""

from __future__ import annotations

import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.auth import StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User
from ctrlruntime.manager import (
    Manager,
    MetricsServing,
    ServerRequest,
    ServerResponse,
)
from ctrlruntime.manager.authorization import RequestFilter
from ctrlruntime.manager.http_routes import Routes
from ctrlruntime.pki import KeyPair, issue, make_authority, pem
from ctrlruntime.webhook.tls import CertificateError
from tests.manager.http_server import http_server
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.handshakes import handshake, unchecked

DAY = timedelta(days=1)


@contextlib.asynccontextmanager
async def running(
    config: Config, metrics: MetricsServing, setup: Callable[[Manager], object] = lambda _: None
) -> AsyncIterator[Manager]:
    manager = make_manager(
        config,
        metrics=metrics,
        metrics_bind_address="127.0.0.1:0",
        health_bind_address="127.0.0.1:0",
    )
    setup(manager)
    async with manager.running():
        yield manager


async def get(url: str, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=context or unchecked()) as answer,
    ):
        return answer.status, await answer.text()


def write(folder: Path, pair: KeyPair) -> None:
    (folder / "tls.crt").write_bytes(pem(pair.certificate))
    (folder / "tls.key").write_bytes(pair.key_pem)


@pytest.mark.criterion("WH-11")
async def test_https_without_a_certificate_is_signed_by_itself(config: Config) -> None:
    async with running(config, MetricsServing(secure=True)) as manager:
        assert manager.metrics_port is not None
        served = await handshake(manager.metrics_port)
        assert served.issuer == served.subject
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{manager.metrics_port}/metrics")
        code, text = await get(f"https://127.0.0.1:{manager.metrics_port}/metrics")
        assert (code, "certwatcher_read_certificate_total" in text) == (200, True)
        trusting = ssl.create_default_context(cadata=pem(served).decode())
        url = f"https://localhost:{manager.metrics_port}/metrics"
        assert (await get(url, context=trusting))[0] == 200


@pytest.mark.criterion("WH-11")
async def test_a_certificate_of_the_metrics_is_followed_on_disk(
    config: Config, tmp_path: Path
) -> None:
    ca = make_authority("tests", datetime.now(UTC), DAY)
    bundle = pem(ca.certificate)
    first, second = (issue(ca, ["127.0.0.1"], datetime.now(UTC), DAY) for _ in range(2))
    write(tmp_path, first)
    options = MetricsServing(secure=True, certificate_folder=tmp_path)
    async with running(config, options) as manager:
        port = manager.metrics_port
        assert port is not None
        assert await handshake(port, bundle) == first.certificate
        write(tmp_path, second)

        async def replaced() -> bool:
            return await handshake(port, bundle) == second.certificate

        await eventually(replaced)
    with pytest.raises(CertificateError):
        async with running(
            config, MetricsServing(secure=True, certificate_folder=tmp_path / "none")
        ):
            pass


@pytest.mark.criterion("WH-11")
def test_tokens_do_not_travel_in_clear(tmp_path: Path) -> None:
    for wrong in ({"authorize": True}, {"certificate_folder": tmp_path}):
        with pytest.raises(ValueError, match="secure"):
            MetricsServing(**wrong)


@pytest.mark.criterion("WH-11")
@pytest.mark.parametrize("backend", ["embedded", "kube-apiserver"])
async def test_who_may_read_the_metrics_is_asked_of_the_server(
    backend: str, request: pytest.FixtureRequest
) -> None:
    tag = secrets.token_hex(4)
    reader, stranger = User(name=f"reader-{tag}"), User(name=f"stranger-{tag}")
    users = ("admin", reader, stranger)
    if backend == "embedded":
        environment = Environment(users=users, authorization="RBAC")
    else:
        environment = request.getfixturevalue("real_server").environment(users=users)
    async with environment:
        client = environment.client()
        for manifest in _reading(f"metrics-{tag}", reader.name):
            await client.create(manifest)
        options = MetricsServing(secure=True, authorize=True)

        def extra(manager: Manager) -> None:
            manager.add_metrics_handler("/extra", _hello)

        async with running(environment.config(), options, extra) as manager:
            url = f"https://127.0.0.1:{manager.metrics_port}"
            assert (await get(f"{url}/metrics", reader.token))[0] == 200
            assert (await get(f"{url}/metrics", stranger.token))[0] == 403
            assert (await get(f"{url}/extra", reader.token))[0] == 403
            assert (await get(f"{url}/metrics", "who-is-this"))[0] == 401
            assert (await get(f"{url}/metrics"))[0] == 401
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            gvk = _gvk(kind)
            await client.delete(gvk, f"metrics-{tag}")


async def _hello(_request: ServerRequest) -> ServerResponse:
    return ServerResponse.text("hello")


def _gvk(kind: str) -> GroupVersionKind:
    return GroupVersionKind("rbac.authorization.k8s.io", "v1", kind)


def _reading(name: str, user: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
            "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": group},
        },
    ]


# -- the caches, on a clock that is set -----------------------------------------------------


class Reviews:
    """An API server that answers reviews as it is told, and counts them."""

    def __init__(self) -> None:
        self.counts = {"tokenreviews": 0, "subjectaccessreviews": 0}
        self.allowed = True
        self.broken = False

    async def answer(self, request: web.Request) -> web.Response:
        resource = request.path.rpartition("/")[2]
        self.counts[resource] += 1
        if self.broken:
            return web.json_response(
                {"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403
            )
        review = await request.json()
        if resource == "tokenreviews":
            known = review["spec"]["token"] == "good"
            user = {"username": "alice", "groups": ["g"], "extra": {"e": ["1"]}}
            review["status"] = {"authenticated": known, **({"user": user} if known else {})}
        else:
            assert review["spec"]["user"] == "alice"
            assert review["spec"]["extra"] == {"e": ["1"]}
            assert review["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
            review["status"] = {"allowed": self.allowed}
        return web.json_response(review, status=201)


@pytest.mark.criterion("WH-11")
async def test_answers_are_remembered_as_long_as_they_may_be() -> None:
    now = [0.0]
    reviews = Reviews()
    api = web.Application()
    api.add_routes([web.post("/{rest:.*}", reviews.answer)])
    async with TestServer(api) as server:
        config = Config(host=str(server.make_url("")).rstrip("/"), auth=StaticAuth(token="t"))
        subject = RequestFilter(
            lambda: Client.connect(config), structlog.get_logger(), lambda: now[0]
        )
        routes = Routes(subject.refusal)
        routes.add("/metrics", _hello)
        async with http_server(routes) as port:
            url = f"http://127.0.0.1:{port}/metrics"

            async def asked(code: int, token: str = "good") -> tuple[int, int]:
                assert (await get(url, token))[0] == code
                return reviews.counts["tokenreviews"], reviews.counts["subjectaccessreviews"]

            assert await asked(200) == (1, 1)
            assert await asked(200) == (1, 1)
            now[0] = 59.0
            assert await asked(200) == (1, 1)
            now[0] = 61.0
            assert await asked(200) == (2, 1)  # the token again, the right not yet
            now[0] = 299.0
            assert await asked(200) == (3, 1)
            reviews.allowed = False
            now[0] = 301.0
            assert await asked(403) == (3, 2)
            now[0] = 330.0
            assert await asked(403) == (3, 2)
            reviews.allowed = True
            now[0] = 332.0
            assert await asked(200) == (3, 3)
            assert await asked(401, "bad") == (4, 3)
            assert await asked(401, "bad") == (4, 3)
            reviews.broken = True
            now[0] = 1000.0
            assert await asked(500) == (5, 3)
            reviews.broken = False
            assert await asked(200) == (6, 4)  # a failure to ask is not remembered
        await subject.close()


# -- health ---------------------------------------------------------------------------------


@pytest.mark.criterion("WH-12")
async def test_checks_verbose_excluded_and_without_reasons(config: Config) -> None:
    def checks(manager: Manager) -> None:
        manager.add_healthz_check("good", lambda: True)
        manager.add_healthz_check("bad", _failing)

    async with running(config, MetricsServing(), checks) as manager:
        url = f"http://127.0.0.1:{manager.health_port}/healthz"
        code, text = await get(url)
        assert code == 500
        assert text == (
            "[-]bad failed: reason withheld\n[+]good ok\n[+]informers ok\nhealthz check failed\n"
        )
        assert "the password" not in text
        assert await get(f"{url}?exclude=bad") == (200, "ok")
        code, text = await get(f"{url}?verbose&exclude=bad&exclude=unknown")
        assert code == 200
        assert text == (
            "[+]bad excluded: ok\n[+]good ok\n[+]informers ok\n"
            "warn: some health checks cannot be excluded: no matches for unknown\n"
            "healthz check passed\n"
        )
        assert (await get(f"{url}/good"))[0] == 200
        assert (await get(f"{url}/good/"))[0] == 200
        assert await get(f"{url}/bad") == (500, "internal server error: reason withheld")
        assert (await get(f"{url}/unknown"))[0] == 404
        ready = await get(f"http://127.0.0.1:{manager.health_port}/readyz?verbose")
        assert ready == (200, "[+]caches ok\nreadyz check passed\n")


@pytest.mark.criterion("WH-12")
async def test_without_further_checks_the_informers_are_checked(config: Config) -> None:
    async with running(config, MetricsServing()) as manager:
        url = f"http://127.0.0.1:{manager.health_port}/healthz"
        assert await get(f"{url}?verbose") == (200, "[+]informers ok\nhealthz check passed\n")


def _failing() -> bool:
    raise RuntimeError("the password is wrong")
