"""The recorder against the embedded API server: requirements HE-06 and HE-07."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import cast

import pytest

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import InternalError
from ctrlruntime.client.transport import Response
from ctrlruntime.events import EventOptions, EventRecorder
from ctrlruntime.events.recorder import EVENT, DropReason, EventType, reference
from tests.hostile.test_tokens_and_text import HARMLESS, HOSTILE

POD = GroupVersionKind("", "v1", "Pod")
SETTINGS: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "default", "uid": "u1", "resourceVersion": "7"},
    "data": {"not": "in the event"},
}
NODE: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u2"}}


class Drops:
    def __init__(self) -> None:
        self.counts: Counter[DropReason] = Counter()

    def dropped(self, reason: DropReason) -> None:
        self.counts[reason] += 1


class Requests:
    """An interceptor that counts writes of events and fails as many as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.verbs: list[str] = []

    async def __call__(self, call: Call, execute: Execute) -> Response:
        self.verbs.append(call.verb)
        if self.failures:
            self.failures -= 1
            raise InternalError("injected")
        return await execute(call)


@pytest.fixture
async def client(config: Config) -> AsyncIterator[Client]:
    async with Client.connect(config) as client:
        yield client


async def events(client: Client, namespace: str = "default") -> list[Manifest]:
    return await client.list(EVENT, namespace)


@pytest.mark.criterion("S-F19")
async def test_a_note_has_no_control_characters(client: Client) -> None:
    recorder = EventRecorder(client, "tests", instance="tests-1")
    recorder.event(SETTINGS, "Warning", "Broken", "Reconcile", HOSTILE)
    assert await recorder.flush(10)
    (event,) = await events(client)
    assert event["note"] == HARMLESS


@pytest.mark.criterion("HE-06")
async def test_the_second_equal_event_makes_a_series_of_two(client: Client) -> None:
    recorder = EventRecorder(client, "tests", instance="tests-1")
    recorder.event(SETTINGS, "Warning", "Broken", "Reconcile", "no such key")
    assert await recorder.flush(10)
    (event,) = await events(client)
    assert "series" not in event
    assert event["regarding"] == reference(SETTINGS)
    assert {name: event[name] for name in ("type", "reason", "action", "note")} == {
        "type": "Warning",
        "reason": "Broken",
        "action": "Reconcile",
        "note": "no such key",
    }
    assert (event["reportingController"], event["reportingInstance"]) == ("tests", "tests-1")
    for _ in range(5):
        recorder.event(SETTINGS, "Warning", "Broken", "Reconcile", "no such key")
    assert await recorder.flush(10)
    (event,) = await events(client)
    assert event["series"]["count"] >= 2
    await recorder.stop()
    (event,) = await events(client)
    assert event["series"]["count"] == 6


@pytest.mark.criterion("HE-06")
async def test_equal_events_in_one_go_cost_one_request(client: Client) -> None:
    requests = Requests()
    recorder = EventRecorder(client.intercepted(requests), "tests")
    for _ in range(3):
        for _ in range(50):
            recorder.event(SETTINGS, "Normal", "Ready", "Reconcile", "all is well")
        assert await recorder.flush(10)
    assert requests.verbs == ["create"]
    await recorder.stop()
    assert requests.verbs == ["create", "patch"]
    (event,) = await events(client)
    assert event["series"]["count"] == 150


@pytest.mark.criterion("HE-06")
async def test_failures_of_the_server_are_tried_again_up_to_the_limit(client: Client) -> None:
    drops, flaky = Drops(), Requests(failures=11)
    options = EventOptions(retry_delay=0.001)
    recorder = EventRecorder(client.intercepted(flaky), "tests", options=options, metrics=drops)
    recorder.event(SETTINGS, "Normal", "Ready", "Reconcile", "")
    assert await recorder.flush(10)
    assert len(flaky.verbs) == 12
    assert len(await events(client)) == 1
    flaky.failures, flaky.verbs = 1000, []
    recorder.event(SETTINGS, "Normal", "Other", "Reconcile", "")
    assert await recorder.flush(10)
    assert len(flaky.verbs) == 12
    assert drops.counts == {"gave_up": 1}
    await recorder.stop()


