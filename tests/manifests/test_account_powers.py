"""Each shipped account as the attacker, on the real server: it can what the page says, and no more."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
import yaml

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.auth import StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User
from tests.backends import SharedServer
from tests.docs import reference
from tests.docs.blocks import ROOT, blocks
from tests.manifests.account_powers import (
    INSTALLS,
    POWERS,
    SHOWN,
    Install,
    Power,
    is_cluster_admin,
    powers_of,
    rights_of,
)
from tests.manifests.installation import RBAC, Manifest, add, remove
from tests.manifests.test_kustomize import ADMISSION_POLICIES
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.criterion("S-A1"),
    pytest.mark.xdist_group("manifests"),
]

PAGE = "docs/operations/manager-token.md"
REVIEW = RESTMapping(
    GroupVersionKind("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    "selfsubjectaccessreviews",
    False,
)
ELSEWHERE = "kube-system"
"""Has accounts that are stronger than the manager's."""
STRONG = "strong-addon"
TOKEN_SECRET: Manifest = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": "kubernetes.io/service-account-token",
    "metadata": {
        "name": "stolen",
        "namespace": ELSEWHERE,
        "annotations": {"kubernetes.io/service-account.name": STRONG},
    },
}
POD_SPEC = {
    "serviceAccountName": STRONG,
    "hostPID": True,
    "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
    "containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}],
}
"""Reads the node's disk, with the token of a stronger account."""


def made(api: str, kind: str, **fields: object) -> Manifest:
    metadata = {"name": "attack", "namespace": ELSEWHERE}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


ATTACKS: dict[str, Manifest] = {
    "make Secrets, tokens of any account among them": TOKEN_SECRET,
    "make Pods": made("v1", "Pod", spec=POD_SPEC),
    "make workloads, and by them Pods of any account": made(
        "apps/v1",
        "Deployment",
        spec={
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC},
        },
    ),
    "make service accounts": made("v1", "ServiceAccount"),
    "make Roles, of rights that it has": made(
        f"{RBAC}/v1",
        "Role",
        rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
    ),
    "make Namespaces": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "attack"}},
}
"""What those who can make a kind make of it; an account without Deployments makes Jobs."""
JOB = made("batch/v1", "Job", spec={"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}})
CLUSTER_ADMIN: Manifest = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "attack"},
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "attacker"}],
}


def user_of(install: Install) -> str:
    return f"attacker-{INSTALLS.index(install)}"


def renamed(install: Install) -> Iterator[Manifest]:
    """The roles and bindings of an installation beside those of others, for a user instead of its account."""
    subject = {"kind": "User", "apiGroup": RBAC, "name": user_of(install)}
    for each in install.objects():
        metadata = {**each["metadata"], "name": f"{user_of(install)}-{each['metadata']['name']}"}
        metadata.pop("ownerReferences", None)
        if each["kind"].endswith("Binding"):
            role = {**each["roleRef"], "name": f"{user_of(install)}-{each['roleRef']['name']}"}
            yield {**each, "metadata": metadata, "roleRef": role, "subjects": [subject]}
        else:
            yield {**each, "metadata": metadata}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attacked(
    real_server: SharedServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environment]:
    """The real server with the accounts of all installations, and a stronger account in kube-system."""
    objects = [each for install in INSTALLS for each in renamed(install)]
    places = sorted({each["metadata"].get("namespace", ELSEWHERE) for each in objects})
    account = {"kind": "ServiceAccount", "name": STRONG, "namespace": ELSEWHERE}
    strong: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": STRONG, "namespace": ELSEWHERE},
        },
        {**CLUSTER_ADMIN, "metadata": {"name": STRONG}, "subjects": [account]},
    ]
    users = (*map(user_of, INSTALLS),)
    async with real_server.environment(
        folder=tmp_path_factory.mktemp("attacked"),
        users=("admin", *(User(name=name) for name in users)),
    ) as environment:
        admin = environment.client("admin")
        for name in places:
            with contextlib.suppress(AlreadyExists):
                await admin.create(
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                )
        await add(admin, [*strong, *objects])
        for install in INSTALLS:  # the server learns of roles a moment later
            client = environment.client(user_of(install))
            for right in rights_of(install.objects()).any:
                await eventually(partial(may, client, right.verb, right.resource, right.namespace))
        try:
            yield environment
        finally:
            await remove(admin, [*strong, *objects])


async def may(client: Client, verb: str, resource: str, namespace: str, name: str = "") -> bool:
    plural, _, subresource = resource.partition("/")
    plural, _, group = plural.partition(".")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    spec = {"resourceAttributes": {**attributes, "namespace": namespace, "name": name}}
    review = {"apiVersion": REVIEW.gvk.api_version, "kind": REVIEW.gvk.kind, "spec": spec}
    answer: dict[str, Any] = await client.create(review, kind=REVIEW)
    return bool(answer["status"]["allowed"])


async def any_allowed(client: Client, power: Power, namespace: str) -> bool:
    where = namespace if power.namespaced else ""
    for verb in power.verbs:
        for resource in power.resources:
            if await may(client, verb, resource, where):
                return True
    return False


