"""The store: entries by key, and indexes that always equal a scan."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder, Key
from ctrlruntime.cache.store import IndexConflict, Store, UnknownIndex

EntryOf = Callable[..., Entry]


def by_first_letter(entry: Entry) -> Iterable[str]:
    return (entry.name[0],)


def test_get_list_and_keys(entry_of: EntryOf) -> None:
    store = Store()
    assert store.put(entry_of("a")) is None
    first = store.get("a", namespace="ns")
    assert store.put(entry_of("a", uid="2")) is first
    store.put(entry_of("b", "other"))
    assert len(store) == 2
    assert store.keys() == [("ns", "a"), ("other", "b")]
    assert [entry.name for entry in store.list("other")] == ["b"]
    assert store.get("b", namespace="ns") is None


@pytest.mark.criterion("CA-05")
def test_list_by_namespace_labels_and_limit(entry_of: EntryOf) -> None:
    store = Store()
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1", "y": "2"}), ("c", {"y": "2"})):
        store.put(entry_of(name, labels=labels))
    assert [entry.name for entry in store.list(labels={"x": "1", "y": "2"})] == ["b"]
    assert [entry.name for entry in store.list("ns", labels={"x": "1"}, limit=1)] == ["a"]
    assert store.list("elsewhere") == []


@pytest.mark.criterion("RF-23")
def test_index_added_later_covers_old_objects_and_empty_buckets_go(entry_of: EntryOf) -> None:
    store = Store()
    store.put(entry_of("apple"))
    store.put(entry_of("avocado"))
    store.add_index("letter", by_first_letter)
    assert [e.name for e in store.by_index("letter", "a")] == ["apple", "avocado"]
    store.remove(("ns", "apple"))
    store.remove(("ns", "avocado"))
    assert store.index_values("letter") == []
    assert store.index_values("namespace") == []


@pytest.mark.criterion("CA-06")
def test_a_missing_index_is_a_clear_error(entry_of: EntryOf) -> None:
    with pytest.raises(UnknownIndex, match=r"'letter'.*add_index.*namespace, owner"):
        Store().by_index("letter", "a")


def test_an_index_is_added_once(entry_of: EntryOf) -> None:
    store = Store({"letter": by_first_letter})
    store.add_index("letter", by_first_letter)
    with pytest.raises(IndexConflict, match="letter"):
        store.add_index("letter", lambda entry: ())


def test_label_and_owner_indexes_are_built_in(entry_of: EntryOf) -> None:
    store = Store()
    store.add_index("label:app")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-7"}
    store.put(entry_of("a", labels={"app": "web"}, ownerReferences=[owner]))
    store.put(entry_of("b"))
    assert [e.name for e in store.by_index("label:app", "web")] == ["a"]
    assert [e.name for e in store.by_index("owner", "u-7")] == ["a"]
    assert [e.name for e in store.list(labels={"app": "web"})] == ["a"]


def test_an_entry_whose_index_function_fails_is_kept_without_a_value(entry_of: EntryOf) -> None:
    def broken(entry: Entry) -> Iterable[str]:
        if entry.labels.get("bad"):
            raise RuntimeError("no")
        return (entry.name,)

    failures: list[tuple[str, str]] = []
    store = Store(
        {"broken": broken},
        on_index_failure=lambda index, entry, _error: failures.append((index, entry.name)),
    )
    store.put(entry_of("a"))
    store.put(entry_of("a", labels={"bad": "1"}))
    assert failures == [("broken", "a")]
    assert [e.labels for e in store] == [{"bad": "1"}]
    assert store.by_index("broken", "a") == []
    store.put(entry_of("a"))
    assert [e.labels for e in store.by_index("broken", "a")] == [{}]
    assert store.remove(("ns", "a")) is not None
    assert store.index_values("broken") == []


NAMES = st.sampled_from(["a", "ab", "b", "ba"])
NAMESPACES = st.sampled_from(["x", "y"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["1", "2"]), max_size=2)
OWNERS = st.lists(st.sampled_from(["u1", "u2", "u3"]), max_size=2, unique=True)


def tiers_and_apps(entry: Entry) -> Iterable[str]:
    return [*entry.labels.values(), *entry.labels.values()]  # repeats must not matter


class StoreAgainstModel(RuleBasedStateMachine):
    """Any order of adds, updates, removals and late indexes: indexes equal a scan of a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store({"values": tiers_and_apps})
        self.model: dict[Key, Entry] = {}
        self.decoder = EntryDecoder(GroupVersionKind("", "v1", "ConfigMap"))
        self.functions: dict[str, Callable[[Entry], Iterable[str]]] = {
            "values": tiers_and_apps,
            "namespace": lambda entry: (entry.namespace,),
            "owner": lambda entry: [owner.uid for owner in entry.owners],
        }

    @rule(name=NAMES, namespace=NAMESPACES, labels=LABELS, owners=OWNERS, size=st.integers(0, 50))
    def put(
        self, name: str, namespace: str, labels: dict[str, str], owners: list[str], size: int
    ) -> None:
        entry = self.decoder.decode_manifest(
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": labels,
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid} for uid in owners
                    ],
                },
                "data": {"text": "x" * size},
            }
        )
        assert self.store.put(entry) is self.model.get(entry.key)
        self.model[entry.key] = entry

    @rule(name=NAMES, namespace=NAMESPACES)
    def remove(self, name: str, namespace: str) -> None:
        assert self.store.remove((namespace, name)) is self.model.pop((namespace, name), None)

    @rule()
    def add_index(self) -> None:
        self.store.add_index("letter", by_first_letter)
        self.functions["letter"] = by_first_letter

    @rule()
    def add_label_index(self) -> None:
        self.store.add_index("label:app")
        self.functions["label:app"] = lambda e: (e.labels["app"],) if "app" in e.labels else ()

    @invariant()
    def indexes_equal_a_scan(self) -> None:
        for name, fn in self.functions.items():
            expected = defaultdict(list)
            for key, entry in sorted(self.model.items()):
                for value in set(fn(entry)):
                    expected[value].append(key)
            assert set(self.store.index_values(name)) == set(expected)
            for value, keys in expected.items():
                assert [entry.key for entry in self.store.by_index(name, value)] == keys
                assert self.store.count(name, value) == len(keys)

    @invariant()
    def contents_equal_the_model(self) -> None:
        assert {entry.key: entry for entry in self.store} == self.model
        assert self.store.bytes == sum(entry.size for entry in self.model.values())
        for labels in ({"app": "1"}, {"app": "1", "tier": "2"}):
            found = {entry.key for entry in self.store.list(labels=labels)}
            wanted = {k for k, e in self.model.items() if labels.items() <= e.labels.items()}
            assert found == wanted


TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
