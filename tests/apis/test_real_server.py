"""The CRDs on a real API server: accepted as they are, defaulted and validated as they say.

Runs where CTRLRUNTIME_ORACLE_URL names an API server that serves CRDs, with a token of an
administrator in CTRLRUNTIME_ORACLE_TOKEN.
"""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate

URL = os.environ.get("CTRLRUNTIME_ORACLE_URL", "")
TOKEN = os.environ.get("CTRLRUNTIME_ORACLE_TOKEN", "")
GROUP = "apis-test.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/apis-test"

pytestmark = [
    pytest.mark.skipif(not URL, reason="CTRLRUNTIME_ORACLE_URL names no API server"),
    pytest.mark.xdist_group("real-server"),
]


def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        URL + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(request, context=context, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def until(method: str, path: str, wanted: set[int], body: Any = None) -> Any:
    deadline = time.monotonic() + 30
    while True:
        code, answer = call(method, path, body)
        if code in wanted or time.monotonic() > deadline:
            assert code in wanted, answer
            return answer
        time.sleep(0.2)


@pytest.fixture(scope="module", autouse=True)
def _crds() -> Iterator[None]:
    names = []
    for kind in (TenantRegistry, TenantTemplate, Tenant):
        crd = kind.crd()
        crd["spec"]["group"] = GROUP
        name = crd["metadata"]["name"] = f"{crd['spec']['names']['plural']}.{GROUP}"
        call("DELETE", f"{CRDS}/{name}")
        until("POST", CRDS, {201}, crd)
        names.append(name)
    for kind in (TenantRegistry, TenantTemplate, Tenant):
        until("GET", f"{OBJECTS}/{kind.mapping().plural}", {200})
    yield
    for name in names:
        call("DELETE", f"{CRDS}/{name}")


def create(kind: Any, spec: Any) -> tuple[int, Any]:
    manifest = {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind.gvk().kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }
    path = f"{OBJECTS}/{kind.mapping().plural}?dryRun=All&fieldValidation=Strict"
    for _ in range(50):
        code, answer = call("POST", path, manifest)
        if code not in (404, 405, 500):
            break
        time.sleep(0.2)
    return code, answer


MYSQL = {"host": "h", "username": "u", "database": "d", "table": "t"}
REGISTRY: dict[str, Any] = {
    "source": {"type": "mysql", "mysql": MYSQL},
    "valueMappings": {"uid": "id", "activate": "active"},
    "extraValueMappings": {"a": "b", "c": {"column": "d", "sensitive": True}},
}


@pytest.mark.parametrize("kind", [TenantRegistry, TenantTemplate, Tenant])
def test_the_schema_is_structural(kind: Any) -> None:
    crd = until("GET", f"{CRDS}/{kind.mapping().plural}.{GROUP}", {200})
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions.get("Established") == "True"
    assert "NonStructuralSchema" not in conditions


def test_defaults_are_those_of_the_type() -> None:
    code, answer = create(TenantRegistry, REGISTRY)
    assert code == 201, answer
    typed = TenantRegistry.from_manifest({"spec": REGISTRY}).to_manifest(exclude_unset=False)
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
def test_what_is_wrong_is_refused(change: dict[str, Any], message: str) -> None:
    code, answer = create(TenantRegistry, {**REGISTRY, **change})
    assert code == 422
    assert message in answer["message"]


def test_resources_are_a_map_by_id() -> None:
    resource = {"id": "x", "spec": {"apiVersion": "v1", "kind": "Secret", "any": {"thing": 1}}}
    code, answer = create(TenantTemplate, {"registryId": "r", "secrets": [resource]})
    assert code == 201, answer
    assert answer["spec"]["secrets"][0]["spec"] == resource["spec"]
    code, answer = create(TenantTemplate, {"registryId": "r", "secrets": [resource, resource]})
    assert code == 422
    assert "Duplicate value" in answer["message"]
