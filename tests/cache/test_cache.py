"""Declared informers over HTTP: what can be read, what is told, and that own writes are seen at once."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TypedDict, Unpack

import pytest

from ctrlruntime.cache.cache import Cache, CachedClient, CacheOptions, KindCacheOptions
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.errors import (
    CacheNotStarted,
    NotSynced,
    OnlyMetadata,
    OutsideCache,
    UndeclaredKind,
    UnsupportedRead,
)
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.store import UnknownIndex
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import InternalError, NotFound, WriteOutcomeUnknown
from ctrlruntime.client.selectors import FieldSelector, LabelSelector
from ctrlruntime.client.transport import Response
from tests.cache.lagging_watch import LaggingWatch
from tests.client.support import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    WIDGET,
    Seen,
    Widget,
    config_map,
    deployment,
    install_widgets,
    widget_crd,
)


class ListOptions(TypedDict, total=False):
    labels: LabelSelector | None
    fields: FieldSelector | None
    index: Mapping[str, str] | None
    limit: int | None


MakeCache = Callable[..., Cache]


@pytest.fixture
async def client(api_config: Config) -> AsyncGenerator[Client, None]:
    async with Client.connect(api_config) as client:
        yield client


@pytest.fixture
async def make_cache(client: Client) -> AsyncGenerator[MakeCache, None]:
    made: list[Cache] = []

    def make(options: CacheOptions | None = None, live: Client | None = None) -> Cache:
        made.append(Cache(live or client, options))
        return made[-1]

    yield make
    for cache in made:
        await cache.stop()


@pytest.fixture
async def cache(make_cache: MakeCache) -> Cache:
    return make_cache()


async def started(cache: Cache) -> Cache:
    await cache.start()
    await cache.wait_synced(60.0)
    return cache


class Told:
    """A handler that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60.0):
            while not condition():
                self._news.clear()
                await self._news.wait()


class TestReadErrors:
    @pytest.mark.criterion("CA-01")
    async def test_read_before_start(self, cache: Cache) -> None:
        cache.declare(CONFIG_MAP)
        with pytest.raises(CacheNotStarted):
            cache.get(CONFIG_MAP, "a", namespace="default")

    @pytest.mark.criterion("CA-02")
    @pytest.mark.criterion("CA-11")
    async def test_undeclared_kind_names_the_fix_and_starts_no_watch(self, cache: Cache) -> None:
        await started(cache)
        with pytest.raises(
            UndeclaredKind, match=r'declare\("v1/ConfigMap"\).*manager\.live_client'
        ):
            cache.get(CONFIG_MAP, "a", namespace="default")
        with pytest.raises(UndeclaredKind):
            await cache.client().list(CONFIG_MAP)
        assert cache.stats() == []

    @pytest.mark.criterion("CA-02")
    async def test_whoever_wants_to_wait_for_a_kind_awaits_its_declaration(
        self, client: Client, cache: Cache
    ) -> None:
        await client.create(config_map("a"))
        await started(cache)
        informer = cache.declare(CONFIG_MAP).informer
        with pytest.raises(NotSynced, match="wait_synced"):
            cache.get(CONFIG_MAP, "a", namespace="default")
        await informer.wait_synced(60.0)
        assert cache.get(CONFIG_MAP, "a", namespace="default")

    @pytest.mark.criterion("CA-02")
    async def test_the_wait_ends_when_it_is_cancelled_or_over(self, make_cache: MakeCache) -> None:
        async with Client.connect(Config(host="http://127.0.0.1:1")) as nowhere:
            cache = make_cache(live=nowhere)
            informer = cache.declare(CONFIG_MAP).informer
            await cache.start()
            with pytest.raises(TimeoutError, match=r"ConfigMap: informer not synced"):
                await informer.wait_synced(0.05)
            waiting = asyncio.create_task(informer.wait_synced())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await cache.stop()

    @pytest.mark.criterion("CA-04")
    async def test_not_found_carries_group_kind_and_name(self, cache: Cache) -> None:
        cache.declare(DEPLOYMENT)
        await started(cache)
        assert cache.get(DEPLOYMENT, "a", namespace="default") is None
        with pytest.raises(NotFound, match=r'deployments\.apps "a" not found') as error:
            await cache.client().get(DEPLOYMENT, "a", namespace="default")
        assert error.value.details == {"name": "a", "group": "apps", "kind": "deployments"}

    @pytest.mark.criterion("CA-08")
    async def test_a_namespace_that_is_not_watched(self, client: Client, cache: Cache) -> None:
        cache.declare(CONFIG_MAP, namespaces=["default", "kube-system"])
        cache.declare(NAMESPACE)
        await client.create(config_map("a"))
        await started(cache)
        assert cache.get(CONFIG_MAP, "a", namespace="default")
        assert cache.get(NAMESPACE, "default")
        with pytest.raises(OutsideCache, match=r"'kube-public'.*default, kube-system"):
            cache.get(CONFIG_MAP, "a", namespace="kube-public")
        with pytest.raises(ValueError, match="cluster-scoped"):
            cache.declare(NAMESPACE, namespaces=["default"])

    async def test_more_than_metadata_is_not_there(self, cache: Cache) -> None:
        cache.declare(CONFIG_MAP, metadata_only=True)
        await started(cache)
        with pytest.raises(OnlyMetadata, match="metadata_only=True"):
            cache.get(CONFIG_MAP, "a", namespace="default")
        assert cache.get(CONFIG_MAP, "a", namespace="default", metadata_only=True) is None