@pytest.mark.criterion("HE-06")
async def test_a_refusal_is_not_tried_again(client: Client) -> None:
    drops, requests = Drops(), Requests()
    recorder = EventRecorder(client.intercepted(requests), "tests", metrics=drops)
    elsewhere = {**SETTINGS, "metadata": {"name": "x", "namespace": "no-such-namespace"}}
    recorder.event(elsewhere, "Normal", "Ready", "Reconcile", "")
    assert await recorder.flush(10)
    assert requests.verbs == ["create"]
    assert drops.counts == {"refused": 1}
    await recorder.stop()


@pytest.mark.criterion("HE-05")
async def test_spam_and_a_full_queue_are_dropped_and_counted(client: Client) -> None:
    drops = Drops()
    options = EventOptions(queue_size=10)
    recorder = EventRecorder(client, "tests", options=options, metrics=drops)
    for index in range(30):
        recorder.event(SETTINGS, "Normal", f"Reason{index}", "Reconcile", "")
    assert drops.counts == {"spam": 5, "queue_full": 15}
    assert await recorder.flush(10)
    assert len(await events(client)) == 10
    await recorder.stop()
    recorder.event(SETTINGS, "Normal", "Late", "Reconcile", "")
    assert drops.counts["stopped"] == 1


@pytest.mark.criterion("HE-07")
async def test_events_of_cluster_scoped_objects_land_in_default(client: Client) -> None:
    recorder = EventRecorder(client, "tests")
    recorder.event(NODE, "Normal", "Up", "Start", "node is up", related=SETTINGS)
    assert await recorder.flush(10)
    await recorder.stop()
    (event,) = await events(client)
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2"}
    assert event["related"]["name"] == "settings"


async def test_recording_never_waits(config: Config) -> None:
    async with Client.connect(Config(host="http://127.0.0.1:9")) as nowhere:
        drops = Drops()
        recorder = EventRecorder(nowhere, "tests", metrics=drops)
        for index in range(2000):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{index}"}}
            recorder.event(pod, "Normal", "Ready", "Reconcile", "")
        async with asyncio.timeout(60):
            await recorder.stop(timeout=0.2)
        assert drops.counts["queue_full"] == 1000
        assert drops.counts["stopped"] == 1000


async def test_an_object_without_kind_is_refused(client: Client) -> None:
    recorder = EventRecorder(client, "tests")
    with pytest.raises(ValueError, match="apiVersion, kind and name"):
        recorder.event({"metadata": {}}, "Normal", "Ready", "Reconcile", "")
    await recorder.stop()


@pytest.mark.criterion("LV-8")
async def test_an_event_series_that_has_expired_on_the_server_is_created_again_with_its_count(
    client: Client,
) -> None:
    recorder = EventRecorder(client, "tests")
    recorder.event(SETTINGS, "Warning", "Broken", "Reconcile", "no such key")
    assert await recorder.flush(60)
    (event,) = await events(client)
    await client.delete(EVENT, event["metadata"]["name"], namespace="default")
    for _ in range(4):
        recorder.event(SETTINGS, "Warning", "Broken", "Reconcile", "no such key")
    await recorder.stop(60)
    (event,) = await events(client)
    assert event["series"]["count"] == 5


@pytest.mark.criterion("U-F3")
@pytest.mark.parametrize("name", ["x" * 253, "x" * 240, "system:x", "A.", ":", "a" * 238 + ".b"])
async def test_an_event_of_any_object_has_a_name_that_the_server_takes(
    client: Client, name: str
) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    recorder = EventRecorder(client, "tests")
    about = {**role, "metadata": {"name": name, "uid": "u"}}
    recorder.event(about, "Normal", "Made", "Make", "It was made.")
    assert await recorder.flush(10)
    (event,) = await events(client)
    assert event["regarding"]["name"] == name


@pytest.mark.criterion("U-F3")
@pytest.mark.parametrize(
    ("word", "kept"), [("R" * 300, "R" * 128), ("", "Unknown"), ("\ud800Lone", "Lone")]
)
async def test_words_that_the_server_refuses_are_made_to_fit(
    client: Client, word: str, kept: str
) -> None:
    recorder = EventRecorder(client, "tests")
    recorder.event(SETTINGS, cast("EventType", "Error"), word, word, f"note {word}")
    assert await recorder.flush(10)
    (event,) = await events(client)
    assert (event["type"], event["reason"][-len(kept) :]) == ("Warning", kept)
