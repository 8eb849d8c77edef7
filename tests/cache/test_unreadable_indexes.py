"""An object that cannot be read is never missing from an index."""

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.store import Store

GVK = GroupVersionKind("example.com", "v1", "Widget")
DEEP = '{"of":' * 1_500 + "1" + "}" * 1_500


def widget(spec: str, name: str = "bad", namespace: str = "a") -> Entry:
    metadata = f'{{"name":"{name}","namespace":"{namespace}","uid":"u","resourceVersion":"1"}}'
    return EntryDecoder(GVK).decode(f'{{"metadata":{metadata},"spec":{spec}}}'.encode())


def owner_of(entry: Entry) -> list[str]:
    return [f"{entry.namespace}/{entry.field('spec')['of']}"]


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("before", ['{"of":"x"}', None], ids=["read before", "after a restart"])
def test_what_cannot_be_read_is_found_under_each_value_of_its_namespace(before: str | None) -> None:
    store = Store({"of": owner_of})
    store.put(widget('{"of":"x"}', "good"))
    if before is not None:
        store.put(widget(before))
    store.put(widget(DEEP))
    assert [each.name for each in store.by_index("of", "a/x")] == ["bad", "good"]
    assert [each.name for each in store.by_index("of", "a/y")] == ["bad"]
    assert (store.count("of", "a/x"), store.count("of", "a/y")) == (2, 1)
    assert store.by_index("of", "b/x") == []
    assert store.index_values("of") == ["a/x"]
    store.put(widget('{"of":"y"}'))
    assert [each.name for each in store.by_index("of", "a/x")] == ["good"]
    store.put(widget(DEEP))
    store.remove(("a", "bad"))
    assert store.by_index("of", "a/y") == []


def test_another_error_of_an_index_function_finds_nothing() -> None:
    store = Store({"of": owner_of})
    store.put(widget("{}"))
    assert store.by_index("of", "a/x") == []