class TestReads:
    @pytest.mark.criterion("CA-05")
    @pytest.mark.criterion("CA-06")
    async def test_lists(self, client: Client, cache: Cache) -> None:
        def colours(entry: Entry) -> list[str]:
            return [entry.labels["colour"]] if "colour" in entry.labels else []

        def sizes(entry: Entry) -> list[str]:
            mine = "test" in entry.labels  # a shared server holds more
            return list((entry.field("data") or {}).values()) if mine else []

        cache.declare(CONFIG_MAP, indexes={"colour": colours, "size": sizes})
        for name, namespace, colour, data in (
            ("a", "default", "red", {"x": "1", "y": "2"}),
            ("b", "default", "blue", {"x": "1"}),
            ("c", "kube-public", "red", {"x": "2"}),
        ):
            manifest = config_map(name, data, labels={"colour": colour, "test": "1"})
            manifest["metadata"]["namespace"] = namespace
            await client.create(manifest)
        await started(cache)

        def names(namespace: str | None = None, **options: Unpack[ListOptions]) -> list[str]:
            found = cache.list(CONFIG_MAP, namespace, **options)
            return [manifest["metadata"]["name"] for manifest in found]

        assert names(labels={"test": "1"}) == ["a", "b", "c"]
        assert names("default", labels={"test": "1", "colour": "red"}) == ["a"]
        assert names(labels="colour in (red, blue), test", limit=2) == ["a", "b"]
        assert names(index={"colour": "red"}) == ["a", "c"]
        assert names("kube-public", index={"colour": "red"}) == ["c"]
        assert names(index={"size": "2"}) == ["a", "c"]
        assert names(index={"size": "1", "colour": "red"}) == ["a"]
        assert names(fields={"colour": "blue", "metadata.namespace": "default"}) == ["b"]
        assert names(fields="metadata.name=c") == ["c"]
        assert names(fields="size=1,size=2") == ["a"]
        assert names("kube-public", fields="metadata.namespace=default") == []
        assert names(fields="metadata.name=a,metadata.name=b") == []
        with pytest.raises(UnknownIndex, match=r"spec\.x"):
            names(fields="spec.x=1")
        with pytest.raises(UnsupportedRead, match="!="):
            names(fields="metadata.name!=a")

    @pytest.mark.criterion("CA-13")
    async def test_one_store_serves_typed_dict_and_metadata_readers(
        self, client: Client, cache: Cache
    ) -> None:
        await install_widgets(client)
        cache.declare(Widget)
        await started(cache)
        await cache.informer(Widget).wait_synced(60.0)
        manifest = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 5}}
        await cache.client().create(Widget.from_manifest(manifest))
        typed = cache.get(Widget, "w", namespace="default")
        plain = cache.get(WIDGET, "w", namespace="default")
        metadata = cache.get(WIDGET, "w", namespace="default", metadata_only=True)
        assert isinstance(typed, Widget)
        assert plain is not None
        assert metadata is not None
        assert typed.spec.size == plain["spec"]["size"] == 5
        assert typed.metadata.uid == plain["metadata"]["uid"] == metadata["metadata"]["uid"]
        assert (metadata["apiVersion"], metadata["kind"]) == ("client.example.com/v1", "Widget")
        assert len(cache.stats()) == 1

    @pytest.mark.criterion("CA-03")
    async def test_what_is_read_is_the_callers_own(self, client: Client, cache: Cache) -> None:
        cache.declare(CONFIG_MAP)
        await client.create(config_map("a", {"k": "1"}))
        await started(cache)
        first = cache.get(CONFIG_MAP, "a", namespace="default")
        assert first is not None
        first["data"]["k"] = "changed"
        again = cache.get(CONFIG_MAP, "a", namespace="default")
        assert again is not None
        assert again["data"] == {"k": "1"}
        entry = cache.entry(CONFIG_MAP, "a", namespace="default")
        assert entry is cache.entry(CONFIG_MAP, "a", namespace="default")

    @pytest.mark.criterion("CA-07")
    async def test_selectors_restrict_what_is_cached(self, client: Client, cache: Cache) -> None:
        cache.declare(CONFIG_MAP, labels={"on": "1"})
        await client.create(config_map("a", labels={"on": "1"}))
        await client.create(config_map("b"))
        await started(cache)
        assert cache.get(CONFIG_MAP, "a", namespace="default")
        assert cache.get(CONFIG_MAP, "b", namespace="default") is None

    @pytest.mark.criterion("CA-07")
    async def test_field_selectors_do_too_and_objects_enter_and_leave(
        self, client: Client, cache: Cache
    ) -> None:
        cache.declare(CONFIG_MAP, fields={"metadata.name": "a"}, labels="on")
        informer = cache.informer(CONFIG_MAP)
        await client.create(config_map("a"))
        await client.create(config_map("b", labels={"on": "1"}))
        await started(cache)
        assert cache.list(CONFIG_MAP) == []
        told = Told()
        informer.add_handler(told)
        await client.patch(
            CONFIG_MAP, "a", {"metadata": {"labels": {"on": "1"}}}, namespace="default"
        )
        await told.until(lambda: len(informer.store) == 1)
        assert [m["metadata"]["name"] for m in cache.list(CONFIG_MAP)] == ["a"]
        await client.patch(CONFIG_MAP, "a", {"metadata": {"labels": None}}, namespace="default")
        await told.until(lambda: len(informer.store) == 0)
        assert [type(event) for event in told.events] == [CreateEvent, DeleteEvent]

    @pytest.mark.criterion("CA-10")
    async def test_all_namespaces_but_some(self, client: Client, cache: Cache) -> None:
        fields = "metadata.namespace!=default,metadata.namespace!=kube-system"
        informer = cache.declare(CONFIG_MAP, fields=fields, labels="test").informer
        for namespace in ("default", "kube-public"):
            manifest = config_map("a", labels={"test": "1"})
            manifest["metadata"]["namespace"] = namespace
            await client.create(manifest)
        await started(cache)
        assert [entry.namespace for entry in informer.store] == ["kube-public"]
        # A write of our own to one that is left out is not shown either.
        await cache.client().create(config_map("b", labels={"test": "1"}))
        assert len(informer.store) == 1

    @pytest.mark.criterion("CA-09")
    async def test_declaration_beats_kind_beats_default(self, make_cache: MakeCache) -> None:
        cache = make_cache(
            CacheOptions(
                namespaces=["a"], kinds={DEPLOYMENT: KindCacheOptions(namespaces=["b"], labels="x")}
            )
        )
        handles = [
            cache.declare(CONFIG_MAP),
            cache.declare(DEPLOYMENT),
            cache.declare(DEPLOYMENT, namespaces=["c"], labels="y"),
            cache.declare(NAMESPACE),
        ]
        selections = [handle.informer.selection for handle in handles]
        assert [s.namespaces and sorted(s.namespaces) for s in selections] == [
            ["a"],
            ["b"],
            ["c"],
            None,
        ]
        assert [s.labels for s in selections] == ["", "x", "y", ""]

    @pytest.mark.criterion("CL-10")
    async def test_what_is_cached_and_what_is_live(
        self, api_config: Config, make_cache: MakeCache
    ) -> None:
        seen = Seen()
        async with Client.connect(api_config, observer=seen) as live:
            cache = make_cache(CacheOptions(live_kinds=[DEPLOYMENT]), live)
            cache.declare(CONFIG_MAP)
            await live.create(config_map("a"))
            await live.create(deployment("d"))
            await started(cache)
            reader = cache.client()
            seen.requests.clear()
            await reader.get(CONFIG_MAP, "a", namespace="default")
            await reader.list(CONFIG_MAP, "default")
            assert seen.requests == []
            await reader.get(DEPLOYMENT, "d", namespace="default")
            await reader.get(CONFIG_MAP, "a", namespace="default", consistency="live")
            await reader.live.get(CONFIG_MAP, "a", namespace="default")
            assert len(seen.requests) == 3
            await cache.stop()


