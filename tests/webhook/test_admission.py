"""Defaulting and validating, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api import Manifest
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import TooManyRequests
from ctrlruntime.json import PatchError, apply_json_patch, carried
from ctrlruntime.webhook import (
    AdmissionRequest,
    AdmissionResponse,
    Application,
    Chain,
    Defaulting,
    Review,
    Validating,
    allowed,
    defaults,
    denied,
    json_patch,
    refused,
    validates,
)
from ctrlruntime.webhook.application import LARGEST_BODY
from tests.webhook.posting import posting, review
from tests.webhook.webhook_kinds import operations, websites

SITES = websites()
MUTATE = "/mutate-sites-example-com-v1-website"
VALIDATE = "/validate-sites-example-com-v1-website"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def both(application: Application) -> None:
    application.register(SITES.current)


class Echo:
    """Allows everything and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AdmissionRequest] = []

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        self.asked.append(request)
        return allowed()


# -- the review itself ----------------------------------------------------------------------


@pytest.mark.criterion("WH-01")
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_review_is_answered_in_its_own_version_with_its_uid(version: str) -> None:
    echo = Echo()
    async with posting(lambda app: app.handle("/echo", echo)) as client:
        answer = await client.post("/echo", review(SITES.manifest(), version=version))
    assert answer.code == 200
    assert answer.body == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": True},
    }
    (request,) = echo.asked
    assert (request.operation, request.user_info.username) == ("CREATE", "alice")
    assert request.user_info.extra == {"a": ("b",)}
    assert request.gvk == SITES.current.gvk()
    assert request.manifest() == SITES.manifest()
    assert request.old_manifest() is None


@pytest.mark.criterion("WH-02")
@pytest.mark.parametrize(
    ("body", "headers", "code", "says"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 400, "text/plain, not application/json"),
        (b"", {"Content-Type": "application/json"}, 400, "empty"),
        (b"{", {"Content-Type": "application/json"}, 400, "not an AdmissionReview"),
        (b"[]", {"Content-Type": "application/json"}, 400, "not an AdmissionReview"),
        (b"{}", {"Content-Type": "application/json"}, 400, "no request"),
        (
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v7","request":{}}',
            {"Content-Type": "application/json"},
            400,
            "v7",
        ),
        (b" " * (LARGEST_BODY + 1), {"Content-Type": "application/json"}, 413, "larger than"),
    ],
)
async def test_what_is_no_review_is_refused(
    body: bytes, headers: dict[str, str], code: int, says: str
) -> None:
    async with posting(both) as client:
        answer = await client.post(MUTATE, body, headers=headers)
        assert answer.code == code
        assert answer.response["status"]["code"] == code
        assert says in answer.response["status"]["message"]
        assert client.sample("webhook_requests_total", webhook=MUTATE, code=str(code)) == 1


@pytest.mark.criterion("WH-02")
async def test_a_body_of_just_the_limit_is_read() -> None:
    empty = review(SITES.manifest(title=""))
    title = "x" * (LARGEST_BODY - len(orjson.dumps(empty)))
    async with posting(both) as client:
        assert (await client.post(MUTATE, review(SITES.manifest(title=title)))).code == 200


# -- defaulting -----------------------------------------------------------------------------


@pytest.mark.criterion("WH-03")
async def test_the_patch_gives_the_defaulted_object_and_leaves_unknown_fields() -> None:
    sent = SITES.manifest(
        title="Shop",
        unknown={"kept": [1, 2]},
        ports=[{"name": "HTTP", "number": 80, "unknown": True}, {"name": "ssh", "number": 22}],
    )
    async with posting(both) as client:
        answer = await client.post(MUTATE, review(sent))
    assert answer.response["patchType"] == "JSONPatch"
    assert operations(answer.patch) == ["replace /spec/ports/0/name", "add /spec/tier"]
    expected = orjson.loads(orjson.dumps(sent))
    expected["spec"]["ports"][0]["name"] = "http"
    expected["spec"]["tier"] = "small"
    assert apply_json_patch(sent, answer.patch) == expected


