"""The CRDs on the current apiextensions-apiserver: accepted, defaulted and validated as they say."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import Resource
from ctrlruntime.envtest import administrator
from ctrlruntime.json import Json
from tests.backends import SharedServer
from tests.limits import CRD_SECONDS

GROUP = "apis-test.example.com"
KINDS = (TenantRegistry, TenantTemplate, Tenant)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/apis-test"


class Oracle:
    """An administrator's way to the server, blocking."""

    def __init__(self, server: SharedServer) -> None:
        self._user = administrator("apis-test")
        self._url = server.config.host
        self._context = ssl.create_default_context(cadata=(server.backend.ca_data or b"").decode())
        server.backend.add_users([self._user])

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._user.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=60) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def until(self, method: str, path: str, wanted: set[int], body: object = None) -> Json:
        code, answer = self._retried(method, path, body, lambda code: code in wanted)
        assert code in wanted, answer
        return answer

    def _retried(
        self, method: str, path: str, body: object, holds: Callable[[int], bool]
    ) -> tuple[int, Any]:
        """The first answer whose code holds, or the last one within the limit."""
        deadline = time.monotonic() + CRD_SECONDS
        while True:
            code, answer = self.call(method, path, body)
            if holds(code) or time.monotonic() > deadline:
                return code, answer
            time.sleep(0.2)

    def create(self, kind: type[Resource[Any, Any]], spec: object) -> tuple[int, Any]:
        """A dry run, once the server serves the kind."""
        manifest = {
            "apiVersion": f"{GROUP}/v1",
            "kind": kind.gvk().kind,
            "metadata": {"name": "x"},
            "spec": spec,
        }
        path = f"{OBJECTS}/{kind.mapping().plural}?dryRun=All&fieldValidation=Strict"
        return self._retried("POST", path, manifest, lambda code: code not in (404, 405, 500))


@pytest.fixture(scope="module")
def oracle(apiextensions_server: SharedServer) -> Iterator[Oracle]:
    """The server with the kinds, in a group of these tests' own."""
    oracle, names = Oracle(apiextensions_server), []
    # A server of custom resources alone has no Namespaces, and asks for none.
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apis-test"}}
    oracle.until("POST", "/api/v1/namespaces", {201, 404, 409}, namespace)
    for kind in KINDS:
        crd = kind.crd()
        crd["spec"]["group"] = GROUP
        name = crd["metadata"]["name"] = f"{crd['spec']['names']['plural']}.{GROUP}"
        oracle.until("POST", CRDS, {201}, crd)
        names.append(name)
    for kind in KINDS:
        oracle.until("GET", f"{OBJECTS}/{kind.mapping().plural}", {200})
    yield oracle
    for name in names:
        oracle.call("DELETE", f"{CRDS}/{name}")


MYSQL = {"host": "h", "username": "u", "database": "d", "table": "t"}
REGISTRY: dict[str, Any] = {
    "source": {"type": "mysql", "mysql": MYSQL},
    "valueMappings": {"uid": "id", "activate": "active"},
    "extraValueMappings": {"a": "b", "c": {"column": "d", "sensitive": True}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_structural(oracle: Oracle, kind: type[Resource[Any, Any]]) -> None:
    crd = oracle.until("GET", f"{CRDS}/{kind.mapping().plural}.{GROUP}", {200})
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions.get("Established") == "True"
    assert "NonStructuralSchema" not in conditions


def test_defaults_are_those_of_the_type(oracle: Oracle) -> None:
    code, answer = oracle.create(TenantRegistry, REGISTRY)
    assert code == 201, answer
    typed = TenantRegistry.from_manifest({"spec": REGISTRY}).to_manifest(exclude_unset=False)
    del typed["spec"]["maintenanceWindows"]  # an empty list has no default in the schema
    assert answer["spec"] == typed["spec"] | {
        "extraValueMappings": REGISTRY["extraValueMappings"],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": {"type": "mysql"}}, "mysql is required when type is mysql"),
        (
            {"source": {"type": "mysql", "mysql": MYSQL, "syncInterval": "0s"}},
            "syncInterval must be at least 1s",
        ),
        ({"extraValueMappings": {"a": {"col": "x"}}}, "spec.extraValueMappings.a.column: Required"),
        ({"extraValueMappings": {"a": ""}}, "should be at least 1 chars long"),
    ],
)
def test_what_is_wrong_is_refused(oracle: Oracle, change: dict[str, Any], message: str) -> None:
    code, answer = oracle.create(TenantRegistry, {**REGISTRY, **change})
    assert code == 422
    assert message in answer["message"]


def test_resources_are_a_map_by_id(oracle: Oracle) -> None:
    resource = {"id": "x", "spec": {"apiVersion": "v1", "kind": "Secret", "any": {"thing": 1}}}
    code, answer = oracle.create(TenantTemplate, {"registryId": "r", "secrets": [resource]})
    assert code == 201, answer
    assert answer["spec"]["secrets"][0]["spec"] == resource["spec"]
    code, answer = oracle.create(
        TenantTemplate, {"registryId": "r", "secrets": [resource, resource]}
    )
    assert code == 422
    assert "Duplicate value" in answer["message"]
