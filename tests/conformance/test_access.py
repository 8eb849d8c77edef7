"""Who may do what: tokens, RBAC, impersonation, reviews."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.json import Json

from .manifests import configmap, pod
from .servers import TOKENS
from .wire import MERGE, Api

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


def role(*rules: tuple[str, str, str], kind: str = "Role", **more: object) -> dict[str, Any]:
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
    async with asyncio.timeout(60):  # a real server remembers a good token for ten seconds
        while (await robot.send("GET", robot.configmaps))[0] != 401:
            pass


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


async def account(api: Api, name: str = "deputy") -> tuple[Api, str, dict[str, str]]:
    """Access of a new service account, its user name and what a binding names it by.

    The server remembers by user how an impersonation succeeded last; this one is new to it.
    """
    accounts = api.path("v1", "serviceaccounts")
    await api.create(accounts, {"metadata": {"name": name}})
    asked = await api.create(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 600}})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": api.namespace}
    user = f"system:serviceaccount:{api.namespace}:{name}"
    return api.as_user(asked["status"]["token"]), user, subject


async def test_impersonation_needs_the_right(api: Api) -> None:
    status, answer, _ = await api.send("GET", "/api/v1/configmaps", Impersonate_User="bob")
    assert (status, 'User "bob" cannot list' in answer["message"]) == (403, True)
    status, _, _ = await api.send(
        "GET", "/api/v1/configmaps", Impersonate_User="bob", Impersonate_Group="system:masters"
    )
    assert status == 200
    deputy, user, _ = await account(api)
    robot = f"system:serviceaccount:{api.namespace}:robot"
    for headers, older, mode in (
        ({"User": "carol"}, 'users "carol"', "user-info"),
        ({"User": "carol", "Group": "admins"}, 'users "carol"', "user-info"),
        ({"User": robot}, 'serviceaccounts "robot"', "serviceaccount"),
        ({"User": "system:node:n"}, 'users "system:node:n"', "arbitrary-node"),
        ({"User": robot, "Group": "admins"}, 'serviceaccounts "robot"', ""),
    ):
        sent = {f"Impersonate_{key}": text for key, text in headers.items()}
        status, answer, _ = await deputy.send("GET", api.configmaps, **sent)
        assert status == 403
        if mode and api.has("constrained impersonation"):
            assert answer["message"] == (
                f'configmaps is forbidden: User "{user}" cannot impersonate-on:{mode}:list resource '
                f'"configmaps" in API group "" in the namespace "{api.namespace}"'
            )
        else:
            resource = older.partition(" ")[0]
            words = f'{older} is forbidden: User "{user}" cannot impersonate resource "{resource}"'
            assert answer["message"].startswith(words)


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


async def granted(api: Api, *rules: tuple[str, str, str], to: Json = USER) -> None:
    """A role in the namespace, bound; back when the server heeds it."""
    base = f"{RBAC}/namespaces/{api.namespace}"
    await api.create(f"{base}/roles", role(*rules))
    await api.create(f"{base}/rolebindings", bind("r", to))


async def may(api: Api, user: str, verb: str, resource: str, group: str = "", **more: str) -> bool:
    """What a SubjectAccessReview says."""
    asked = {"namespace": api.namespace, "verb": verb, "resource": resource, "group": group, **more}
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool((await api.create(path, review))["status"]["allowed"])


async def heeded(api: Api, verb: str, resource: str, group: str = "") -> None:
    async with asyncio.timeout(60):
        while not await may(api, "alice", verb, resource, group):
            pass


async def test_no_grant_exceeds_the_rights_of_its_author(api: Api, alice: Api) -> None:
    """The escalation check, for roles and for bindings."""
    base = f"{RBAC}/namespaces/{api.namespace}"
    own = ("rbac.authorization.k8s.io", "roles rolebindings", "create update patch get")
    await granted(api, own, ("", "configmaps", "get list"))
    await heeded(api, "create", "roles", "rbac.authorization.k8s.io")
    held = role(("", "configmaps", "get"))
    held["metadata"]["name"] = "held"
    await alice.create(f"{base}/roles", held)
    more = role(("", "configmaps", "get delete"), ("", "secrets", "get"))
    more["metadata"]["name"] = "more"
    answer = await alice.refusal("POST", f"{base}/roles", more)
    assert (answer["code"], answer["reason"]) == (403, "Forbidden")
    text = (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
    )
    assert answer["message"].startswith(text), answer["message"]
    lines = answer["message"].splitlines()[1:]
    assert '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}' in lines
    assert '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}' in lines
    changed = {"rules": more["rules"]}
    code, _, _ = await alice.fails("PATCH", f"{base}/roles/held", changed, MERGE)
    assert code == 403
    await api.create(f"{base}/roles", more)
    binding = bind("more", USER)
    answer = await alice.refusal("POST", f"{base}/rolebindings", binding)
    assert (answer["code"], answer["details"]["kind"]) == (403, "rolebindings")
    await alice.create(f"{base}/rolebindings", bind("held", USER))
    code, _, message = await alice.fails("POST", f"{base}/rolebindings", bind("nothing", USER))
    named = {"rolebindings"} if api.has("missing roles") else {"roles", "rolebindings"}
    assert code == 404
    assert message in {f'{each}.rbac.authorization.k8s.io "nothing" not found' for each in named}


async def test_escalate_and_bind_are_rights(api: Api, alice: Api) -> None:
    base = f"{RBAC}/namespaces/{api.namespace}"
    verbs = "create update patch get escalate bind"
    await granted(api, ("rbac.authorization.k8s.io", "roles rolebindings", verbs))
    await heeded(api, "escalate", "roles", "rbac.authorization.k8s.io")
    more = role(("", "secrets", "get"))
    more["metadata"]["name"] = "more"
    await alice.create(f"{base}/roles", more)
    await alice.create(f"{base}/rolebindings", bind("more", USER))


async def test_the_reference_of_a_binding_is_fixed(api: Api) -> None:
    base = f"{RBAC}/namespaces/{api.namespace}"
    await granted(api, ("", "configmaps", "get"))
    other = bind("other", USER)["roleRef"]
    causes = await api.causes("PATCH", f"{base}/rolebindings/b-r", {"roleRef": other}, MERGE)
    assert [(field, "cannot change roleRef" in text) for field, _, text in causes] == [
        ("roleRef", True)
    ]
    for change, field in (
        ({"roleRef": {**other, "kind": "Thing"}}, "roleRef.kind"),
        ({"roleRef": {**other, "name": ""}}, "roleRef.name"),
        ({"roleRef": {**other, "apiGroup": "x"}}, "roleRef.apiGroup"),
        ({"subjects": [{"kind": "Thing", "name": "a"}]}, "subjects[0].kind"),
        ({"subjects": [{"kind": "User"}]}, "subjects[0].name"),
    ):
        body = {**bind("r", USER), "metadata": {"name": "wrong"}, **change}
        causes = await api.causes("POST", f"{base}/rolebindings", body)
        assert field in {cause[0] for cause in causes}, (field, causes)
    wrong = {**bind("r", {"kind": "ServiceAccount", "name": "a"}, "ClusterRole")}
    causes = await api.causes("POST", f"{RBAC}/clusterrolebindings", wrong)
    assert {cause[0] for cause in causes} == {"subjects[0].namespace"}
    for rule, field in (
        ({"apiGroups": [""], "resources": ["pods"]}, "rules[0].verbs"),
        ({"verbs": ["get"], "resources": ["pods"]}, "rules[0].apiGroups"),
        ({"verbs": ["get"], "apiGroups": [""]}, "rules[0].resources"),
        ({"verbs": ["get"], "nonResourceURLs": ["/x"]}, "rules[0].nonResourceURLs"),
    ):
        body = {"metadata": {"name": "wrong"}, "rules": [rule]}
        causes = await api.causes("POST", f"{base}/roles", body)
        assert field in {cause[0] for cause in causes}, (field, causes)


async def test_defaults_of_bindings(api: Api) -> None:
    base = f"{RBAC}/namespaces/{api.namespace}"
    body = bind("r", USER)
    del body["roleRef"]["apiGroup"]
    body["subjects"].append({"kind": "ServiceAccount", "name": "a", "namespace": "b"})
    made = await api.create(f"{base}/rolebindings", body)
    assert made["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert made["subjects"] == [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"},
        {"kind": "ServiceAccount", "name": "a", "namespace": "b"},
    ]


async def test_verbs_are_distinguished(api: Api, alice: Api) -> None:
    """watch, deletecollection and subresources are rights of their own."""
    await granted(api, ("", "configmaps", "list create delete"), ("", "secrets", "*"))
    await heeded(api, "watch", "secrets")
    for verb, path in (
        ("watch", f"{alice.configmaps}?watch=1&timeoutSeconds=1"),
        ("deletecollection", alice.configmaps),
        ("update", f"{alice.configmaps}/a"),
    ):
        method = {"watch": "GET", "deletecollection": "DELETE", "update": "PUT"}[verb]
        body = configmap("a") if verb == "update" else None
        code, _, message = await alice.fails(method, path, body)
        assert (code, f'User "alice" cannot {verb} resource "configmaps"' in message) == (403, True)
    assert (await alice.send("DELETE", alice.secrets))[0] == 200
    assert (await alice.send("GET", f"{alice.secrets}?limit=1"))[0] == 200


async def test_what_reviews_answer(api: Api, alice: Api) -> None:
    await granted(api, ("", "configmaps", "get"), ("apps", "deployments/scale", "patch"))
    await heeded(api, "get", "configmaps")
    assert await may(api, "alice", "patch", "deployments", "apps", subresource="scale")
    assert not await may(api, "alice", "patch", "deployments", "apps")
    assert not await may(api, "alice", "get", "configmaps", namespace="default")
    assert not await may(api, "bob", "get", "configmaps")
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    groups = {"user": "bob", "groups": ["system:masters"]}
    everything = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    review = await api.create(path, {"spec": {**groups, **everything}})
    assert review["status"] == {"allowed": True}
    local = f"/apis/authorization.k8s.io/v1/namespaces/{api.namespace}/localsubjectaccessreviews"
    asked = {"verb": "get", "resource": "configmaps", "namespace": api.namespace}
    body = {
        "metadata": {"namespace": api.namespace},
        "spec": {"user": "alice", "resourceAttributes": asked},
    }
    status = (await api.create(local, body))["status"]
    assert status["allowed"] is True
    assert status["reason"] == (
        f'RBAC: allowed by RoleBinding "b-r/{api.namespace}" of Role "r" to User "alice"'
    )
    both = {
        "spec": {"user": "a", "resourceAttributes": asked, "nonResourceAttributes": {"path": "/"}}
    }
    questions: list[Any] = [{"resourceAttributes": asked}, {"user": "a"}, both["spec"]]
    for question in questions:
        assert (await api.fails("POST", path, {"spec": question}))[:2] == (422, "Invalid")
    rules = await alice.create(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {"spec": {"namespace": api.namespace}},
    )
    assert rules["status"]["incomplete"] is False
    wanted = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
    assert wanted in rules["status"]["resourceRules"]
    assert (await api.fails("GET", path))[0] == 405


async def test_impersonation(api: Api) -> None:
    """Users, groups, service accounts and extras, each with a right of its own."""
    deputy, user, subject = await account(api)
    name = api.named("as")
    rules = [
        {
            "apiGroups": [""],
            "resources": ["users"],
            "verbs": ["impersonate"],
            "resourceNames": ["bob"],
        },
        {
            "apiGroups": [""],
            "resources": ["groups"],
            "verbs": ["impersonate"],
            "resourceNames": ["devs"],
        },
    ]
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    await api.create(f"{RBAC}/clusterrolebindings", bind(name, subject, "ClusterRole"))
    base = f"{RBAC}/namespaces/{api.namespace}"
    await api.create(f"{base}/roles", role(("", "configmaps", "list")))
    await api.create(f"{base}/rolebindings", bind("r", {"kind": "Group", "name": "devs"}))

    async def as_(**headers: str) -> tuple[int, str]:
        status, answer, _ = await deputy.send("GET", api.configmaps, **headers)
        return status, answer.get("message", "")

    async with asyncio.timeout(60):
        while (await as_(Impersonate_User="bob", Impersonate_Group="devs"))[0] != 200:
            pass
    status, message = await as_(Impersonate_User="bob")
    assert (status, 'User "bob" cannot list resource "configmaps"' in message) == (403, True)
    # What succeeded last is tried first, and names the right that is missing.
    status, message = await as_(Impersonate_User="carol")
    assert message == (
        f'users "carol" is forbidden: User "{user}" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    status, message = await as_(Impersonate_User="bob", Impersonate_Group="admins")
    assert (status, 'groups "admins" is forbidden' in message) == (403, True)
    robot = f"system:serviceaccount:{api.namespace}:robot"
    status, message = await as_(Impersonate_User=robot)
    assert (status, 'serviceaccounts "robot" is forbidden' in message) == (403, True)
    status, message = await as_(Impersonate_User="bob", Impersonate_Extra_Scope="x")
    assert (status, "userextras" in message) == (403, True)
    status, answer, _ = await deputy.send("GET", api.configmaps, Impersonate_Group="devs")
    if api.has("impersonation of nobody"):
        assert (status, answer["reason"]) == (400, "BadRequest")
        assert answer["message"] == (
            'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, '
            "Extra:map[string][]string(nil)} without impersonating a user name"
        )
    else:
        assert status == 500
    status, found, _ = await api.send("GET", f"{api.configmaps}", Impersonate_User=robot)
    assert status == 403
    assert f'User "{robot}"' in found["message"]


@pytest.mark.since("constrained impersonation")
async def test_constrained_impersonation(api: Api) -> None:
    """A right to act as one kind of identity, and a right for the request, instead of `impersonate`."""
    deputy, user, subject = await account(api)
    base = f"{RBAC}/namespaces/{api.namespace}"
    await api.create(f"{base}/roles", role(("", "configmaps", "list")))
    await api.create(f"{base}/rolebindings", bind("r", {"kind": "Group", "name": "devs"}))

    async def as_bob(**headers: str) -> tuple[int, str]:
        headers = {"Impersonate_User": "bob", **headers}
        status, answer, _ = await deputy.send("GET", api.configmaps, **headers)
        return status, answer.get("message", "")

    async def grant(part: str, *rule: str) -> None:
        name = api.named(part)
        rules = role((*rule,), kind="ClusterRole")["rules"]  # type: ignore[arg-type]
        await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        await api.create(f"{RBAC}/clusterrolebindings", bind(name, subject, "ClusterRole"))

    async def until(words: str, **headers: str) -> None:
        async with asyncio.timeout(60):
            while words not in (await as_bob(**headers))[1]:
                pass

    authentication = "authentication.k8s.io"
    await grant("on", "", "configmaps", "impersonate-on:user-info:list")
    await until(
        f'users.authentication.k8s.io "bob" is forbidden: User "{user}" cannot impersonate:user-info '
        'resource "users" in API group "authentication.k8s.io" at the cluster scope'
    )
    await grant("bob", authentication, "users", "impersonate:user-info")
    await until('User "bob" cannot list resource "configmaps"')
    await until('groups.authentication.k8s.io "devs" is forbidden', Impersonate_Group="devs")
    await grant("devs", authentication, "groups", "impersonate:user-info")
    async with asyncio.timeout(60):
        while (await as_bob(Impersonate_Group="devs"))[0] != 200:
            pass
    status, answer, _ = await deputy.send(
        "GET", api.path("v1", "secrets"), Impersonate_User="bob", Impersonate_Group="devs"
    )
    assert (status, "cannot impersonate-on:user-info:list" in answer["message"]) == (403, True)


async def test_tokens_of_requests(api: Api) -> None:
    accounts = api.path("v1", "serviceaccounts")
    made = await api.create(accounts, {"metadata": {"name": "robot"}})
    body = {"spec": {"audiences": ["me"], "expirationSeconds": 700}}
    asked = await api.create(f"{accounts}/robot/token", body)
    assert (asked["kind"], asked["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert asked["spec"]["audiences"] == ["me"]
    claims = json.loads(base64.urlsafe_b64decode(asked["status"]["token"].split(".")[1] + "=="))
    assert claims["aud"] == ["me"]
    assert claims["sub"] == f"system:serviceaccount:{api.namespace}:robot"
    assert claims["kubernetes.io"]["serviceaccount"] == {
        "name": "robot",
        "uid": made["metadata"]["uid"],
    }
    assert claims["exp"] - claims["iat"] == 700
    review = {"spec": {"token": asked["status"]["token"]}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert "authenticated" not in (await api.create(path, review))["status"]
    review["spec"]["audiences"] = ["me"]
    status = (await api.create(path, review))["status"]
    assert (status["authenticated"], status["audiences"]) == (True, ["me"])
    assert status["user"]["username"] == f"system:serviceaccount:{api.namespace}:robot"
    assert status["user"]["uid"] == made["metadata"]["uid"]
    causes = await api.causes("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 5}})
    assert [(field, text) for field, _, text in causes] == [
        (
            "spec.expirationSeconds",
            "Invalid value: 5: may not specify a duration less than 10 minutes",
        )
    ]
    code, reason, _ = await api.fails("POST", f"{accounts}/none/token", body)
    assert (code, reason) == (404, "NotFound")


async def test_discovery_is_for_everybody_who_is_known(api: Api, alice: Api) -> None:
    for path in ("/api", "/apis", "/apis/apps/v1", "/version", "/healthz", "/openapi/v2"):
        assert (await alice.send("GET", path))[0] == 200, path
    nobody = api.as_user("")
    for path, code in {"/version": 200, "/healthz": 200, "/api": 403, "/apis": 403}.items():
        assert (await nobody.send("GET", path))[0] == code, path


def test_certificates_pass_strict_verification() -> None:
    """Of the embedded server: key usage and key identifiers, as X509_V_FLAG_X509_STRICT wants."""
    authority = Authority("strict")
    served, client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=authority.ca_data.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    ours = authority.server_context(["127.0.0.1"]).wrap_bio(client, served, server_side=True)
    theirs = context.wrap_bio(served, client, server_hostname="127.0.0.1")
    for _ in range(4):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert theirs.version() is not None
    assert theirs.getpeercert()
