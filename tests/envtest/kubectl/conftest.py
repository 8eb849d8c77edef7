"""Real kubectl against an embedded server that is a process of its own, with RBAC and TLS."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.users import User, administrator

from .binaries import provisioned
from .namespaces import create_namespace, delete_namespace
from .runner import Kubectl

USERS = (administrator("admin"), User(name="alice"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def environment() -> AsyncIterator[Environment]:
    """kubectl sends no token over plain http, so this server has TLS."""
    backend = "embedded-process"
    async with Environment(
        backend, tls=True, authorization="RBAC", users=USERS, nodes=True
    ) as running:
        yield running


@pytest.fixture(scope="session")
def binary() -> Path:
    """The kubectl that every test here runs with but one."""
    return provisioned()


@pytest.fixture
def kubectl(binary: Path, environment: Environment, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl of the administrator, in a namespace of its own."""
    kubectl = Kubectl(binary, environment.kubeconfig("admin"), tmp_path)
    yield from in_namespace(kubectl)


def in_namespace(kubectl: Kubectl) -> Iterator[Kubectl]:
    kubectl.namespace = f"k-{secrets.token_hex(4)}"
    create_namespace(kubectl.kubeconfig, kubectl.namespace)
    yield kubectl
    delete_namespace(kubectl.kubeconfig, kubectl.namespace)


@pytest.fixture
def gadgets(kubectl: Kubectl) -> Iterator[str]:
    """A custom kind with printer columns, applied with validation on; the name of its group."""
    group = f"g{secrets.token_hex(4)}.example.com"
    kubectl("apply", "-f", "-", stdin=gadget_definition(group))
    yield group
    kubectl("delete", "crd", f"gadgets.{group}")


def gadget_definition(group: str) -> str:
    return f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.{group}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: gadgets, kind: Gadget, shortNames: [gdg], categories: [all]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    additionalPrinterColumns:
    - {{name: Size, type: integer, jsonPath: .spec.size}}
    - {{name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}}
    - {{name: Age, type: date, jsonPath: .metadata.creationTimestamp}}
    - {{name: Note, type: string, jsonPath: .spec.note, priority: 1}}
    schema:
      openAPIV3Schema:
        description: A gadget of the workshop.
        type: object
        properties:
          spec:
            description: What is wanted of the gadget.
            type: object
            required: [size]
            properties:
              size: {{description: How big it is., type: integer, minimum: 1, maximum: 10}}
              note: {{description: A remark., type: string, nullable: true}}
              free: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
              port: {{x-kubernetes-int-or-string: true}}
          status:
            description: What was seen.
            type: object
            x-kubernetes-preserve-unknown-fields: true
"""


def gadget(group: str, name: str = "one", size: int = 2) -> str:
    return f"""
apiVersion: {group}/v1
kind: Gadget
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec: {{size: {size}, note: null, port: http, free: {{a: [1, {{b: c}}]}}}}
"""