class TestHandlers:
    @pytest.mark.criterion("RF-15")
    async def test_a_late_handler_receives_everything_once(
        self, client: Client, cache: Cache
    ) -> None:
        informer = cache.declare(CONFIG_MAP, labels="test").informer
        for number in range(250):
            await client.create(config_map(f"m{number:03}", labels={"test": "1"}))
        await started(cache)
        told = Told()
        registration = informer.add_handler(told)
        assert not registration.synced
        # Before it has been told of all: one object changes, one goes, one comes.
        writer = cache.client()
        await asyncio.gather(
            writer.patch(CONFIG_MAP, "m249", {"data": {"late": "1"}}, namespace="default"),
            writer.delete(CONFIG_MAP, "m248", namespace="default"),
            writer.create(config_map("new", labels={"test": "1"})),
        )
        await registration.wait_synced(60.0)
        state: dict[str, Entry] = {}
        for event in told.events:
            match event:
                case CreateEvent(new=new):
                    assert new.name not in state
                    assert event.initial == (new.name != "new")
                    state[new.name] = new
                case UpdateEvent(old=old, new=new):
                    assert state[old.name] is old
                    state[new.name] = new
                case DeleteEvent(old=old):
                    del state[old.name]
        assert state == {entry.name: entry for entry in informer.store}
        assert len(state) == 250

    @pytest.mark.criterion("RF-17")
    async def test_a_failing_handler_harms_no_other(self, client: Client, cache: Cache) -> None:
        informer = cache.declare(CONFIG_MAP).informer
        told = Told()

        def fail(event: Event) -> None:
            raise RuntimeError("broken handler")

        informer.add_handler(fail)
        informer.add_handler(told)
        await started(cache)
        await client.create(config_map("a"))
        await told.until(
            lambda: any(isinstance(e, CreateEvent) and e.new.name == "a" for e in told.events)
        )

    @pytest.mark.criterion("RF-18")
    async def test_a_removed_handler_receives_nothing(self, client: Client, cache: Cache) -> None:
        informer = cache.declare(CONFIG_MAP, namespaces=["default"]).informer
        gone, stays = Told(), Told()
        registration = informer.add_handler(gone)
        informer.add_handler(stays)
        await started(cache)
        registration.remove()
        registration.remove()
        before = len(gone.events)
        await cache.client().create(config_map("a"))
        await stays.until(
            lambda: any(isinstance(e, CreateEvent) and not e.initial for e in stays.events)
        )
        assert len(gone.events) == before

    @pytest.mark.criterion("LV-5")
    async def test_lv_5_a_transform_on_a_shared_informer_is_refused(self, cache: Cache) -> None:
        def transform(entry: Entry) -> Entry:
            return entry

        def other(entry: Entry) -> Entry:
            return entry

        cache.declare(CONFIG_MAP)
        with pytest.raises(ValueError, match="ConfigMap is declared already, without a transform"):
            cache.declare(CONFIG_MAP, transform=transform)
        own = cache.declare(CONFIG_MAP, labels="test", transform=transform)
        with pytest.raises(ValueError, match="with another transform"):
            cache.declare(CONFIG_MAP, labels="test", transform=other)
        assert cache.declare(CONFIG_MAP, labels="test").informer is own.informer
        assert (
            cache.declare(CONFIG_MAP, labels="test", transform=transform).informer is own.informer
        )

    @pytest.mark.criterion("RF-20")
    async def test_a_transform_runs_before_store_and_handlers(
        self, client: Client, cache: Cache
    ) -> None:
        def transform(entry: Entry) -> Entry:
            if entry.name == "bad":
                raise ValueError("not this one")
            entry.fields.pop("data", None)
            return entry

        informer = cache.declare(CONFIG_MAP, labels="test", transform=transform).informer
        told = Told()
        informer.add_handler(told)
        for name in ("good", "bad"):
            await client.create(config_map(name, {"k": "v"}, labels={"test": "1"}))
        await started(cache)
        (event,) = told.events
        assert isinstance(event, CreateEvent)
        assert "data" not in event.new.decode()
        entry = cache.entry(CONFIG_MAP, "good", namespace="default")
        assert entry is not None
        assert "data" not in entry.decode()

    @pytest.mark.looptime
    @pytest.mark.criterion("RF-19")
    @pytest.mark.parametrize(("period", "seconds", "times"), [(100.0, 350.0, 3), (0.01, 3.5, 3)])
    async def test_resync_reports_again_from_the_store(
        self, period: float, seconds: float, times: int
    ) -> None:
        """On a virtual clock, without a server: see test_reflector for the peer."""
        from tests.cache.test_reflector import ScriptedServer, Watched, obj, page

        watched = Watched(
            ScriptedServer([[page(10, obj("a", 3))]]), resync=period, random=lambda: 0.5
        )
        await watched.requests(2)
        watched.told.clear()
        await asyncio.sleep(seconds)
        assert len(watched.told) == times
        assert all(isinstance(e, UpdateEvent) and e.old is e.new for e in watched.told)
        watched.task.cancel()
        await asyncio.gather(watched.task, return_exceptions=True)


