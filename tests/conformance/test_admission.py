"""Admission webhooks, called over TLS."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from ctrlruntime.envtest.server import ServerOptions
from ctrlruntime.envtest.server.certificates import Authority

from .hooks import serve
from .manifests import GROUP as WIDGETS
from .manifests import configmap, deployment, pod, widget
from .servers import TOKENS
from .wire import Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
Respond = Callable[[dict[str, Any]], dict[str, Any]]


ROOT_CA = "kube-root-ca.crt"
"""The ConfigMap that a controller manager puts into every new namespace, some time after it was made."""


class Hook:
    """A webhook of the test's own: it notes what it is asked and answers as told."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.respond: Respond = lambda _: {"allowed": True}
        self.delay = 0.0
        self.probed = False
        self.client: dict[str, str] = {}
        self.url = ""

    async def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        if path == "/probe":
            self.probed = True
            return {"allowed": True}
        if request["name"] == ROOT_CA:
            return {"allowed": True}
        self.asked.append(request)
        await asyncio.sleep(self.delay)
        return self.respond(request)

    def reviews(self) -> list[dict[str, Any]]:
        """One review of each operation and subresource, in order.

        kube-apiserver asks again about a patch or a deletion that began with an old copy of its watch cache.
        """
        last = {(asked["operation"], asked.get("subResource")): asked for asked in self.asked}
        return list(last.values())

    def config(self, api: Api, **more: object) -> dict[str, Any]:
        """Of a webhook for the ConfigMaps of the test's namespace."""
        webhook = {
            "name": "hook.example.com",
            "clientConfig": dict(self.client),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"test": api.namespace}},
            **more,
        }
        return {"metadata": {"name": api.named("hooks")}, "webhooks": [webhook]}

    async def install(self, api: Api, path: str, config: dict[str, Any]) -> None:
        """Create the configuration and wait until the server heeds it.

        A second webhook in it, for Secrets, tells when.
        """
        first = self.config(api)["webhooks"][0]
        probe = {
            **first,
            "name": "probe.example.com",
            "rules": [{**first["rules"][0], "resources": ["secrets"]}],
            "clientConfig": {**self.client, "url": f"{self.url}/probe"},
        }
        await api.create(path, {**config, "webhooks": [*config["webhooks"], probe]})
        self.probed = False
        secrets = f"{api.path('v1', 'secrets')}?dryRun=All"
        async with asyncio.timeout(60):
            while not self.probed:
                await api.create(secrets, {"metadata": {"name": "s"}})
                await asyncio.sleep(0.005)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    async with serve(hook.answer) as hooks:
        hook.url, hook.client = hooks.url, hooks.client_config()
        yield hook


@pytest.fixture
def options(hook: Hook) -> ServerOptions:
    return ServerOptions(service_urls={("n", "s"): hook.url}, tokens=TOKENS, authorization="RBAC")


VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(orjson.dumps(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def test_the_review_shows_what_is_written(api: Api, hook: Hook) -> None:
    await hook.install(api, VALIDATING, hook.config(api))
    await api.create(api.configmaps, configmap("a"))
    await api.merge(f"{api.configmaps}/a?dryRun=All", {"data": {"a": "2"}})
    await api.call("DELETE", f"{api.configmaps}/a")
    create, update, delete = hook.reviews()
    assert [r["operation"] for r in hook.reviews()] == ["CREATE", "UPDATE", "DELETE"]
    assert create["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (create["name"], create["namespace"]) == ("a", api.namespace)
    assert (create["object"]["data"], create["oldObject"]) == ({"a": "1"}, None)
    assert (update["dryRun"], update["oldObject"]["data"]) == (True, {"a": "1"})
    assert (delete["object"], delete["oldObject"]["data"]) == (None, {"a": "1"})


async def test_denials_pass_their_status_through(api: Api, hook: Hook) -> None:
    await hook.install(api, VALIDATING, hook.config(api))
    hook.respond = lambda _: {"allowed": False}
    assert await api.fails("POST", api.configmaps, configmap("a")) == (
        400,
        "",
        'admission webhook "hook.example.com" denied the request without explanation',
    )
    hook.respond = lambda _: {
        "allowed": False,
        "status": {"code": 403, "message": "no", "reason": "Forbidden"},
    }
    assert await api.fails("POST", api.configmaps, configmap("a")) == (
        403,
        "Forbidden",
        'admission webhook "hook.example.com" denied the request: no',
    )


async def test_mutations_and_warnings(api: Api, hook: Hook) -> None:
    await hook.install(api, MUTATING, hook.config(api))
    added = {"op": "add", "path": "/data/b", "value": "2"}
    hook.respond = lambda _: {**patch(added), "warnings": ["beware"]}
    status, made, headers = await api.send("POST", api.configmaps, configmap("a"))
    assert (status, made["data"]) == (201, {"a": "1", "b": "2"})
    assert headers["Warning"] == '299 - "beware"'


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH"])
async def test_the_writer_does_not_own_what_a_webhook_adds(api: Api, hook: Hook, verb: str) -> None:
    before = await api.create(api.configmaps, configmap("a")) if verb != "POST" else configmap("a")
    await hook.install(api, MUTATING, hook.config(api))
    hook.respond = lambda _: patch({"op": "add", "path": "/data/b", "value": "2"})
    match verb:
        case "POST":
            written = await api.create(api.configmaps, before)
        case "PUT":
            changed = {**before, "data": {"a": "3"}}
            written = await api.call("PUT", f"{api.configmaps}/a", changed)
        case _:
            written = await api.merge(f"{api.configmaps}/a", {"data": {"a": "3"}})
    assert written["data"].keys() == {"a", "b"}
    owned = [entry["fieldsV1"]["f:data"] for entry in written["metadata"]["managedFields"]]
    assert owned == [{".": {}, "f:a": {}}]


async def test_mutated_objects_are_validated(api: Api, hook: Hook) -> None:
    await hook.install(api, MUTATING, hook.config(api))
    hook.respond = lambda _: patch({"op": "add", "path": "/metadata/labels", "value": {"a b": ""}})
    assert (await api.fails("POST", api.configmaps, configmap("a")))[:2] == (422, "Invalid")


@pytest.mark.embedded("an option")
async def test_services_are_reached_through_the_override(api: Api, hook: Hook) -> None:
    config = hook.config(api)
    client = config["webhooks"][0]["clientConfig"]
    del client["url"]
    client["service"] = {"name": "s", "namespace": "n", "path": "/x"}
    await hook.install(api, VALIDATING, config)
    await api.create(api.configmaps, configmap("a"))
    assert len(hook.asked) == 1


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_failures_follow_the_policy(api: Api, hook: Hook, policy: str) -> None:
    hook.delay = 1.5
    await hook.install(api, VALIDATING, hook.config(api, failurePolicy=policy, timeoutSeconds=1))
    status, answer, _ = await api.send("POST", api.configmaps, configmap("a"))
    if policy == "Ignore":
        assert status == 201
        return
    assert (status, answer["reason"]) == (500, "InternalError")
    assert answer["message"].startswith(
        'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook'
    )


async def test_an_unknown_authority_is_a_failure(api: Api, hook: Hook) -> None:
    config = hook.config(api)
    other = Authority("other").ca_data
    config["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(other).decode()
    await hook.install(api, VALIDATING, config)
    assert (await api.fails("POST", api.configmaps, configmap("a")))[0] == 500


@pytest.mark.parametrize(
    "selection",
    [
        {"objectSelector": {"matchLabels": {"hook": "yes"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'other'"}]},
            marks=pytest.mark.since("match conditions"),
        ),
    ],
)
async def test_selection(api: Api, hook: Hook, selection: dict[str, Any]) -> None:
    await hook.install(api, VALIDATING, hook.config(api, **selection))
    await api.create(api.configmaps, configmap("a"))
    assert hook.asked == []
    labels = {"hook": "yes"}
    path = api.configmaps
    if "namespaceSelector" in selection:
        path = "/api/v1/namespaces/kube-system/configmaps"
    await api.create(path, configmap("other", labels=labels))
    assert len(hook.asked) == 1


async def test_reinvocation(api: Api, hook: Hook) -> None:
    config = hook.config(api, reinvocationPolicy="IfNeeded")
    second = {**config["webhooks"][0], "name": "second.example.com"}
    second["reinvocationPolicy"] = "Never"
    config["webhooks"].append(second)
    await hook.install(api, MUTATING, config)

    def respond(_: dict[str, Any]) -> dict[str, Any]:
        number = len(hook.asked)
        return patch({"op": "add", "path": f"/data/n{number}", "value": "1"})

    hook.respond = respond
    made = await api.create(api.configmaps, configmap("a"))
    assert sorted(made["data"]) == ["a", "n1", "n2", "n3"]


async def test_webhooks_are_not_asked_about_webhooks(api: Api, hook: Hook) -> None:
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    await hook.install(api, VALIDATING, hook.config(api, rules=rules))
    hook.respond = lambda _: {"allowed": False}
    await api.call("DELETE", f"{VALIDATING}/{api.named('hooks')}")
    await api.until(f"{VALIDATING}/{api.named('hooks')}", lambda found: found is None)


async def test_what_a_review_holds(api: Api, hook: Hook) -> None:
    """User, options, kinds and subresources of a request."""
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["deployments", "deployments/scale", "deployments/status"],
            "scope": "Namespaced",
        }
    ]
    await hook.install(api, VALIDATING, hook.config(api, rules=rules))
    path = api.path("apps/v1", "deployments")
    await api.create(f"{path}?fieldManager=x", deployment("d"))
    await api.merge(f"{path}/d/status", {"status": {"replicas": 1}})
    await api.merge(f"{path}/d/scale", {"spec": {"replicas": 2}})
    create, status, scale = hook.reviews()
    assert create["userInfo"]["username"] == "admin"
    assert "system:masters" in create["userInfo"]["groups"]
    assert create["requestKind"] == create["kind"]
    assert create["options"] == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "x",
        **({"fieldValidation": "Warn"} if "fieldValidation" in create["options"] else {}),
    }
    assert create["object"]["spec"]["replicas"] == 1
    assert create["object"]["metadata"]["uid"]
    assert status["subResource"] == "status"
    assert (status["operation"], status["object"]["kind"]) == ("UPDATE", "Deployment")
    assert (scale["subResource"], scale["object"]["kind"]) == ("scale", "Scale")
    assert scale["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}


async def test_requests_in_another_version_are_converted(api: Api, hook: Hook) -> None:
    """matchPolicy Equivalent: a rule for one version takes requests in another."""
    rules = [
        {
            "apiGroups": ["autoscaling"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["horizontalpodautoscalers"],
        }
    ]
    await hook.install(api, VALIDATING, hook.config(api, rules=rules))
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": ref}}
    await api.create(api.path("autoscaling/v2", "horizontalpodautoscalers"), body)
    (asked,) = hook.asked
    assert asked["kind"]["version"] == "v1"
    assert asked["requestKind"]["version"] == "v2"
    assert asked["object"]["apiVersion"] == "autoscaling/v1"


async def test_side_effects_forbid_dry_runs(api: Api, hook: Hook) -> None:
    await hook.install(api, VALIDATING, hook.config(api, sideEffects="NoneOnDryRun"))
    await api.create(f"{api.configmaps}?dryRun=All", configmap("a"))
    assert [asked["dryRun"] for asked in hook.asked] == [True]
    causes = await api.causes(
        "POST", f"{VALIDATING}?dryRun=All", hook.config(api, sideEffects="Some")
    )
    assert "webhooks[0].sideEffects" in {cause[0] for cause in causes}


async def test_configurations_are_checked(api: Api, hook: Hook) -> None:
    for more, field in (
        ({"name": "short"}, "webhooks[0].name"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy"),
        ({"matchPolicy": "Some"}, "webhooks[0].matchPolicy"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://x"}}, "webhooks[0].clientConfig.url"),
        ({"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}]}, "webhooks[0].rules[0].resources"),
        ({"rules": [{"operations": [], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["a"]}]}, "webhooks[0].rules[0].operations"),
    ):  # fmt: skip
        causes = await api.causes("POST", f"{VALIDATING}?dryRun=All", hook.config(api, **more))
        assert field in {cause[0] for cause in causes}, (field, causes)
    made = await api.create(f"{MUTATING}?dryRun=All", hook.config(api))
    (webhook,) = made["webhooks"]
    assert (webhook["failurePolicy"], webhook["matchPolicy"]) == ("Fail", "Equivalent")
    assert (webhook["timeoutSeconds"], webhook["reinvocationPolicy"]) == (10, "Never")
    assert webhook["rules"][0]["scope"] == "*"


async def test_broken_answers_are_failures(api: Api, hook: Hook) -> None:
    await hook.install(api, MUTATING, hook.config(api))
    for respond in (
        {"allowed": True, "patchType": "JSONPatch", "patch": "e30="},
        {"uid": "other", "allowed": True},
        patch({"op": "test", "path": "/data/a", "value": "x"}),
    ):
        hook.respond = lambda _, respond=respond: respond  # type: ignore[misc]
        code, _, _ = await api.fails("POST", api.configmaps, configmap("a"))
        assert code == 500, respond
    assert (await api.send("GET", f"{api.configmaps}/a"))[0] == 404


@pytest.mark.criterion("U-F2")
@pytest.mark.parametrize("kind", ["Widget", "Pod"])
async def test_what_a_webhook_adds_gets_defaults(
    api: Api, hook: Hook, widgets: str, kind: str
) -> None:
    group, plural = (WIDGETS, "widgets") if kind == "Widget" else ("", "pods")
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"]}
    await hook.install(api, MUTATING, hook.config(api, rules=[{**rule, "resources": [plural]}]))
    container = {
        "op": "add",
        "path": "/spec/containers/-",
        "value": {"name": "added", "image": "x:1"},
    }
    color = {"op": "remove", "path": "/spec/color"}
    hook.respond = lambda _: patch(color if kind == "Widget" else container)
    if kind == "Widget":
        assert (await api.create(widgets, widget("a")))["spec"]["color"] == "red"
    else:
        added = (await api.create(api.path("v1", "pods"), pod("a")))["spec"]["containers"][1]
        assert added["imagePullPolicy"] == "IfNotPresent"
