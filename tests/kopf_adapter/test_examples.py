"""What each example folder of kopf shows, with handlers of our own: one test each, named after its number.

06 (peering) and 09 (its runner for tests) are what docs/coming-from-kopf.md lists as different.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ctrlruntime import kopf
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import APIError
from ctrlruntime.clock import monotonic
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.local_webhooks import LocalWebhooks

from .support import BOTH, KIND, Bench

pytestmark = pytest.mark.criterion("D-52")

OWN = {"suite": "examples"}
"""Labels of Pods of these tests: a real server may have those of others."""
POD = GroupVersionKind("", "v1", "Pod")


async def test_01_minimal_a_result_is_stored_in_the_status(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def create_fn(**_: Any) -> Any:
        return {"message": "hello world"}

    async with bench.operator():
        await bench.create()
        await bench.check_status(lambda status: status == {"create_fn": {"message": "hello world"}})


async def test_02_children_are_adopted(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def create_fn(body: kopf.Body, **_: Any) -> Any:
        child: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {}}
        kopf.adopt(child)
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["kind"], owner["controller"]) == (
            body.meta.uid,
            "KopfExample",
            True,
        )
        assert child["metadata"]["generateName"] == "a-"
        assert child["metadata"]["namespace"] == "default"
        assert child["metadata"]["labels"] == {"somelabel": "somevalue"}
        return {"children": [owner["uid"]]}

    async with bench.operator():
        made = await bench.create()
        uid = made["metadata"]["uid"]
        await bench.check_status(lambda status: status == {"create_fn": {"children": [uid]}})


async def test_03_exceptions_are_retried_as_they_say(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    @kopf.on.create("kopfexamples")
    def instant_failure(**_: Any) -> None:
        bench.calls.append("instant")
        raise kopf.PermanentError("Fail once and for all.")

    @kopf.on.create("kopfexamples")
    def eventual_success(retry: int, **_: Any) -> None:
        bench.calls.append(f"eventual {retry}")
        if retry < 2:
            raise kopf.TemporaryError("Expected.", delay=0.1)

    @kopf.on.create("kopfexamples", retries=3, backoff=0.1)
    def eventual_failure(**_: Any) -> None:
        bench.calls.append("failure")
        raise ValueError("Supposed to be recoverable.")

    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT, backoff=0.1)
    def instant_traceback(**_: Any) -> None:
        bench.calls.append("traceback")
        raise ValueError("Not recoverable here.")

    @kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.IGNORED)
    def ignored(**_: Any) -> None:
        bench.calls.append("ignored")
        raise ValueError("It does not matter.")

    @kopf.on.create("kopfexamples", timeout=0.3, backoff=0.2)
    def timed_out(**_: Any) -> Any:
        raise ValueError("For a while.")

    @kopf.on.update("kopfexamples")
    def updated(**_: Any) -> None:
        bench.calls.append("updated")

    expected = [
        "instant",
        "eventual 0",
        "eventual 1",
        "eventual 2",
        *["failure"] * 3,
        "traceback",
        "ignored",
    ]
    with caplog.at_level(logging.ERROR):
        async with bench.operator():
            await bench.create()
            await bench.check_calls(*expected)
            await eventually_holds(lambda: "timed_out' failed permanently" in caplog.text)
            await bench.patch({"spec": {"field": "other"}})
            await bench.check_calls(*expected, "updated")


async def test_04_events_are_recorded(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def create_fn(body: kopf.Body, **_: Any) -> None:
        kopf.event(body, type="SomeType", reason="Some", message="Some message")
        kopf.info(body, reason="Info", message="Some message")
        kopf.warn(body, reason="Warn", message="Some message")
        try:
            raise RuntimeError("Exception text.")
        except RuntimeError:
            kopf.exception(body, reason="Exc", message="Some exception:")

    async def found() -> set[tuple[str, str, str]]:
        kind = GroupVersionKind("events.k8s.io", "v1", "Event")
        items = await bench.client.list(kind, "default")
        own = [each for each in items if each["regarding"]["kind"] == "KopfExample"]
        return {(each["type"], each["reason"], each["note"]) for each in own}

    async with bench.operator():
        await bench.create()
        expected = {
            ("Normal", "Some", "Some message"),
            ("Normal", "Info", "Some message"),
            ("Warning", "Warn", "Some message"),
            ("Warning", "Exc", "Some exception: Exception text."),
        }
        assert await eventually_holds(lambda: _equals(found, expected))


async def _equals(read: Callable[[], Any], expected: object) -> bool:
    found = await read()
    assert found == expected, found
    return True


@BOTH
async def test_05_handlers_of_all_causes(bench: Bench) -> None:
    def calls(name: str) -> Callable[..., None]:
        def fn(**_: Any) -> None:
            bench.calls.append(name)

        fn.__name__ = name
        return fn

    for number in (1, 2):
        kopf.on.resume("kopfexamples")(calls(f"resumed{number}"))
        kopf.on.create("kopfexamples")(calls(f"created{number}"))
        kopf.on.delete("kopfexamples")(calls(f"deleted{number}"))
    kopf.on.update("kopfexamples")(calls("updated"))

    @kopf.on.field("kopfexamples", field="spec.field")
    def field_fn(old: Any, new: Any, diff: kopf.Diff, **_: Any) -> None:
        assert [tuple(item) for item in diff] == [
            ("add" if old is None else "change", (), old, new)
        ]
        bench.calls.append(f"{old} -> {new}")

    async with bench.operator():
        await bench.create()
        expected = ["created1", "created2", "None -> value"]
        await bench.check_calls(*expected)
        await bench.patch({"spec": {"field": "other"}})
        expected += ["updated", "value -> other"]
        await bench.check_calls(*expected)
        await bench.patch({"spec": {"more": 1}})
        expected += ["updated"]
        await bench.check_calls(*expected)
    writes = bench.writes()
    async with bench.operator():
        expected += ["resumed1", "resumed2"]
        await bench.check_calls(*expected)
        assert bench.writes() == writes, "a restart writes nothing"
        await bench.delete()
        await bench.check_gone()
        await bench.check_calls(*expected, "deleted1", "deleted2")


@BOTH
async def test_07_subhandlers_run_once_each(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def create_fn(spec: kopf.Spec, retry: int, **_: Any) -> None:
        bench.calls.append(f"main {retry}")
        for item in spec["items"]:

            @kopf.subhandler(id=item)
            async def create_item_fn(retry: int, item: str = item, **_: Any) -> Any:
                bench.calls.append(f"{item} {retry}")
                if item == "item2" and retry == 0:
                    raise kopf.TemporaryError("once", delay=0.1)
                return {"of": item}

    async with bench.operator():
        await bench.create()
        await bench.check_status(lambda status: "create_fn/item2" in status)
        await bench.check_calls("main 0", "item1 0", "item2 0", "main 1", "item2 1")


@BOTH
async def test_08_event_handlers_see_what_happens(bench: Bench) -> None:
    @kopf.on.event("kopfexamples")
    def event_fn_with_error(**_: Any) -> None:
        raise ValueError("Oops!")

    @kopf.on.event("kopfexamples")
    def normal_event_fn(event: kopf.RawEvent, **_: Any) -> None:
        bench.calls.append(f"{event['type']} {event['object']['metadata']['name']}")

    await bench.create("before")
    async with bench.operator():
        await bench.check_calls("None before")
        await bench.create()
        await bench.check_calls("None before", "ADDED a")
        await bench.patch({"spec": {"field": "other"}})
        await bench.check_calls("None before", "ADDED a", "MODIFIED a")
        await bench.delete()
        await bench.check_calls("None before", "ADDED a", "MODIFIED a", "DELETED a")
    assert bench.writes() == 0


@BOTH
async def test_10_builtins_have_handlers_too_and_the_records_are_in_configmaps(
    bench: Bench,
) -> None:
    tasks: dict[str, asyncio.Task[None]] = {}

    async def killer(name: str) -> None:
        await asyncio.sleep(0.1)
        await bench.client.delete(POD, name, namespace="default")

    @kopf.on.resume("pods", labels=OWN)
    @kopf.on.create("pods", labels=OWN)
    async def pod_in_sight(name: str, **_: Any) -> None:
        bench.calls.append(f"seen {name}")
        tasks[name] = asyncio.create_task(killer(name))

    @kopf.on.delete("pods", labels=OWN, optional=True)
    async def pod_deleted(**_: Any) -> None:
        bench.calls.append("never: it is optional")

    async with bench.operator():
        await bench.client.create(pod("p"))
        await bench.check_calls("seen p")
        await tasks["p"]
        assert bench.writes() == bench.writes("configmaps")


def pod(name: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name, **OWN}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase},
    }


FILTERS: dict[str, tuple[dict[str, Any], bool]] = {
    "label": ({"labels": {"somelabel": "somevalue"}}, True),
    "other label": ({"labels": {"somelabel": "another"}}, False),
    "label present": ({"labels": {"somelabel": kopf.PRESENT}}, True),
    "label absent": ({"labels": {"nonexistent": kopf.ABSENT}}, True),
    "label absent, but there": ({"labels": {"somelabel": kopf.ABSENT}}, False),
    "label by function": ({"labels": {"somelabel": lambda value, spec, **_: (value, spec["field"]) == ("somevalue", "value")}}, True),
    "annotation": ({"annotations": {"someannotation": "somevalue"}}, True),
    "annotation present": ({"annotations": {"someannotation": kopf.PRESENT}}, True),
    "annotation absent": ({"annotations": {"nonexistent": kopf.ABSENT}}, True),
    "annotation by function": ({"annotations": {"someannotation": lambda value, **_: False}}, False),
    "when": ({"when": lambda body, **_: body.spec["field"] == "value"}, True),
    "when not": ({"when": kopf.not_(lambda **_: True)}, False),
    "when any": ({"when": kopf.any_([lambda **_: False, lambda **_: True])}, True),
    "when all": ({"when": kopf.all_([lambda **_: False, lambda **_: True])}, False),
    "value": ({"field": "spec.field", "value": "value"}, True),
    "other value": ({"field": "spec.field", "value": "something-else"}, False),
    "field present": ({"field": "spec.field", "value": kopf.PRESENT}, True),
    "field missing": ({"field": "spec.nonexistent", "value": kopf.PRESENT}, False),
    "field absent": ({"field": "spec.nonexistent", "value": kopf.ABSENT}, True),
}  # fmt: skip


async def test_11_filters_select_handlers(bench: Bench) -> None:
    for name, (options, _) in FILTERS.items():

        @kopf.on.create("kopfexamples", id=name, param=name, **options)
        def created(param: str, **_: Any) -> None:
            bench.calls.append(param)

    @kopf.on.update("kopfexamples", field="spec.field", old="value", new="changed")
    def changed(old: str, new: str, **_: Any) -> None:
        bench.calls.append(f"{old} to {new}")

    @kopf.daemon("kopfexamples", field="spec.field", value="value")
    def daemon_with_field(stopped: kopf.DaemonStopped, **_: Any) -> None:
        bench.calls.append("daemon")
        while not stopped:
            stopped.wait(0.1)
        bench.calls.append("daemon stopped")

    expected = [name for name, (_, is_called) in FILTERS.items() if is_called]
    async with bench.operator():
        await bench.create()
        await bench.check_calls(*expected, "daemon")
        await bench.patch({"spec": {"field": "changed"}})
        await bench.check_calls(*expected, "daemon", "value to changed", "daemon stopped")


async def test_12_embedded_in_a_thread_of_another_program(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def create_fn(memo: kopf.Memo, name: str, **_: Any) -> None:
        bench.calls.append(memo.create_tpl.format(name=name))

    @kopf.on.delete("kopfexamples")
    def delete_fn(memo: kopf.Memo, name: str, **_: Any) -> None:
        bench.calls.append(memo["delete_tpl"].format(name=name))

    ready, stop = threading.Event(), threading.Event()
    memo = kopf.Memo(create_tpl="Hello, {name}!", delete_tpl="Good bye, {name}!")
    config = bench.environment.config("op")

    def kopf_thread() -> None:
        asyncio.run(kopf.operator(config=config, ready_flag=ready, stop_flag=stop, memo=memo))

    thread = asyncio.create_task(asyncio.to_thread(kopf_thread))
    assert await asyncio.to_thread(ready.wait, 30)
    await bench.create()
    await bench.check_calls("Hello, a!")
    await bench.delete()
    await bench.check_gone()
    stop.set()
    await thread
    await bench.check_calls("Hello, a!", "Good bye, a!")


async def test_13_hooks_of_the_operator(bench: Bench) -> None:
    @kopf.on.startup()
    async def simple(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
        settings.posting.enabled = False
        memo.lock = asyncio.Lock()
        bench.calls.append("startup")

    @kopf.on.startup()
    def retried(retry: int, **_: Any) -> None:
        bench.calls.append(f"retried {retry}")
        if retry < 2:
            raise kopf.TemporaryError("soon", delay=0.05)

    @kopf.on.cleanup()
    async def cleanup_fn(**_: Any) -> None:
        bench.calls.append("cleanup")

    @kopf.on.event("pods")
    async def pod_task(name: str, memo: kopf.Memo, **_: Any) -> None:
        async with memo.lock:
            bench.calls.append(name)

    started = ["startup", "retried 0", "retried 1", "retried 2"]
    async with bench.operator():
        assert bench.calls == started
        await bench.client.create(pod("p"))
        await bench.check_calls(*started, "p")
    assert bench.calls[-1] == "cleanup"
    with pytest.raises(kopf.NotOffered, match="take the handler away"):
        kopf.on.login()


@pytest.mark.parametrize("error", [kopf.PermanentError, kopf.NotOffered])
async def test_13_an_operator_whose_startup_fails_does_not_start(
    bench: Bench, error: type[Exception]
) -> None:
    @kopf.on.startup()
    def fails(**_: Any) -> None:
        raise error("Unable to start!")

    with pytest.raises(kopf.PermanentError, match="startup handler 'fails' failed"):
        async with bench.operator():
            pass


@BOTH
async def test_14_daemons_accompany_objects(bench: Bench) -> None:
    @kopf.daemon("kopfexamples")
    def background_sync(
        stopped: kopf.DaemonStopped, retry: int, patch: kopf.Patch, **_: Any
    ) -> None:
        if retry < 2:
            patch.status["message"] = f"Failed {retry + 1} times."
            raise kopf.TemporaryError("Simulated failure.", delay=0.05)
        bench.calls.append("sync")
        while not stopped:
            stopped.wait(10)
        bench.calls.append("sync stopped")

    @kopf.daemon("kopfexamples", cancellation_backoff=0.1, cancellation_timeout=5,
                 annotations={"someannotation": "somevalue"})  # fmt: skip
    async def background_async(stopped: kopf.DaemonStopped, **_: Any) -> None:
        bench.calls.append("async")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            bench.calls.append("async cancelled")
            raise

    async with bench.operator():
        await bench.create()
        await bench.check_calls("sync", "async")
        await bench.check_status(lambda status: status == {"message": "Failed 2 times."})
        await bench.patch({"metadata": {"annotations": {"someannotation": None}}})
        await bench.check_calls("sync", "async", "async cancelled")
        await bench.delete()
        await bench.check_gone()
        await bench.check_calls("sync", "async", "async cancelled", "sync stopped")


@BOTH
async def test_15_timers_ping_objects(bench: Bench) -> None:
    pings: list[float] = []

    @kopf.timer("kopfexamples", interval=0.1, idle=0.5)
    def sync_ping(spec: kopf.Spec, **_: Any) -> None:
        pings.append(monotonic())
        bench.calls.append(spec["field"])

    @kopf.timer("kopfexamples", interval=0.1, initial_delay=0.2)
    async def async_ping(retry: int, **_: Any) -> Any:
        if retry == 0:
            raise kopf.TemporaryError("at first", delay=0.01)
        return {"pinged": True}

    async with bench.operator():
        created = monotonic()
        await bench.create()
        await eventually_holds(lambda: len(pings) >= 2)
        assert pings[0] - created >= 0.5
        assert pings[1] - pings[0] >= 0.1
        await bench.check_status(lambda status: status == {"async_ping": {"pinged": True}})
        changed = monotonic()
        await bench.patch({"spec": {"field": "other"}})
        await eventually_holds(lambda: "other" in bench.calls)
        assert pings[bench.calls.index("other")] - changed >= 0.5


@BOTH
async def test_16_indices_are_filled_before_the_first_handler(bench: Bench) -> None:
    @kopf.index("pods", labels=OWN)
    def is_running(namespace: str, name: str, status: kopf.Status, **_: Any) -> Any:
        return {(namespace, name): status.get("phase") == "Running"}

    @kopf.index("pods", labels=OWN)
    async def by_label(labels: kopf.Labels, name: str, **_: Any) -> Any:
        return dict.fromkeys(labels.items(), name)

    @kopf.on.create("kex")
    def created(is_running: kopf.Index[tuple[str, str], bool], by_label: Any, **_: Any) -> Any:
        return {"pods": len(is_running), "labelled": list(by_label["app", "p1"])}

    @kopf.timer("kex", interval=0.05)
    def intervalled(is_running: Any, patch: kopf.Patch, **_: Any) -> None:
        patch.status["running"] = sorted(
            name for (_, name), values in is_running.items() if any(values)
        )

    names = [f"p{number}" for number in range(20)]
    for name in names:
        await bench.client.create(pod(name))
        status = {"status": {"phase": "Running" if name != "p3" else "Failed"}}
        await bench.client.patch_status(POD, name, status, namespace="default")
    await bench.create()
    async with bench.operator():
        await bench.check_status(
            lambda status: status.get("created") == {"pods": 20, "labelled": ["p1"]}
        )
        expected = sorted(set(names) - {"p3"})
        await bench.check_status(lambda status: status.get("running") == expected)
        await bench.client.delete(POD, "p1", namespace="default")
        expected.remove("p1")
        await bench.check_status(lambda status: status.get("running") == expected)


async def test_99_all_at_once(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def create_1(body: kopf.Body, **_: Any) -> Any:
        kopf.info(body, reason="AnyReason")
        return {"job1-status": 100}

    @kopf.on.create("kopfexamples", backoff=0.1)
    def create_2(retry: int, **_: Any) -> Any:
        bench.calls.append(f"create_2 {retry}")
        if not retry:
            raise ValueError("Whoops!")
        return {"job2-status": 100}

    @kopf.on.create("kopfexamples")
    async def create_pod(**_: Any) -> None:
        child = {key: value for key, value in pod("").items() if key != "status"}
        child["metadata"] = {}
        kopf.adopt(child)
        kopf.label(child, {"application": "kopf-example"})
        await bench.client.create(child)

    @kopf.on.field("kopfexamples", field="spec.lst")
    def update_lst(old: Any, new: Any, **_: Any) -> None:
        bench.calls.append(f"{old} -> {new}")

    @kopf.on.delete("kopfexamples")
    def delete(**_: Any) -> None:
        bench.calls.append("deleted")

    @kopf.on.event("pods", labels={"application": "kopf-example"})
    def example_pod_change(type: str | None, **_: Any) -> None:  # noqa: A002
        if type == "ADDED":
            bench.calls.append("pod")

    async with bench.operator():
        await bench.create()
        expected = ["create_2 0", "create_2 1", "pod"]
        await bench.check_calls(*expected)
        results = {"create_1": {"job1-status": 100}, "create_2": {"job2-status": 100}}
        await bench.check_status(lambda status: status == results)
        await bench.patch({"spec": {"lst": [1, 2]}})
        await bench.check_calls(*expected, "None -> [1, 2]")
        await bench.delete()
        await bench.check_gone()
        await bench.check_calls(*expected, "None -> [1, 2]", "deleted")


@BOTH
async def test_17_admission_handlers_allow_deny_and_change(bench: Bench) -> None:
    async with LocalWebhooks(bench.environment) as hooks:

        @kopf.on.startup()
        def config(settings: kopf.OperatorSettings, **_: Any) -> None:
            settings.admission.managed = "auto.kopf.dev"

        @kopf.on.validate("kex")
        def authhook(userinfo: Any, operation: str, warnings: list[str], **_: Any) -> None:
            bench.calls.append(f"{operation} by {userinfo['username']}")

        @kopf.on.validate("kex")
        def validate1(spec: kopf.Spec, dryrun: bool, **_: Any) -> None:
            if not dryrun and spec.get("field") == "wrong":
                raise kopf.AdmissionError("Meh! I don't like it. Change the field.")

        @kopf.on.validate("kex", field="spec.field", value="not-allowed")
        async def validate2(**_: Any) -> None:
            raise kopf.AdmissionError("I'm too lazy anyway. Go away!", code=455)

        @kopf.on.validate("kex", subresource="*")
        def validate3(
            subresource: str | None, spec: kopf.Spec, status: kopf.Status, **_: Any
        ) -> None:
            if subresource == "status" and status.get("field") != spec.get("field"):
                raise kopf.AdmissionError("status.field MUST be equal to spec.field!")

        @kopf.on.mutate("kex", labels={"somelabel": "somevalue"})
        def mutate1(patch: kopf.Patch, **_: Any) -> None:
            patch.spec["injected"] = 123
            patch.spec["items"] = None

        async with bench.operator(webhook=hooks.options):
            for kind in ("Validating", "Mutating"):
                name = GroupVersionKind(
                    "admissionregistration.k8s.io", "v1", f"{kind}WebhookConfiguration"
                )
                found = await bench.client.get(name, "auto.kopf.dev")
                await hooks.install(found | {"metadata": {"name": "auto.kopf.dev"}})
            made = await bench.create()
            assert made["spec"] == {"field": "value", "injected": 123}
            assert bench.calls == ["CREATE by admin"]
            with pytest.raises(APIError, match="I don't like it"):
                await bench.patch({"spec": {"field": "wrong"}})
            with pytest.raises(APIError, match="too lazy") as denied:
                await bench.patch({"spec": {"field": "not-allowed"}})
            assert denied.value.code == 455
            with pytest.raises(APIError, match="MUST be equal"):
                await bench.client.patch_status(
                    KIND, "a", {"status": {"field": "x"}}, namespace="default"
                )
            await bench.client.patch_status(
                KIND, "a", {"status": {"field": "value"}}, namespace="default"
            )


def test_what_is_not_offered_says_what_serves_instead() -> None:
    with pytest.raises(kopf.NotOffered, match="take the login handler away"):
        _ = kopf.ConnectionInfo
    with pytest.raises(kopf.NotOffered, match="WebhookServer"):
        _ = kopf.WebhookK3dServer
    with pytest.raises(kopf.NotOffered, match="for one kind each"):
        kopf.on.event()
    for name in ELSEWHERE.split():
        with pytest.raises(kopf.NotOffered, match="instead: "):
            getattr(kopf, name)


ELSEWHERE = """
    AiohttpSession AnnotationsDiffBaseStorage AnnotationsProgressStorage ConnectionInfo
    DaemonStoppingReason DiffBaseStorage EVERYTHING LogFormat LoginError MultiDiffBaseStorage
    MultiProgressStorage PatchFn ProgressRecord ProgressStorage SmartProgressStorage
    StatusDiffBaseStorage StatusProgressStorage WebhookAutoServer WebhookAutoTunnel
    WebhookClientConfig WebhookClientConfigService WebhookDockerDesktopServer WebhookFn
    WebhookK3dServer WebhookMinikubeServer WebhookNgrokTunnel WebhookServerProtocol
    build_object_reference build_owner_reference get_default_lifecycle get_default_registry
    lifecycles login_via_async_client login_via_client login_via_pykube login_with_kubeconfig
    login_with_service_account run run_tasks set_default_lifecycle spawn_tasks
"""
"""The names of kopf 1.45 that this package does not have."""