class TestDeclarations:
    @pytest.mark.criterion("CA-12")
    async def test_handles_are_counted_and_the_last_frees_the_store(
        self, client: Client, cache: Cache
    ) -> None:
        first, second = cache.declare(CONFIG_MAP), cache.declare(CONFIG_MAP)
        assert first.informer is second.informer
        await client.create(config_map("a"))
        await started(cache)
        await first.release()
        await first.release()
        assert cache.get(CONFIG_MAP, "a", namespace="default")
        await second.release()
        with pytest.raises(UndeclaredKind):
            cache.get(CONFIG_MAP, "a", namespace="default")
        fresh = cache.declare(CONFIG_MAP)
        await fresh.informer.wait_synced(60.0)
        assert fresh.informer is not first.informer
        assert cache.get(CONFIG_MAP, "a", namespace="default")

    @pytest.mark.criterion("LV-8")
    async def test_a_released_informer_ends_with_its_watch_and_takes_in_nothing_more(
        self, client: Client, cache: Cache
    ) -> None:
        first, second = cache.declare(CONFIG_MAP), cache.declare(CONFIG_MAP)
        await started(cache)
        (running,) = [
            t for t in asyncio.all_tasks() if t.get_name() == f"informer {first.informer.gvk}"
        ]
        await first.release()
        assert not running.cancelling()
        await second.release()
        assert running.cancelling()
        await asyncio.wait({running})
        assert running.cancelled()
        known = {entry.name for entry in first.informer.store}
        await client.create(config_map("later"))
        await cache.client().create(config_map("own"))
        assert {entry.name for entry in first.informer.store} == known
        assert cache.synced

    @pytest.mark.criterion("LV-8")
    async def test_an_informer_released_before_it_has_synced_holds_nothing_up(
        self, cache: Cache
    ) -> None:
        handle = cache.declare(CONFIG_MAP)
        await cache.start()
        await handle.release()
        assert cache.synced
        assert cache.stats() == []

    async def test_full_wins_over_metadata_only(self, client: Client, cache: Cache) -> None:
        cache.declare(CONFIG_MAP, metadata_only=True)
        handle = cache.declare(CONFIG_MAP)
        assert not handle.informer.metadata_only
        await client.create(config_map("a", {"k": "1"}))
        await started(cache)
        found = cache.get(CONFIG_MAP, "a", namespace="default")
        assert found is not None
        assert found["data"] == {"k": "1"}

    async def test_controllers_that_share_a_kind_read_what_they_declared(
        self, client: Client, cache: Cache
    ) -> None:
        """One tracks every object by its metadata, another reads those of one label in full."""
        label = {"team": "a"}
        cache.declare(
            CONFIG_MAP,
            metadata_only=True,
            track_manager="first",
            indexes={"by-name": lambda entry: (entry.name,)},
        )
        cache.declare(
            CONFIG_MAP,
            labels=label,
            track_manager="second",
            indexes={"by-team": lambda entry: (entry.labels["team"],)},
        )
        manifest = config_map("a", {"k": "1"})
        manifest["metadata"]["labels"] = label
        await client.apply(manifest, field_manager="second")
        await client.apply(config_map("b"), field_manager="first")
        await started(cache)
        assert not cache.metadata_only(CONFIG_MAP)
        found = cache.get(CONFIG_MAP, "a", namespace="default")
        assert found is not None
        assert found["data"] == {"k": "1"}
        for manager in ("first", "second"):
            entry = cache.entry(CONFIG_MAP, "a", namespace="default", tracked=manager)
            assert entry is not None
            assert bool(entry.owned) is (manager == "second")
        assert cache.entry(CONFIG_MAP, "b", namespace="default", tracked="first") is not None
        assert cache.entry(CONFIG_MAP, "b", namespace="default", tracked="second") is None
        by_team = cache.entries(CONFIG_MAP, index={"by-team": "a"})
        by_name = cache.entries(CONFIG_MAP, index={"by-name": "b"})
        assert [entry.name for entry in (*by_team, *by_name)] == ["a", "b"]
        with pytest.raises(UnknownIndex):
            cache.entries(CONFIG_MAP, index={"by-size": "1"})
        cache.declare(CONFIG_MAP, labels={"team": "late"}, track_manager="late", metadata_only=True)
        assert cache.entry(CONFIG_MAP, "a", namespace="default", tracked="second") is not None
        assert cache.get(CONFIG_MAP, "a", namespace="default") is not None
        with pytest.raises(NotSynced):
            cache.entry(CONFIG_MAP, "a", namespace="default", tracked="late")

    async def test_a_running_informer_is_widened(self, client: Client, cache: Cache) -> None:
        informer = cache.declare(CONFIG_MAP, metadata_only=True).informer
        await client.apply(config_map("a", {"k": "1"}), field_manager="me")
        await started(cache)
        cache.declare(CONFIG_MAP, track_manager="me")
        await informer.wait_synced(60.0)
        entry = cache.entry(CONFIG_MAP, "a", namespace="default")
        assert entry is not None
        assert entry.field("data") == {"k": "1"}
        assert entry.owned is not None
        with pytest.raises(
            ValueError, match=r"'me'.*one Control, or declare each with a selection"
        ):
            cache.declare(CONFIG_MAP, track_manager="another")

    @pytest.mark.parametrize("api_server", ["embedded"], indirect=True)  # its definition is new
    async def test_a_missing_kind_holds_nothing_up_and_is_found_later(
        self, client: Client, make_cache: MakeCache
    ) -> None:
        cache = make_cache(CacheOptions(informers=InformerOptions(missing_retry=600.0)))
        cache.declare(CONFIG_MAP)
        informer = cache.declare(WIDGET).informer
        await started(cache)
        assert list(cache.missing()) == [WIDGET]
        assert cache.list(WIDGET) == []
        await client.create(widget_crd())
        cache.notify_discovery_changed()
        await informer.wait_synced(60.0)
        assert cache.missing() == {}

    async def test_waiting_in_vain_reports_for_what(self, make_cache: MakeCache) -> None:
        async with Client.connect(Config(host="http://127.0.0.1:1")) as nowhere:
            cache = make_cache(live=nowhere)
            cache.declare(CONFIG_MAP)
            await cache.start()
            with pytest.raises(TimeoutError, match=r"ConfigMap.*127\.0\.0\.1"):
                await cache.wait_synced(0.5)
            await cache.stop()


