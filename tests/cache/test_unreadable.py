"""An object that cannot be read is kept with its metadata, and costs no other."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import orjson
import pytest
from pydantic import ValidationError

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache import reflector as reflectors
from ctrlruntime.cache.entry import Document, Entry, EntryDecoder
from ctrlruntime.cache.listwatch import WatchRequest
from ctrlruntime.cache.reflector import Reflector, ReflectorOptions
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import list_meta

GVK = GroupVersionKind("example.com", "v1", "Widget")


def levels(number: int, inner: bytes = b"1") -> bytes:
    return b'{"a":' * number + inner + b"}" * number


HOSTILE = {
    **{f"{number} levels": levels(number) for number in (201, 300, 500, 1_500, 9_000)},
    "lists": b"[" * 1_500 + b"]" * 1_500,
    "1.5 MB": b"[" + b",".join([levels(1_500)] * 160) + b"]",
    "a huge number": b'{"a":1e400}',
    "not UTF-8": b'{"a":"\xff"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
}
READABLE = {
    "100 levels": levels(100),
    "200 levels": levels(200),
    "keys": b"{" + b",".join(b'"k%d":{}' % number for number in range(100_000)) + b"}",
    "brackets in text": orjson.dumps({"a": ["[{" * 1_000, '"]}\\']}),
    "wide": b"[" + b",".join([b"[[[]]]"] * 100_000) + b"]",
}


def widget(name: str, spec: bytes = b"{}", version: int = 1, metadata: bytes = b"") -> bytes:
    return (
        b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"%b","namespace":"a",'
        b'"uid":"u-%b","resourceVersion":"%d","labels":{"app":"x"}%b},"spec":%b,"status":{"phase":"Ready"}}'
        % (name.encode(), name.encode(), version, metadata, spec)
    )


def decoded(body: bytes, *, track: bool = False) -> Entry:
    return EntryDecoder(GVK, track_manager="me" if track else None).decode(body)


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("shape", HOSTILE)
def test_what_cannot_be_read_is_invalid_and_keeps_metadata_and_status(
    shape: str, track: bool
) -> None:
    managed = b',"managedFields":[{"manager":"me","operation":"Apply","fieldsV1":%b}]' % (
        HOSTILE[shape] if HOSTILE[shape].startswith(b'{"a":{') else b"{}"
    )
    entry = decoded(widget("bad", HOSTILE[shape], metadata=managed), track=track)
    assert (entry.key, entry.uid, entry.resource_version) == (("a", "bad"), "u-bad", "1")
    assert entry.labels == {"app": "x"}
    assert entry.field("status") == {"phase": "Ready"}
    for read in (lambda: entry.field("spec"), entry.decode):
        with pytest.raises(ValidationError) as error:
            read()
        assert error.value.errors()[0]["loc"] == ("spec",)


@pytest.mark.parametrize("shape", READABLE)
def test_large_objects_within_the_limit_are_read(shape: str) -> None:
    assert decoded(widget("good", READABLE[shape])).field("spec") == orjson.loads(READABLE[shape])


def test_an_unreadable_state_differs_from_another_and_names_waiting_finalizers() -> None:
    deleted = b',"finalizers":["x/y"],"deletionTimestamp":"2030-01-01T00:00:00Z"'
    one, other = (decoded(widget("a", levels(n), metadata=deleted)) for n in (300, 301))
    assert one.fields["spec"] != other.fields["spec"]
    with pytest.raises(ValidationError, match=r"200 levels deep.*its finalizers wait"):
        one.field("spec")


def test_metadata_that_cannot_be_read_makes_the_object_unreadable_not_absent() -> None:
    entry = decoded(widget("a", metadata=b',"generation":"x"'))
    assert entry.uid == "u-a"
    with pytest.raises(ValidationError, match=r"metadata\.generation cannot be read"):
        entry.field("spec")


class Source:
    """Serves one list and one watch of a hostile object between healthy ones."""

    def __init__(self, spec: bytes, number: int = 1) -> None:
        self.spec, self.number = spec, number

    async def pages(
        self, *, limit: int, not_older_than: str | None = None, name: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        items = b",".join([widget("one"), *[widget("bad", self.spec)] * self.number, widget("two")])
        yield b'{"kind":"WidgetList","items":[%b],"metadata":{"resourceVersion":"5"}}' % items

    async def watch(self, request: WatchRequest) -> AsyncGenerator[bytes, None]:
        for kind, name, spec in (
            *[(b"MODIFIED", "bad", self.spec)] * self.number,
            (b"MODIFIED", "one", b'{"size":2}'),
            (b"DELETED", "bad", self.spec),
            (b"ADDED", "bad", b"{}"),
        ):
            yield b'{"type":"%b","object":%b}' % (kind, widget(name, spec, 6))


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("shape", HOSTILE)
async def test_lists_and_watches_go_on_beside_it(shape: str) -> None:
    source = Source(HOSTILE[shape])
    async for page in source.pages(limit=0):
        assert list_meta(page).resource_version == "5"
        assert [decoded(bytes(memoryview(item))).name for item in list_items(page)] == [
            "one",
            "bad",
            "two",
        ]
    seen: list[tuple[str, bool]] = []

    class Sink:
        def reported(self, line: bytes) -> None:
            return None

        def decode(self, body: Document) -> Entry:
            return EntryDecoder(GVK).take(body)

        decode_deleted = decode

        def observe(self, entry: Entry, *, deleted: bool) -> None:
            seen.append((entry.name, deleted))

    reflector = Reflector(source, cast("reflectors.Sink", Sink()), ReflectorOptions())
    async for line in source.watch(WatchRequest(resource_version="5", timeout=1, inactivity=1)):
        reflector._line(line)
    assert seen == [("bad", False), ("one", False), ("bad", True), ("bad", False)]
    assert reflector.version == "6"


class Decoding:
    """A sink that keeps nothing, and counts the turns that others get meanwhile."""

    decode = decode_deleted = staticmethod(EntryDecoder(GVK).take)
    decode_listed = staticmethod(EntryDecoder(GVK).decode)

    def __init__(self) -> None:
        self.turns = 0

    def reported(self, line: bytes) -> None:
        return None

    def observe(self, entry: Entry, *, deleted: bool) -> None:
        return None

    async def count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_many_large_objects_leave_others_their_turns(verb: str) -> None:
    source, sink = Source(HOSTILE["1.5 MB"], number=10), Decoding()
    reflector = Reflector(source, cast("reflectors.Sink", sink), ReflectorOptions())
    others = asyncio.create_task(sink.count())
    await (reflector._read_pages(0) if verb == "list" else reflector._watch())
    others.cancel()
    assert sink.turns >= 10, "each took tens of milliseconds, and all of them one turn"
