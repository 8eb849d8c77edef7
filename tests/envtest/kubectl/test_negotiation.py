"""Discovery, OpenAPI and protobuf on the wire: what each Accept header is answered with."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from ctrlruntime.envtest.server import APIServer
from ctrlruntime.envtest.server.protobuf_objects import messages
from ctrlruntime.envtest.server.protobuf_table import TABLE
from ctrlruntime.json import Json

from .conftest import gadget_definition

PROTOBUF = "application/vnd.kubernetes.protobuf"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def aggregated(version: str) -> str:
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


@dataclass
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Json:
        return orjson.loads(self.body)


class Api:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def send(self, method: str, path: str, data: object = None, **headers: str) -> Answer:
        sent = {"Accept-Encoding": "identity"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = self._url + path
        async with self._session.request(
            method, url, data=data, headers=sent, allow_redirects=False
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.send("GET", path, **headers)

    async def define(self, group: str) -> None:
        body = orjson.dumps(yaml.safe_load(gadget_definition(group)))
        done = await self.send("POST", CRDS, body, Content_Type="application/json")
        assert done.status == 201, done.body


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with (
        APIServer() as server,
        aiohttp.ClientSession(auto_decompress=False) as session,
    ):
        yield Api(server.url, session)


# -- discovery -------------------------------------------------------------------------------


@pytest.mark.criterion("KC-AGGREGATED")
@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_in_the_version_asked_for(api: Api, version: str) -> None:
    for path in ("/api", "/apis"):
        answer = await api.get(path, Accept=f"{aggregated(version)},application/json")
        assert answer.status == 200
        assert answer.headers["Content-Type"] == aggregated(version)
        assert answer.json["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        assert answer.json["kind"] == "APIGroupDiscoveryList"


async def test_the_first_acceptable_form_wins(api: Api) -> None:
    both = f"{aggregated('v2')},{aggregated('v2beta1')},application/json"
    assert (await api.get("/apis", Accept=both)).json["apiVersion"].endswith("/v2")
    unknown = f"{aggregated('v9')},{aggregated('v2beta1')},application/json"
    assert (await api.get("/apis", Accept=unknown)).json["apiVersion"].endswith("/v2beta1")
    weighed = f"{aggregated('v2')};q=0.1,application/json"
    assert (await api.get("/apis", Accept=weighed)).json["kind"] == "APIGroupList"
    for plain in ("", "*/*", "application/json", f"{PROTOBUF},application/json"):
        assert (await api.get("/apis", Accept=plain)).json["kind"] == "APIGroupList"


async def test_what_cannot_be_answered_is_406(api: Api) -> None:
    for path, accept in (
        ("/apis", aggregated("v9")),
        ("/api", "text/html"),
        ("/apis/apps/v1", "text/html"),
        ("/openapi/v2", "text/html"),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        ("/openapi/v3", "text/html"),
    ):
        answer = await api.get(path, Accept=accept)
        assert answer.status == 406, path
        assert answer.json["reason"] == "NotAcceptable"
        assert answer.json["message"].startswith("only the following media types are accepted: ")


async def test_an_aggregated_entry_reports_all_of_a_resource(api: Api) -> None:
    answer = await api.get("/apis", Accept=aggregated("v2"))
    apps = next(item for item in answer.json["items"] if item["metadata"]["name"] == "apps")
    (version,) = apps["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    deployments = next(r for r in version["resources"] if r["resource"] == "deployments")
    assert deployments == {
        "resource": "deployments",
        "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "scope": "Namespaced",
        "singularResource": "deployment",
        "verbs": [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "status",
                "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
                "verbs": ["get", "patch", "update"],
            },
        ],
    }  # fmt: skip


@pytest.mark.criterion("KC-ETAG")
async def test_etags_follow_the_kinds(api: Api) -> None:
    paths = {
        "/apis": aggregated("v2"),
        "/openapi/v2": "application/json",
        "/openapi/v3": "application/json",
    }
    tags = {}
    for path, accept in paths.items():
        tags[path] = (await api.get(path, Accept=accept)).headers["ETag"]
        again = await api.get(path, Accept=accept, If_None_Match=tags[path])
        assert (again.status, again.body) == (304, b"")
    await api.define("etag.example.com")
    for path, accept in paths.items():
        changed = await api.get(path, Accept=accept, If_None_Match=tags[path])
        assert changed.status == 200, path
        assert b"etag.example.com" in changed.body


async def test_storage_version_hashes_are_those_of_a_real_server(api: Api) -> None:
    resources = (await api.get("/api/v1")).json["resources"]
    hashes = {each["name"]: each.get("storageVersionHash") for each in resources}
    assert hashes["configmaps"] == "qFsyl6wFWjQ="
    assert hashes["pods"] == "xPOwRZ+Yhw8="


# -- OpenAPI v3 ------------------------------------------------------------------------------


@pytest.mark.criterion("KC-OPENAPI-V3")
async def test_the_index_links_to_documents_by_hash(api: Api) -> None:
    index = (await api.get("/openapi/v3")).json["paths"]
    link = index["apis/apps/v1"]["serverRelativeURL"]
    assert link.startswith("/openapi/v3/apis/apps/v1?hash=")
    answer = await api.get(link)
    assert answer.headers["Cache-Control"] == "public, immutable"
    assert answer.json["openapi"] == "3.0.0"
    stale = await api.get("/openapi/v3/apis/apps/v1?hash=OLD")
    assert (stale.status, stale.headers["Location"]) == (301, link)
    assert (await api.get("/openapi/v3/apis/nothing/v1")).status == 404


async def test_paths_are_those_of_kubectl(api: Api) -> None:
    document = (await api.get("/openapi/v3/apis/apps/v1")).json
    item = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert [each["name"] for each in item["parameters"]] == ["name", "namespace"]
    patch = item["patch"]
    assert patch["x-kubernetes-action"] == "patch"
    gvk = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert patch["x-kubernetes-group-version-kind"] == gvk
    names = [each["name"] for each in patch["parameters"]]
    assert names == ["dryRun", "fieldManager", "fieldValidation", "force"]
    operations = [
        operation["operationId"]
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert len(set(operations)) == len(operations)


async def test_schemas_refer_only_to_what_is_in_the_document(api: Api) -> None:
    for path in (await api.get("/openapi/v3")).json["paths"].values():
        document = (await api.get(path["serverRelativeURL"])).json
        known = set(document["components"]["schemas"])
        assert references(document) <= {f"#/components/schemas/{name}" for name in known}


async def test_a_reference_with_a_description_is_wrapped(api: Api) -> None:
    schemas = (await api.get("/openapi/v3/apis/apps/v1")).json["components"]["schemas"]
    spec = schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]
    assert spec["description"]


async def test_custom_kinds_are_there_at_once(api: Api) -> None:
    await api.define("v3.example.com")
    document = (await api.get("/openapi/v3/apis/v3.example.com/v1")).json
    schema = document["components"]["schemas"]["com.example.v3.v1.Gadget"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "v3.example.com", "kind": "Gadget", "version": "v1"}
    ]
    assert schema["properties"]["spec"]["properties"]["note"]["nullable"] is True
    assert "com.example.v3.v1.GadgetList" in document["components"]["schemas"]


# -- OpenAPI v2 ------------------------------------------------------------------------------


@pytest.mark.criterion("KC-OPENAPI-V2")
async def test_v2_has_neither_null_nor_unions(api: Api) -> None:
    await api.define("v2.example.com")
    schema = (await api.get("/openapi/v2")).json["definitions"]["com.example.v2.v1.Gadget"]
    spec = schema["properties"]["spec"]["properties"]
    assert "type" not in spec["note"]
    assert "type" not in spec["port"]
    assert spec["size"]["type"] == "integer"


async def test_v2_refers_only_to_what_is_in_the_document(api: Api) -> None:
    document = (await api.get("/openapi/v2")).json
    known = {f"#/definitions/{name}" for name in document["definitions"]}
    assert references(document) <= known


async def test_documents_are_compressed_for_those_who_ask(api: Api) -> None:
    packed = await api.get("/openapi/v2", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == (await api.get("/openapi/v2")).body
    small = await api.get("/openapi/v3", Accept_Encoding="gzip")
    assert "Content-Encoding" not in small.headers


def references(value: object) -> set[str]:
    if isinstance(value, list):
        return {found for each in value for found in references(each)}
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own | {found for each in value.values() for found in references(each)}


# -- protobuf --------------------------------------------------------------------------------


def protobuf(api_version: str, kind: str, raw: bytes) -> bytes:
    envelope = messages("tests.envelope", TABLE)["Unknown"]
    body = envelope(typeMeta={"apiVersion": api_version, "kind": kind}, raw=raw)
    return b"k8s\x00" + body.SerializeToString()


async def test_reviews_are_read_as_protobuf_and_answered_as_json(api: Api) -> None:
    """The body as kubectl 1.32 sends it, zero values and all."""
    attributes = b"\x0a\x07default\x12\x03get\x1a\x00\x22\x00\x2a\x04pods\x32\x00\x3a\x00"
    spec = b"\x0a" + bytes([len(attributes)]) + attributes
    review = b"\x0a\x02\x0a\x00" + b"\x12" + bytes([len(spec)]) + spec + b"\x1a\x02\x08\x00"
    kind = "SelfSubjectAccessReview"
    answer = await api.send(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        protobuf("authorization.k8s.io/v1", kind, review),
        Content_Type=PROTOBUF,
        Accept=f"{PROTOBUF},application/json",
    )
    assert answer.status == 201
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["kind"] == kind
    asked = {"namespace": "default", "verb": "get", "resource": "pods"}
    assert answer.json["spec"]["resourceAttributes"] == asked
    assert answer.json["status"]["allowed"] is True


@pytest.mark.parametrize(
    ("api_version", "kind", "raw"),
    [
        ("v1", "Pod", b""),
        ("v1", "ConfigMap", b"\x0a\x03\x0a\x01c\x7a\x01x"),
        ("example.com/v1", "ConfigMap", b""),
        ("v1", "ConfigMap", b"\xff"),
    ],
    ids=["kind not read", "field not read", "other group", "not protobuf"],
)
async def test_what_cannot_be_read_in_full_is_415(
    api: Api, api_version: str, kind: str, raw: bytes
) -> None:
    """Nothing is dropped silently."""
    path = "/api/v1/namespaces/default/configmaps"
    body = protobuf(api_version, kind, raw)
    answer = await api.send("POST", path, body, Content_Type=PROTOBUF)
    assert answer.status == 415
    assert answer.json["reason"] == "UnsupportedMediaType"
    assert "application/json" in answer.json["message"]


async def test_only_protobuf_accepted_is_406(api: Api) -> None:
    answer = await api.get("/api/v1/namespaces", Accept=PROTOBUF)
    assert answer.status == 406