@pytest.mark.criterion("WH-03")
async def test_nothing_to_default_is_no_patch_and_a_deletion_is_not_asked_about() -> None:
    done = SITES.manifest(title="Shop", tier="large")
    going = SITES.manifest(title="crash the defaulter")
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    async with posting(both) as client:
        for body in (
            review(done),
            review(None, SITES.manifest(), operation="DELETE"),
            review(going, going, operation="UPDATE"),
        ):
            answer = await client.post(MUTATE, body)
            assert answer.response["allowed"]
            assert "patch" not in answer.response
            assert "patchType" not in answer.response


@pytest.mark.criterion("WH-03")
async def test_an_object_that_cannot_be_read_is_refused_field_by_field() -> None:
    sent = SITES.manifest(port="many", ports=[{"number": 1}])
    async with posting(both) as client:
        status = (await client.post(MUTATE, review(sent))).response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert [(c["field"], c["reason"]) for c in status["details"]["causes"]] == [
        ("spec.port", "FieldValueInvalid"),
        ("spec.ports[0].name", "FieldValueRequired"),
    ]
    assert "many" not in str(status)


@pytest.mark.criterion("WH-03")
async def test_a_kind_without_a_class_is_defaulted_as_a_dict() -> None:
    @defaults("create")
    def label(obj: Manifest, review: Review[Any]) -> None:
        obj["metadata"].setdefault("labels", {})["by"] = review.user.username

    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    async with posting(lambda app: app.register(CONFIG_MAP, label)) as client:
        answer = await client.post("/mutate--v1-configmap", review(config_map))
        assert answer.patch == [{"op": "add", "path": "/metadata/labels", "value": {"by": "alice"}}]
        update = review(config_map, config_map, operation="UPDATE")
        assert "patch" not in (await client.post("/mutate--v1-configmap", update)).response


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b/c", "d~e"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "x", "y/z", "~"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.criterion("WH-03")
@given(before=JSON_VALUES, after=JSON_VALUES)
def test_a_patch_leads_from_any_document_to_any_other(before: object, after: object) -> None:
    patch = json_patch(before, after)
    assert canonical(apply_json_patch(before, patch)) == canonical(after)
    assert (patch == []) == (canonical(before) == canonical(after))


@pytest.mark.criterion("WH-03")
@given(before=JSON_VALUES, after=JSON_VALUES)
def test_a_change_carried_to_a_document_that_shows_everything_is_the_change(
    before: object, after: object
) -> None:
    assert canonical(carried(before, before, after)) == canonical(after)


def canonical(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def test_true_is_not_one() -> None:
    assert json_patch({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]


def test_all_operations_of_a_json_patch() -> None:
    patch: list[Any] = [
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "copy", "from": "/a/0", "path": "/b"},
        {"op": "move", "from": "/a/1", "path": "/a/0"},
        {"op": "add", "path": "/a/-", "value": 3},
    ]
    assert apply_json_patch({"a": [1, 2]}, patch) == {"a": [2, 1, 3], "b": 1}
    wrongs: list[Any] = [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "replace", "path": "/b"},
        {"op": "remove", "path": "/b"},
        {"op": "increment", "path": "/a", "value": 1},
    ]
    for wrong in wrongs:
        with pytest.raises(PatchError, match="does not fit"):
            apply_json_patch({"a": 1}, [wrong])


# -- validating -----------------------------------------------------------------------------


@pytest.mark.criterion("WH-04")
async def test_all_that_is_wrong_is_said_at_once() -> None:
    sent = SITES.manifest(port=81, tier="huge")
    async with posting(both) as client:
        response = (await client.post(VALIDATE, review(sent))).response
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == (
        'Website.sites.example.com "shop" is invalid: '
        "[spec.adminPort: Invalid value: 81: must differ from port, "
        'spec.tier: Unsupported value: "huge": supported values: "small", "large"]'
    )
    assert [c["field"] for c in status["details"]["causes"]] == ["spec.adminPort", "spec.tier"]


