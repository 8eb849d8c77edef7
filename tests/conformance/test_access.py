"""Who may do what: tokens, RBAC, impersonation, reviews."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from ctrlruntime.envtest.server import APIServer, ServerOptions

from .servers import TOKENS
from .subjects import configmap, pod
from .wire import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def options(clock: Clock) -> ServerOptions:
    return ServerOptions(tokens=TOKENS, authorization="RBAC", clock=clock)


def role(*rules: tuple[str, str, str], kind: str = "Role", **more: Any) -> dict[str, Any]:
    listed = [
        {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
        for group, resources, verbs in rules
    ]
    return {"kind": kind, "metadata": {"name": "r"}, "rules": listed, **more}


def bind(name: str, subject: dict[str, str], kind: str = "Role") -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    return {"metadata": {"name": f"b-{name}"}, "roleRef": ref, "subjects": [subject]}


USER = {"kind": "User", "name": "alice"}


async def allowed(api: Api, path: str) -> None:
    """Wait until a read is allowed: a real server learns of new roles with a delay."""
    await api.until(path, lambda found: found is None or found["kind"] != "Status")


async def test_tokens_that_are_unknown_are_401(api: Api) -> None:
    api.headers["Authorization"] = "Bearer wrong"
    assert await api.fails("GET", api.configmaps) == (401, "Unauthorized", "Unauthorized")


async def test_refusals_in_the_servers_words(api: Api, alice: Api) -> None:
    code, reason, message = await alice.fails("GET", f"{api.configmaps}/x")
    assert (code, reason) == (403, "Forbidden")
    assert message == (
        'configmaps "x" is forbidden: User "alice" cannot get resource "configmaps" '
        f'in API group "" in the namespace "{api.namespace}"'
    )
    _, _, message = await alice.fails("GET", "/apis/apps/v1/deployments")
    assert message == (
        'deployments.apps is forbidden: User "alice" cannot list resource "deployments" '
        'in API group "apps" at the cluster scope'
    )
    _, _, message = await alice.fails("PATCH", f"{api.path('v1', 'pods')}/x/status", {})
    assert 'cannot patch resource "pods/status"' in message
    _, _, message = await alice.fails("GET", "/metrics")
    assert message == 'forbidden: User "alice" cannot get path "/metrics"'
    anonymous = api.as_user("")
    _, _, message = await anonymous.fails("GET", api.configmaps)
    assert 'User "system:anonymous" cannot list' in message


async def test_roles_are_bounded_by_their_namespace(api: Api, alice: Api) -> None:
    base = f"{RBAC}/namespaces/{api.namespace}"
    await api.create(f"{base}/roles", role(("", "configmaps", "get list create")))
    await api.create(f"{base}/rolebindings", bind("r", USER))
    await allowed(alice, alice.configmaps + "/a")
    await alice.create(alice.configmaps, configmap("a"))
    assert (await alice.get(f"{alice.configmaps}/a"))["data"] == {"a": "1"}
    assert (await alice.fails("DELETE", f"{alice.configmaps}/a"))[0] == 403
    elsewhere = "/api/v1/namespaces/kube-system/configmaps"
    assert (await alice.fails("GET", elsewhere))[0] == 403
    await api.call("DELETE", f"{base}/rolebindings/b-r")
    await alice.until(f"{alice.configmaps}/a", lambda found: found.get("code") == 403)


async def test_groups_resource_names_and_subresources(api: Api, alice: Api) -> None:
    rules = role(("", "pods/status", "patch"))
    rules["metadata"]["name"] = name = api.named("r")
    rules["rules"].append(
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]}
    )
    await api.create(f"{RBAC}/clusterroles", {**rules, "kind": "ClusterRole"})
    subject = {"kind": "Group", "name": "system:authenticated"}
    await api.create(f"{RBAC}/clusterrolebindings", bind(name, subject, "ClusterRole"))
    await api.create(api.configmaps, configmap("a"))
    await api.create(api.configmaps, configmap("b"))
    await allowed(alice, f"{alice.configmaps}/a")
    assert (await alice.fails("GET", f"{alice.configmaps}/b"))[0] == 403
    await api.create(api.path("v1", "pods"), pod("p"))
    await alice.merge(f"{alice.path('v1', 'pods')}/p/status", {"status": {"phase": "Running"}})
    assert (await alice.fails("PATCH", f"{alice.path('v1', 'pods')}/p", {}))[0] == 403


@pytest.mark.embedded("the controller that aggregates may not run beside another")
async def test_aggregated_cluster_roles(api: Api, alice: Api) -> None:
    label = {"example.com/part": api.namespace}
    part = role(("", "configmaps", "list"), kind="ClusterRole")
    part["metadata"] = {"name": api.named("part"), "labels": label}
    whole = {
        "metadata": {"name": api.named("r")},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
    }
    await api.create(f"{RBAC}/clusterroles", whole)
    await api.create(f"{RBAC}/clusterrolebindings", bind(api.named("r"), USER, "ClusterRole"))
    assert (await alice.fails("GET", "/api/v1/configmaps"))[0] == 403
    await api.create(f"{RBAC}/clusterroles", part)
    await allowed(alice, "/api/v1/configmaps")


@pytest.mark.since("self subject review")
async def test_tokens_of_service_accounts(api: Api) -> None:
    accounts = api.path("v1", "serviceaccounts")
    await api.create(accounts, {"metadata": {"name": "robot"}})
    asked = await api.create(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    robot = api.as_user(asked["status"]["token"])
    review = await robot.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert (
        review["status"]["userInfo"]["username"] == f"system:serviceaccount:{api.namespace}:robot"
    )
    assert f"system:serviceaccounts:{api.namespace}" in review["status"]["userInfo"]["groups"]
    base = f"{RBAC}/namespaces/{api.namespace}"
    await api.create(f"{base}/roles", role(("", "configmaps", "list")))
    await api.create(
        f"{base}/rolebindings",
        bind("r", {"kind": "ServiceAccount", "name": "robot", "namespace": api.namespace}),
    )
    await allowed(robot, robot.configmaps)
    await api.call("DELETE", f"{accounts}/robot")
    assert (await robot.fails("GET", robot.configmaps))[0] == 401


@pytest.mark.embedded("moves its clock")
async def test_tokens_of_service_accounts_expire(api: Api, clock: Clock) -> None:
    accounts = api.path("v1", "serviceaccounts")
    await api.create(accounts, {"metadata": {"name": "robot"}})
    asked = await api.create(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert asked["status"]["expirationTimestamp"] == "2026-01-01T00:10:00Z"
    robot = api.as_user(asked["status"]["token"])
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    await robot.create(review, {})
    clock.now += timedelta(minutes=10)
    assert (await robot.fails("POST", review, {}))[0] == 401


async def test_impersonation_needs_the_right(api: Api, alice: Api) -> None:
    status, answer, _ = await api.send("GET", "/api/v1/configmaps", Impersonate_User="bob")
    assert (status, 'User "bob" cannot list' in answer["message"]) == (403, True)
    status, _, _ = await api.send(
        "GET", "/api/v1/configmaps", Impersonate_User="bob", Impersonate_Group="system:masters"
    )
    assert status == 200
    status, answer, _ = await alice.send("GET", "/api/v1/configmaps", Impersonate_User="admin")
    assert status == 403
    assert 'cannot impersonate resource "users"' in answer["message"]


async def test_reviews(api: Api, alice: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    assert (await alice.create(path, asked))["status"] == {"allowed": False}
    assert (await api.create(path, asked))["status"] == {"allowed": True}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked["spec"]["user"] = "alice"  # type: ignore[assignment]
    assert (await api.create(path, asked))["status"] == {"allowed": False}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    token = alice.headers["Authorization"].removeprefix("Bearer ")
    review = (await api.create(path, {"spec": {"token": token}}))["status"]
    assert (review["authenticated"], review["user"]["username"]) == (True, "alice")
    review = (await api.create(path, {"spec": {"token": "nobody"}}))["status"]
    assert review == {"user": {}, "error": "invalid bearer token"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = (await alice.create(path, {"spec": {"namespace": "default"}}))["status"]
    assert "selfsubjectaccessreviews" in rules["resourceRules"][0]["resources"]


async def test_https_with_an_authority_of_its_own() -> None:
    async with APIServer(ServerOptions(tls=True)) as server:
        assert server.ca_data is not None
        assert server.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cadata=server.ca_data.decode())
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{server.url}/healthz", ssl=context) as answer,
        ):
            assert answer.status == 200


async def test_an_apply_that_creates_needs_the_right_to_create(api: Api, alice: Api) -> None:
    base = f"{RBAC}/namespaces/{api.namespace}"
    await api.create(f"{base}/roles", role(("", "configmaps", "get patch")))
    await api.create(f"{base}/rolebindings", bind("r", USER))
    await allowed(alice, f"{alice.configmaps}/b")
    code, _, message = await alice.fails(
        "PATCH",
        f"{alice.configmaps}/a?fieldManager=m",
        configmap("a"),
        content_type="application/apply-patch+yaml",
    )
    assert (code, message.startswith('configmaps "a" is forbidden: ')) == (403, True)
    if api.has("refused creation in words"):
        assert 'User "alice" cannot create resource "configmaps" in API group ""' in message
