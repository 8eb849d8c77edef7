"""`shardSelector` and `metadata.shardInfo`, and sets of labels in a watch: KEP-5866 with its gate and without.

The real server of this file is one of its own: the gate is off in the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Final
from urllib.parse import quote

import pytest

from ctrlruntime.envtest import User, administrator
from ctrlruntime.envtest.server import ServerOptions
from ctrlruntime.json import Json
from tests.backends import kube_apiserver
from tests.xdist_groups import OTHER_RELEASE

from .conftest import Connect
from .manifests import secret, widget
from .servers import TOKENS, RealServer, embedded
from .wire import Api

LIST: Final = "application/json;g=meta.k8s.io;v=v1;as="
LOW: Final = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
HIGH: Final = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
FNV_BASIS, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


@pytest.fixture
def options() -> ServerOptions:
    return ServerOptions(tokens=TOKENS, authorization="RBAC", sharded_list_watch=True)


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """One real server of the newest release, with the gate."""
    known: dict[str, RealServer] = {}
    with ExitStack() as stack:

        def one(backend: str) -> RealServer:
            if backend.startswith(OTHER_RELEASE):
                pytest.skip("the gate ShardedListAndWatch is shown with the newest release")
            if backend not in known:
                gate = {"feature-gates": "ShardedListAndWatch=true"}
                flags = {"enable-priority-and-fairness": "false", **gate}
                folder = tmp_path_factory.mktemp("gate")
                shared = stack.enter_context(kube_apiserver(folder, apiserver_flags=flags))
                admin, alice = administrator("admin"), User(name="alice")
                shared.backend.add_users([admin, alice])
                known[backend] = RealServer(shared.backend.url, admin.token, alice.token)
            return known[backend]

        yield one


@pytest.fixture
async def secrets(api: Api) -> list[Json]:
    """24 Secrets: no half is empty."""
    return [await api.create(api.secrets, secret(f"s{number:02}")) for number in range(24)]


def half(objects: list[Json], field: str = "uid", *, high: bool = False) -> list[str]:
    """Return the names of those whose field hashes into one half."""
    return [
        each["metadata"]["name"]
        for each in objects
        if (_hash(each["metadata"][field]) >= 1 << 63) is high
    ]


def _hash(text: str) -> int:
    found = FNV_BASIS
    for byte in text.encode():
        found = (found ^ byte) * FNV_PRIME % (1 << 64)
    return found


def names(found: Json) -> list[str]:
    return [each["metadata"]["name"] for each in found["items"]]


def sharded(path: str, selector: str, **options: str) -> str:
    extra = "".join(f"&{name}={quote(value)}" for name, value in options.items())
    return f"{path}?shardSelector={quote(selector)}{extra}"


@pytest.mark.criterion("SH-10")
@pytest.mark.parametrize(
    ("selector", "echo"),
    [
        (LOW, LOW),
        (f"( {LOW.replace(', ', ',')} )", LOW),
        (f"{LOW}||{HIGH}", f"{LOW} || {HIGH}"),
        (LOW.replace("'", '"'), LOW),
    ],
)
async def test_a_list_of_a_range_is_filtered_and_echoes_it(
    api: Api, secrets: list[Json], selector: str, echo: str
) -> None:
    found = await api.get(sharded(api.secrets, selector))
    wanted = half(secrets) if echo == LOW else names({"items": secrets})
    assert names(found) == wanted
    assert found["metadata"]["shardInfo"] == {"selector": echo}


@pytest.mark.criterion("SH-10")
async def test_every_page_and_a_deleted_collection_echo_it(api: Api, secrets: list[Json]) -> None:
    seen: list[str] = []
    counts: list[int] = []
    token = ""
    while True:
        page = await api.get(sharded(api.secrets, LOW, limit="5", **{"continue": token}))
        assert page["metadata"]["shardInfo"] == {"selector": LOW}
        counts.append(page["metadata"].get("remainingItemCount", 0))
        seen += names(page)
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == half(secrets)
    assert counts[0] == len(secrets) - 5, "the ranges are left out of account"
    gone = await api.call("DELETE", sharded(api.secrets, HIGH))
    assert (names(gone), gone["metadata"]["shardInfo"]) == (
        half(secrets, high=True),
        {"selector": HIGH},
    )
    assert names(await api.get(api.secrets)) == half(secrets)


@pytest.mark.criterion("SH-10")
async def test_a_namespace_is_in_one_range(api: Api, secrets: list[Json]) -> None:
    by_namespace = LOW.replace("uid", "namespace")
    found = await api.get(sharded("/api/v1/secrets", by_namespace))
    own = [each for each in found["items"] if each["metadata"]["namespace"] == api.namespace]
    assert names({"items": own}) == half(secrets, "namespace")


@pytest.mark.criterion("SH-10")
async def test_custom_resources_and_other_forms_are_filtered_without_an_echo(
    api: Api, secrets: list[Json], widgets: str
) -> None:
    made = [await api.create(widgets, widget(f"w{number:02}")) for number in range(12)]
    found = await api.get(sharded(widgets, LOW))
    assert (names(found), "shardInfo" in found["metadata"]) == (half(made), False)
    for form, rows in (("PartialObjectMetadataList", "items"), ("Table", "rows")):
        path = sharded(api.secrets, LOW)
        _, answer, _ = await api.send("GET", path, Accept=LIST + form)
        assert (answer["kind"], len(answer[rows])) == (form, len(half(secrets)))
        assert "shardInfo" not in answer["metadata"]


@pytest.mark.criterion("SH-10")
async def test_a_watch_of_a_range_has_its_objects_alone(api: Api, secrets: list[Json]) -> None:
    low = half(secrets)
    async with api.watch(sharded(api.secrets, LOW, watch="1")) as stream:
        assert await stream.take(len(low)) == [("ADDED", name) for name in low]
        for each in names({"items": secrets}):
            await api.merge(f"{api.secrets}/{each}", {"data": {"a": "Mg=="}})
            await api.call("DELETE", f"{api.secrets}/{each}")
        changes = [(kind, name) for name in low for kind in ("MODIFIED", "DELETED")]
        assert await stream.take(len(changes)) == changes


@pytest.mark.criterion("SH-10")
@pytest.mark.parametrize(
    ("selector", "why"),
    [
        (LOW.replace("0x0000000000000000", "0x0"), 'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "0x0000000000000000"?)'),
        (LOW.replace("'0x8", "'8"), 'hexEnd must have \'0x\' prefix, got "8000000000000000"'),
        (LOW.replace("0x8000000000000000", "0x"), "hexEnd: hex value is required after '0x'"),
        (LOW.replace("0x8", "0xF"), 'hexEnd: invalid hex character "F" in "0xF000000000000000"'),
        (LOW.replace("0x8", "0x00"), "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x00000000000000000\""),
        (LOW.replace("0x8", "0x0"), "shard range start 0x0000000000000000 must be less than end 0x0000000000000000"),
        (LOW.replace("uid", "name"), 'unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace'),
        (f"{LOW} || {HIGH.replace('uid', 'namespace')}", 'all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"'),
        ("shardRange(object.metadata.uid, '0x0')", "shardRange() requires exactly 3 arguments, got 2"),
        ("shardRange(object.metadata.uid, 0, 1)", "hexStart must be a string literal, got int64"),
        ("hashRange(object.metadata.uid, '0x0', '0x1')", 'unsupported function "hashRange"; only shardRange() and || are allowed'),
        (f"{LOW} && {LOW}", 'unsupported function "_&&_"; only shardRange() and || are allowed'),
        ("garbage(", "CEL parse error: "),
        (" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
    ],
)  # fmt: skip
async def test_a_bad_range_is_refused(api: Api, widgets: str, selector: str, why: str) -> None:
    for path, options in ((api.secrets, {}), (api.secrets, {"watch": "1"}), (widgets, {})):
        answer = await api.refusal("GET", sharded(path, selector, **options))
        assert (answer["code"], answer.get("reason")) == (500, None)
        assert answer["message"].startswith(f"invalid shard selector: {why}")


@pytest.mark.criterion("SH-10")
@pytest.mark.parametrize("selector", [LOW, "garbage("])
async def test_without_the_gate_it_is_ignored_silently(
    request: pytest.FixtureRequest, backend: str, selector: str
) -> None:
    async for api in _gateless(request, backend):
        await api.create(api.secrets, secret("a"))
        found = await api.get(sharded(api.secrets, selector))
        assert (names(found), "shardInfo" in found["metadata"]) == (["a"], False)
        async with api.watch(sharded(api.secrets, selector, watch="1")) as stream:
            assert await stream.take(1) == [("ADDED", "a")]


async def _gateless(request: pytest.FixtureRequest, backend: str) -> AsyncIterator[Api]:
    if backend == "embedded":
        async with embedded(ServerOptions(tokens=TOKENS, authorization="RBAC")) as api:
            yield api
        return
    shared = request.getfixturevalue("real_server")
    admin = administrator("admin")
    shared.backend.add_users([admin])
    async with RealServer(shared.backend.url, admin.token, "").api() as api:
        yield api


@pytest.mark.criterion("SH-11")
async def test_labels_that_change_move_an_object_between_the_watches_of_two_sets(api: Api) -> None:
    first, second = (
        f"{api.secrets}?watch=1&labelSelector={quote(f'slot in ({slots})')}"
        for slots in ("0,1", "2,3")
    )
    async with api.watch(first) as one, api.watch(second) as two:
        await api.create(api.secrets, secret("a", labels={"slot": "0"}))
        for slot in ("1", "2", "3", "0"):
            await api.merge(f"{api.secrets}/a", {"metadata": {"labels": {"slot": slot}}})
        await api.call("DELETE", f"{api.secrets}/a")
        seen = [
            [await stream.next() for _ in range(count)] for stream, count in ((one, 5), (two, 3))
        ]
    assert [[_kind(event) for event in events] for events in seen] == [
        [("ADDED", "0"), ("MODIFIED", "1"), ("DELETED", "1"), ("ADDED", "0"), ("DELETED", "0")],
        [("ADDED", "2"), ("MODIFIED", "3"), ("DELETED", "3")],
    ]
    left, entered = seen[0][2]["object"]["metadata"], seen[1][0]["object"]["metadata"]
    assert left["resourceVersion"] == entered["resourceVersion"]


def _kind(event: Json) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["labels"]["slot"]
