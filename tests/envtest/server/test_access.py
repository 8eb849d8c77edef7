"""Who may do what: tokens, RBAC, impersonation, reviews."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from ctrlruntime.envtest.server import ServerOptions, User

from .conftest import USER_TOKEN, Api, configmap, pod

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOKENS = {
    "admin": User("admin", ("system:masters",)),
    "alice": User("alice", ("devs",)),
}


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


@pytest.fixture
async def admin(api: Api) -> Api:
    if api.server is not None:
        api.headers["Authorization"] = "Bearer admin"
    return api


@pytest.fixture
async def alice(api: Api) -> Api:
    found = Api(api.url, api.session, "alice" if api.server is not None else USER_TOKEN)
    found.namespace = api.namespace
    return found


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
    anonymous = Api(api.url, api.session)
    _, _, message = await anonymous.fails("GET", api.configmaps)
    assert 'User "system:anonymous" cannot list' in message


async def test_roles_are_bounded_by_their_namespace(admin: Api, alice: Api) -> None:
    base = f"{RBAC}/namespaces/{admin.namespace}"
    await admin.create(f"{base}/roles", role(("", "configmaps", "get list create")))
    await admin.create(f"{base}/rolebindings", bind("r", USER))
    await allowed(alice, alice.configmaps + "/a")
    await alice.create(alice.configmaps, configmap("a"))
    assert (await alice.get(f"{alice.configmaps}/a"))["data"] == {"a": "1"}
    assert (await alice.fails("DELETE", f"{alice.configmaps}/a"))[0] == 403
    elsewhere = "/api/v1/namespaces/kube-system/configmaps"
    assert (await alice.fails("GET", elsewhere))[0] == 403
    await admin.call("DELETE", f"{base}/rolebindings/b-r")
    await alice.until(f"{alice.configmaps}/a", lambda found: found.get("code") == 403)


async def test_groups_resource_names_and_subresources(admin: Api, alice: Api) -> None:
    rules = role(("", "pods/status", "patch"))
    rules["rules"].append(
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]}
    )
    await admin.create(f"{RBAC}/clusterroles", {**rules, "kind": "ClusterRole"})
    subject = {"kind": "Group", "name": "devs" if admin.server else "system:authenticated"}
    await admin.create(f"{RBAC}/clusterrolebindings", bind("r", subject, "ClusterRole"))
    await admin.create(admin.configmaps, configmap("a"))
    await admin.create(admin.configmaps, configmap("b"))
    await allowed(alice, f"{alice.configmaps}/a")
    assert (await alice.fails("GET", f"{alice.configmaps}/b"))[0] == 403
    await admin.create(admin.path("v1", "pods"), pod("p"))
    await alice.merge(f"{alice.path('v1', 'pods')}/p/status", {"status": {"phase": "Running"}})
    assert (await alice.fails("PATCH", f"{alice.path('v1', 'pods')}/p", {}))[0] == 403


@pytest.mark.embedded("the controller that aggregates may not run beside another")
async def test_aggregated_cluster_roles(admin: Api, alice: Api) -> None:
    label = {"example.com/part": "true"}
    part = role(("", "configmaps", "list"), kind="ClusterRole")
    part["metadata"] = {"name": "part", "labels": label}
    whole = {
        "metadata": {"name": "r"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
    }
    await admin.create(f"{RBAC}/clusterroles", whole)
    await admin.create(f"{RBAC}/clusterrolebindings", bind("r", USER, "ClusterRole"))
    assert (await alice.fails("GET", "/api/v1/configmaps"))[0] == 403
    await admin.create(f"{RBAC}/clusterroles", part)
    await allowed(alice, "/api/v1/configmaps")


@pytest.mark.since("self subject review")
async def test_tokens_of_service_accounts(admin: Api) -> None:
    accounts = admin.path("v1", "serviceaccounts")
    await admin.create(accounts, {"metadata": {"name": "robot"}})
    asked = await admin.create(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    robot = Api(admin.url, admin.session, asked["status"]["token"])
    robot.namespace = admin.namespace
    review = await robot.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert (
        review["status"]["userInfo"]["username"] == f"system:serviceaccount:{admin.namespace}:robot"
    )
    assert f"system:serviceaccounts:{admin.namespace}" in review["status"]["userInfo"]["groups"]
    base = f"{RBAC}/namespaces/{admin.namespace}"
    await admin.create(f"{base}/roles", role(("", "configmaps", "list")))
    await admin.create(
        f"{base}/rolebindings",
        bind("r", {"kind": "ServiceAccount", "name": "robot", "namespace": admin.namespace}),
    )
    await allowed(robot, robot.configmaps)
    await admin.call("DELETE", f"{accounts}/robot")
    assert (await robot.fails("GET", robot.configmaps))[0] == 401


@pytest.mark.embedded("moves its clock")
async def test_tokens_of_service_accounts_expire(admin: Api, clock: Clock) -> None:
    accounts = admin.path("v1", "serviceaccounts")
    await admin.create(accounts, {"metadata": {"name": "robot"}})
    asked = await admin.create(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert asked["status"]["expirationTimestamp"] == "2026-01-01T00:10:00Z"
    robot = Api(admin.url, admin.session, asked["status"]["token"])
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    await robot.create(review, {})
    clock.now += timedelta(minutes=10)
    assert (await robot.fails("POST", review, {}))[0] == 401


async def test_impersonation_needs_the_right(admin: Api, alice: Api) -> None:
    status, answer, _ = await admin.send("GET", "/api/v1/configmaps", Impersonate_User="bob")
    assert (status, 'User "bob" cannot list' in answer["message"]) == (403, True)
    status, _, _ = await admin.send(
        "GET", "/api/v1/configmaps", Impersonate_User="bob", Impersonate_Group="system:masters"
    )
    assert status == 200
    status, answer, _ = await alice.send("GET", "/api/v1/configmaps", Impersonate_User="admin")
    assert status == 403
    assert 'cannot impersonate resource "users"' in answer["message"]


async def test_reviews(admin: Api, alice: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    assert (await alice.create(path, asked))["status"] == {"allowed": False}
    assert (await admin.create(path, asked))["status"] == {"allowed": True}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked["spec"]["user"] = "alice"  # type: ignore[assignment]
    assert (await admin.create(path, asked))["status"] == {"allowed": False}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    token = alice.headers["Authorization"].removeprefix("Bearer ")
    review = (await admin.create(path, {"spec": {"token": token}}))["status"]
    assert (review["authenticated"], review["user"]["username"]) == (True, "alice")
    review = (await admin.create(path, {"spec": {"token": "nobody"}}))["status"]
    assert review == {"user": {}, "error": "invalid bearer token"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = (await alice.create(path, {"spec": {"namespace": "default"}}))["status"]
    assert "selfsubjectaccessreviews" in rules["resourceRules"][0]["resources"]


@pytest.mark.embedded("asks for its authority")
@pytest.mark.parametrize("options", [ServerOptions(tls=True, tokens=TOKENS)])
async def test_https_with_an_authority_of_its_own(api: Api) -> None:
    assert api.server is not None
    assert api.server.ca_data is not None
    assert api.url.startswith("https://127.0.0.1:")
    context = ssl.create_default_context(cadata=api.server.ca_data.decode())
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.url}/healthz", ssl=context) as answer,
    ):
        assert answer.status == 200


async def test_an_apply_that_creates_needs_the_right_to_create(admin: Api, alice: Api) -> None:
    base = f"{RBAC}/namespaces/{admin.namespace}"
    await admin.create(f"{base}/roles", role(("", "configmaps", "get patch")))
    await admin.create(f"{base}/rolebindings", bind("r", USER))
    await allowed(alice, f"{alice.configmaps}/b")
    code, _, message = await alice.fails(
        "PATCH",
        f"{alice.configmaps}/a?fieldManager=m",
        configmap("a"),
        content_type="application/apply-patch+yaml",
    )
    assert code == 403
    assert 'User "alice" cannot create resource "configmaps"' in message