@pytest.mark.criterion("WH-04")
async def test_warnings_come_with_a_yes_and_with_a_no() -> None:
    async with posting(both) as client:
        yes = (await client.post(VALIDATE, review(SITES.manifest(tier="large")))).response
        assert yes == {"uid": yes["uid"], "allowed": True, "warnings": ["large websites cost more"]}
        no = await client.post(VALIDATE, review(SITES.manifest(tier="large", port=81)))
    assert not no.response["allowed"]
    assert no.response["warnings"] == ["large websites cost more"]


@pytest.mark.criterion("WH-04")
async def test_an_update_sees_both_objects_and_a_deletion_the_one_that_goes() -> None:
    old, new = SITES.manifest(title="A", tier="small"), SITES.manifest(title="B", tier="small")
    kept = SITES.manifest()
    kept["metadata"]["annotations"] = {"keep": "yes"}
    async with posting(both) as client:
        update = await client.post(VALIDATE, review(new, old, operation="UPDATE"))
        assert update.response["status"]["details"]["causes"] == [
            {
                "field": "spec.title",
                "reason": "FieldValueForbidden",
                "message": "Forbidden: is written once",
            }
        ]
        delete = await client.post(VALIDATE, review(None, kept, operation="DELETE"))
        status = delete.response["status"]
        assert (status["code"], status["reason"], status["message"]) == (
            403,
            "Forbidden",
            "shop is to be kept",
        )
        free = await client.post(VALIDATE, review(None, SITES.manifest(), operation="DELETE"))
        assert free.response["allowed"]
        connect = await client.post(VALIDATE, review(None, kept, operation="CONNECT"))
        assert connect.response["allowed"]
        unknown = await client.post(VALIDATE, review(new, operation="FROB"))
        assert unknown.response["status"]["code"] == 400


@pytest.mark.criterion("WH-04")
async def test_an_error_of_the_api_is_passed_on_as_it_is() -> None:
    async with posting(both) as client:
        sent = SITES.manifest(title="conflict", tier="small")
        status = (await client.post(VALIDATE, review(sent))).response["status"]
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["details"] == {"name": "another"}


@pytest.mark.criterion("WH-04")
async def test_nothing_stands_in_the_way_of_the_last_finalizer() -> None:
    going = SITES.manifest(tier="huge")
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    strict = Validating(
        SITES.current, {"UPDATE": [lambda _, review: review.forbidden("spec", "no")]},
        while_deleting=True,
    )  # fmt: skip
    body = review(going, going, operation="UPDATE")

    def fill(app: Application) -> None:
        both(app)
        app.handle("/strict", strict)

    async with posting(fill) as client:
        assert (await client.post(VALIDATE, body)).response["allowed"]
        assert not (await client.post("/strict", body)).response["allowed"]


@pytest.mark.criterion("WH-05")
async def test_a_mistake_in_a_handler_is_a_500_and_the_server_goes_on() -> None:
    async with posting(both) as client:
        answer = await client.post(VALIDATE, review(SITES.manifest(title="crash", tier="small")))
        assert answer.code == 500
        assert not answer.response["allowed"]
        assert answer.response["uid"]
        assert "mistake" not in answer.response["status"]["message"]
        defaulter = await client.post(MUTATE, review(SITES.manifest(title="crash the defaulter")))
        assert defaulter.code == 500
        assert client.sample("webhook_panics_total") == 2
        good = await client.post(VALIDATE, review(SITES.manifest(tier="small")))
        assert (good.code, good.response["allowed"]) == (200, True)
        assert client.sample("webhook_requests_total", webhook=VALIDATE, code="500") == 1
        assert client.sample("webhook_requests_total", webhook=VALIDATE, code="200") == 1


# -- paths ----------------------------------------------------------------------------------


@pytest.mark.criterion("WH-06")
def test_paths_by_default_and_of_ones_own() -> None:
    app = application()
    assert app.register(SITES.current) == (MUTATE, VALIDATE)
    assert app.register(SITES.current, mutating_path="/m", validating_path="/a/b_c-1") == (
        "/m",
        "/a/b_c-1",
    )
    for bad in ("m", "/a b", "/a/", "//", "", "/ä", "/a\n"):
        with pytest.raises(ValueError, match="webhook path"):
            app.handle(bad, Echo())