def names_of(install: Install, power: Power) -> Iterator[tuple[str, str, str, str]]:
    """Verb, resource, namespace and name of the single objects that a power reaches."""
    for each in install.objects():
        for rule in each.get("rules") or ():
            for group in rule.get("apiGroups") or ():
                for plural in rule["resources"]:
                    resource = f"{plural}.{group}" if group else plural
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames") or ():
                            if resource in power.resources and verb in power.verbs:
                                yield verb, resource, each["metadata"].get("namespace", ""), name


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("install", INSTALLS, ids=lambda install: install.name)
async def test_an_account_can_what_the_page_says(attacked: Environment, install: Install) -> None:
    client = attacked.client(user_of(install))
    page = dict(page_of(install))
    found = {}
    for power in POWERS:
        here = [await any_allowed(client, power, each) for each in install.namespaces]
        named = [await may(client, *each) for each in names_of(install, power)]
        if await any_allowed(client, power, ELSEWHERE):
            found[power.title] = "all"
        elif any(here):
            found[power.title] = "named"
        else:
            found[power.title] = "by name" if any(named) else ""
    assert {title: SHOWN[each] for title, each in found.items()} == {
        p.title: page[p.title] for p in POWERS
    }


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("install", INSTALLS, ids=lambda install: install.name)
async def test_what_an_account_makes_elsewhere_is_what_the_page_says(
    attacked: Environment, install: Install
) -> None:
    client, powers = attacked.client(user_of(install)), powers_of(install)
    for title, manifest in ATTACKS.items():
        tried = [manifest, JOB] if "workloads" in title else [manifest]
        taken = [await is_taken(client, each) for each in tried]
        assert any(taken) is (powers[title] == "all"), title
    assert not await is_taken(client, CLUSTER_ADMIN)


async def is_taken(client: Client, manifest: Manifest) -> bool:
    try:
        await client.create(manifest, dry_run=True)
    except Forbidden:
        return False
    return True


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("install", INSTALLS, ids=lambda install: install.name)
async def test_two_steps_lead_to_cluster_admin_where_the_page_says_so(
    attacked: Environment, install: Install
) -> None:
    """A Secret for the stronger account and its token, or a Pod of it."""
    client, powers = attacked.client(user_of(install)), powers_of(install)
    stolen = {**TOKEN_SECRET, "metadata": {**TOKEN_SECRET["metadata"], "name": user_of(install)}}
    by_secret = powers["read Secrets"] == powers[POWERS[3].title] == "all"
    try:
        await client.create(stolen)
    except Forbidden:
        assert not by_secret
        by_pod = [await is_taken(client, ATTACKS["make Pods"]), await is_taken(client, JOB)]
        by_pod.append(await is_taken(client, ATTACKS[POWERS[5].title]))
        assert any(by_pod) is is_cluster_admin(powers)
        return
    try:
        assert is_cluster_admin(powers)
        token = await eventually(lambda: token_in(client, user_of(install)), bool)
        auth = StaticAuth(token=base64.b64decode(token).decode())
        stronger = replace(attacked.config(user_of(install)), auth=auth, extra_headers={})
        async with Client.connect(stronger) as thief:
            assert await may(thief, "*", "*.*", "")
    finally:
        await attacked.client("admin").delete(
            GroupVersionKind("", "v1", "Secret"), user_of(install), namespace=ELSEWHERE
        )


async def token_in(client: Client, name: str) -> str:
    found = await client.list(
        GroupVersionKind("", "v1", "Secret"), ELSEWHERE, fields=f"metadata.name={name}"
    )
    return "".join(each.get("data", {}).get("token", "") for each in found)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_policy_of_the_page_closes_the_way_by_secrets(attacked: Environment) -> None:
    if attacked.backend.version < ADMISSION_POLICIES:
        return
    admin, (install, *_) = attacked.client("admin"), INSTALLS
    (block,) = blocks(PAGE)
    text = block.text.replace("system:serviceaccount:ctrlruntime-system:", user_of(install))
    policies: list[Manifest] = list(yaml.safe_load_all(text))
    client = attacked.client(user_of(install))
    for policy in policies:
        await admin.create(policy)
    try:
        await eventually(partial(is_taken, client, TOKEN_SECRET), lambda taken: not taken)
        plain = {**TOKEN_SECRET, "type": "Opaque", "metadata": ATTACKS["make Pods"]["metadata"]}
        assert await is_taken(client, plain)
        assert await is_taken(admin, TOKEN_SECRET)
    finally:
        await remove(admin, policies)


def page_of(install: Install) -> Iterator[tuple[str, str]]:
    """What the page says of an installation, by the title of each power."""
    text = (ROOT / PAGE).read_text()
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    start = next(i for i, row in enumerate(rows) if row[0] == "the account can")
    column = rows[start].index(install.name)
    for row in rows[start + 2 : start + 3 + len(POWERS)]:
        yield row[0], row[column]


def test_the_page_has_the_table_of_the_roles() -> None:
    page = (ROOT / PAGE).read_text()
    assert reference.filled(page) == page, "run `make generate`"
