"""The shipped account of a stack as the attacker: what it reads on the hub with the bindings that the operator makes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator
from internal.fleet.labels import ACCOUNT
from internal.fleet.stack_bindings import STACK_ROLES, build_bindings
from tests.docs.blocks import ROOT

from .harness import NAMESPACE, SECRET

pytestmark = [pytest.mark.criterion("S-F6"), pytest.mark.xdist_group("real-server")]

CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
TARGET, PARALLEL, OTHER = "account-east", "account-acme", "account-west"
PLACES = (TARGET, PARALLEL, OTHER)
NAME = "data-plane-kubeconfig"
ATTEMPTS: dict[str, Callable[[Client, str], Awaitable[object]]] = {
    "list everywhere": lambda client, _place: client.list(SECRET),
    "list by name": lambda client, _place: client.list(SECRET, fields=f"metadata.name={NAME}"),
    "get": lambda client, place: client.get(SECRET, NAME, namespace=place),
    "list": lambda client, place: client.list(SECRET, place),
}
EVERY = {f"{name} in {place}" for name in ATTEMPTS for place in PLACES}
OWN = {f"{verb} in {place}" for verb in ("get", "list") for place in (TARGET, PARALLEL)}


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """An administrator of a hub with the shipped roles, and a Secret in each namespace."""
    if request.param == "embedded":
        environment = Environment(users=(administrator("admin"),), authorization="RBAC")
    else:
        environment = request.getfixturevalue("real_server").environment(users=("admin",))
    async with environment as running:
        made = running.client("admin")
        roles: list[str] = []
        for who in ("reader", "writer", "secret_reader", "recorder"):
            file = ROOT / "config" / "operator" / f"stack_{who}_role.yaml"
            role = yaml.safe_load(file.read_text())
            (name,) = (each for each in STACK_ROLES if each.endswith(role["metadata"]["name"]))
            with contextlib.suppress(AlreadyExists):
                await made.create({**role, "metadata": {"name": name}})
                roles.append(name)
        for place in PLACES:
            with contextlib.suppress(AlreadyExists):
                await made.create(
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
                )
            metadata = {"name": NAME, "namespace": place}
            with contextlib.suppress(AlreadyExists):
                await made.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        yield made
        for place in PLACES:
            await made.delete(NAMESPACE, place)
        for name in roles:
            await made.delete(CLUSTER_ROLE, name)


async def readable(client: Client, bindings: list[dict[str, Any]]) -> set[str]:
    """What the account of the target namespace reads with these bindings, which are deleted again."""
    attacker = client.impersonating(f"system:serviceaccount:{TARGET}:{ACCOUNT}")
    for each in bindings:
        await client.create(each)
    try:
        found = set()
        for (name, attempt), place in itertools.product(ATTEMPTS.items(), PLACES):
            with contextlib.suppress(Forbidden):
                await attempt(attacker, place)
                found.add(f"{name} in {place}")
        return found
    finally:
        for each in bindings:
            scope = each["metadata"].get("namespace")
            kind = f"{each['apiVersion']}/{each['kind']}"
            await client.delete(kind, each["metadata"]["name"], namespace=scope)


async def test_s_f6_a_stacks_account_reads_the_secrets_of_its_own_data_plane_alone(
    client: Client,
) -> None:
    """By default; what the flag for all of them gives shows that every attempt can succeed."""
    by_default = [dict(each.manifest) for each in build_bindings(TARGET, [PARALLEL])]
    assert await readable(client, by_default) == OWN
    wide = build_bindings(TARGET, [PARALLEL], restrict_secrets=False)
    assert await readable(client, [dict(each.manifest) for each in wide]) == EVERY