@pytest.mark.criterion("WH-06")
def test_a_path_is_taken_once() -> None:
    app = application()
    app.register(SITES.current)
    with pytest.raises(ValueError, match=f"a webhook at {MUTATE} already"):
        app.register(SITES.current)
    with pytest.raises(ValueError, match="already"):
        app.register(SITES.current, mutating_path="/free")  # the other path is taken
    assert "/free" not in app.paths
    with pytest.raises(ValueError, match="declares no defaults"):
        app.register(SITES.old)

    def unmarked(obj: object, review: object) -> None:
        return None

    with pytest.raises(ValueError, match="neither marked"):
        app.register(CONFIG_MAP, unmarked)
    with pytest.raises(ValueError, match="operations here are"):
        validates("connect")


# -- chains ---------------------------------------------------------------------------------


def setting(name: str, value: str, warning: str) -> Defaulting:
    def step(obj: Manifest, review: Review[Any]) -> None:
        obj["data"] = {**obj.get("data", {}), name: value}
        review.warn(warning)

    return Defaulting(None, [step])


def config_map(**data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


@pytest.mark.criterion("WH-07")
async def test_patches_and_warnings_of_a_chain_are_joined() -> None:
    chain = Chain(setting("a", "1", "one"), setting("b", "2", "two"), setting("a", "3", "three"))
    sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}  # no data yet
    async with posting(lambda app: app.handle("/chain", chain)) as client:
        answer = await client.post("/chain", review(sent))
    assert apply_json_patch(sent, answer.patch)["data"] == {"a": "3", "b": "2"}
    assert answer.response["warnings"] == ["one", "two", "three"]


@pytest.mark.criterion("WH-07")
async def test_the_first_denial_wins_and_keeps_the_warnings_before_it() -> None:
    class No:
        async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
            return refused(TooManyRequests("later"), "mine")

    after = Echo()
    chain = Chain(setting("a", "1", "before"), No(), after)
    async with posting(lambda app: app.handle("/chain", chain)) as client:
        response = (await client.post("/chain", review(config_map()))).response
    assert not response["allowed"]
    assert response["status"]["code"] == 429
    assert response["warnings"] == ["before", "mine"]
    assert "patch" not in response
    assert after.asked == []


# -- counting -------------------------------------------------------------------------------


@pytest.mark.criterion("WH-13")
async def test_every_request_is_counted_once_and_none_stays_in_flight() -> None:
    all_in, go = asyncio.Event(), asyncio.Event()

    asked: list[AdmissionRequest] = []

    class Slow:
        async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
            asked.append(request)
            if len(asked) == 3:
                all_in.set()
            await go.wait()
            return denied("no")

    async with posting(lambda app: app.handle("/slow", Slow())) as client:
        assert client.sample("webhook_requests_total", webhook="/slow", code="200") == 0
        assert client.sample("webhook_requests_total", webhook="/slow", code="500") == 0
        waiting = [
            asyncio.create_task(client.post("/slow", review(config_map()))) for _ in range(3)
        ]
        async with asyncio.timeout(60):
            await all_in.wait()
        assert client.sample("webhook_requests_in_flight", webhook="/slow") == 3
        go.set()
        await asyncio.gather(*waiting)
        late = await client.post("/slow?timeout=10s", b"")
        assert late.code == 400
        assert client.sample("webhook_requests_in_flight", webhook="/slow") == 0
        assert client.sample("webhook_requests_total", webhook="/slow", code="200") == 3
        assert client.sample("webhook_requests_total", webhook="/slow", code="400") == 1
        assert client.sample("webhook_latency_seconds_count", webhook="/slow") == 4


async def test_no_wait_is_longer_than_the_api_server_does() -> None:
    class Hanging:
        async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
            await asyncio.Event().wait()
            return allowed()

    async with posting(lambda app: app.handle("/hang", Hanging())) as client:
        answer = await client.post("/hang?timeout=0.05s", review(config_map()))
        assert answer.code == 504
        assert client.sample("webhook_requests_in_flight", webhook="/hang") == 0


def application() -> Application:
    return Application(structlog.get_logger())