@pytest.mark.criterion("CL-14")
class TestOwnWrites:
    @pytest.fixture
    async def writer(self, cache: Cache) -> CachedClient:
        cache.declare(CONFIG_MAP, labels="test", track_manager="me")
        await started(cache)
        return cache.client()

    async def test_every_kind_of_write_is_read_back_while_the_watch_lags(
        self, cache: Cache, writer: CachedClient
    ) -> None:
        informer = cache.informer(CONFIG_MAP)
        told = Told()
        informer.add_handler(told)
        lag = LaggingWatch(informer)
        made = await writer.create(config_map("a", {"k": "1"}, labels={"test": "1"}))
        assert (await writer.get(CONFIG_MAP, "a", namespace="default"))["data"] == {"k": "1"}
        await writer.update({**made, "data": {"k": "2"}})
        assert (await writer.get(CONFIG_MAP, "a", namespace="default"))["data"] == {"k": "2"}
        await writer.patch(
            CONFIG_MAP, "a", {"data": {"k": "3"}}, namespace="default", metadata_only=True
        )
        assert (await writer.get(CONFIG_MAP, "a", namespace="default"))["data"] == {"k": "3"}
        applied = config_map("a", {"own": "1"}, labels={"test": "1"})
        answer = await writer.apply(applied, field_manager="me", metadata_only=True)
        assert set(answer) == {"apiVersion", "kind", "metadata"}
        entry = cache.entry(CONFIG_MAP, "a", namespace="default")
        assert entry is not None
        assert entry.owned is not None
        assert b'"f:own"' in entry.owned
        assert len(await writer.list(CONFIG_MAP, "default")) == 1
        await writer.delete(CONFIG_MAP, "a", namespace="default")
        assert await writer.list(CONFIG_MAP, "default") == []
        before = list(told.events)
        lag.release()
        assert told.events == before  # everything the watch had to say was known
        assert [type(e) for e in told.events] == [
            CreateEvent,
            UpdateEvent,
            UpdateEvent,
            UpdateEvent,
            DeleteEvent,
        ]

    async def test_a_delete_that_waits_for_finalizers_shows_the_object_deleting(
        self, cache: Cache, writer: CachedClient
    ) -> None:
        LaggingWatch(cache.informer(CONFIG_MAP))
        manifest = config_map("a", labels={"test": "1"}, finalizers=["example.com/wait"])
        await writer.create(manifest)
        await writer.delete(CONFIG_MAP, "a", namespace="default")
        entry = cache.entry(CONFIG_MAP, "a", namespace="default")
        assert entry is not None
        assert entry.deletion_timestamp is not None
        await writer.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, namespace="default")
        assert (
            cache.entry(CONFIG_MAP, "a", namespace="default") is None
        )  # taking the last one off removes it

    async def test_a_dry_run_is_not_seen(self, cache: Cache, writer: CachedClient) -> None:
        await writer.create(config_map("a", labels={"test": "1"}), dry_run=True)
        assert await writer.list(CONFIG_MAP) == []

    async def test_a_write_out_of_the_selection_is_gone_at_once(
        self, cache: Cache, writer: CachedClient
    ) -> None:
        LaggingWatch(cache.informer(CONFIG_MAP))
        await writer.create(config_map("a", labels={"test": "1"}))
        await writer.patch(CONFIG_MAP, "a", {"metadata": {"labels": None}}, namespace="default")
        assert await writer.list(CONFIG_MAP) == []

    @pytest.mark.parametrize(
        "failure", [WriteOutcomeUnknown("lost"), InternalError("etcd timed out"), None], ids=repr
    )
    async def test_an_unanswered_write_is_read_live_once(
        self, cache: Cache, writer: CachedClient, failure: Exception | None
    ) -> None:
        """None: the caller was cancelled while it waited."""

        async def lose(call: Call, execute: Execute) -> Response:
            await execute(call)
            if failure is None:
                raise asyncio.CancelledError
            raise failure

        LaggingWatch(cache.informer(CONFIG_MAP))
        with pytest.raises((WriteOutcomeUnknown, InternalError, asyncio.CancelledError)):
            await writer.intercepted(lose).create(config_map("a", labels={"test": "1"}))
        assert cache.get(CONFIG_MAP, "a", namespace="default") is None
        assert cache.unconfirmed(CONFIG_MAP, "a", namespace="default")
        assert [key for _, key in cache.unconfirmed_keys()] == [("default", "a")]
        assert await writer.get(CONFIG_MAP, "a", namespace="default")
        assert not cache.unconfirmed(CONFIG_MAP, "a", namespace="default")

    async def test_settle_reads_everything_in_doubt(
        self, cache: Cache, client: Client, writer: CachedClient
    ) -> None:
        informer = cache.informer(CONFIG_MAP)
        LaggingWatch(informer)
        await client.create(config_map("a", labels={"test": "1"}))
        informer.doubt(("default", "a"))
        informer.doubt(("default", "nothing"))
        await cache.settle()
        assert cache.unconfirmed_keys() == []
        assert cache.get(CONFIG_MAP, "a", namespace="default")

    async def test_scale_puts_the_object_in_doubt(self, cache: Cache) -> None:
        handle = cache.declare(DEPLOYMENT)
        await started(cache)
        writer = cache.client()
        await writer.create(deployment("d"))
        LaggingWatch(handle.informer)
        await writer.patch_scale(DEPLOYMENT, "d", 3, namespace="default")
        assert cache.unconfirmed(DEPLOYMENT, "d", namespace="default")
        assert (await writer.get(DEPLOYMENT, "d", namespace="default"))["spec"]["replicas"] == 3
