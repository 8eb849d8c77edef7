"""`ctrlruntime dev`: changed code runs on the caches that are filled, and a broken change stops nothing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cli import dev_passes, dev_stall
from ctrlruntime.client.errors import APIError
from ctrlruntime.controller import ControllerOptions
from ctrlruntime.manager import ManagerOptions
from tests.cli.dev_support import CODE, CONFIG_MAP, HEAD, PROBE, VERSION_2, Development, developing
from tests.support.waiting import eventually

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

CHANGES = {
    "reconcile": (),
    "index": (("return [entry.name]", "return [entry.name, 'x']"),),
    "predicate": (('named("copy")', 'named("copy").event_filter(lambda event: True)'),),
    "workers": (
        ('named("copy")', 'named("copy").options(ControllerOptions(max_concurrent_reconciles=3))'),
    ),
    "name": (('named("copy")', 'named("other")'),),
    "a second controller": (
        (
            "    builder.build(reconcile)\n",
            "    builder.build(reconcile)\n    Builder(manager).for_(CONFIG_MAP).named('b').build(reconcile)\n",
        ),
    ),
}
"""Edits besides that of the version."""


def reads(dev: Development, since: object) -> list[str]:
    """Return the lists and watches that the manager sent since a mark."""
    entries = dev.environment.proxy.log.entries(since)  # type: ignore[arg-type]
    return [f"{each.verb} {each.resource}" for each in entries if each.verb in ("list", "watch")]


@pytest.mark.criterion("D-10")
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
async def test_changed_code_runs_on_the_cache_that_is_filled(
    tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    async with developing(tmp_path, objects=5000) as dev:
        await dev.make_probe()
        await dev.version("1")
        informers = dev.session.manager.cache.informers()
        mark = dev.environment.proxy.log.mark()
        dev.edit(VERSION_2, *changes)
        await dev.version("2")
        assert reads(dev, mark) == []
        assert dev.session.manager.cache.informers() == informers
        assert ("1", "probe") not in PROBE.passes[PROBE.passes.index(("2", "probe")) :]


REFUSED = "ARGUMENTS = dict(rules=[CEL('self.absent == 1')], group='example.com', version='v1')\n"
BROKEN = {
    "syntax": ("VERSION = (", "SyntaxError: '(' was never closed"),
    "import": ("raise LookupError('no such thing')", "LookupError: no such thing"),
    "missing": ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
    "exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "setup": ("def setup(manager): raise KeyError('x')", "KeyError: 'x'"),
    "no setup": ("del setup", "has no function setup: write `def setup(manager: Manager)"),
    "async setup": ("async def setup(manager): 1 / 0", "ZeroDivisionError"),
    "generator": (
        "def setup(manager):\n    def pages(request): yield\n    Builder(manager).for_(CONFIG_MAP).build(pages)",
        "is a generator",
    ),
    "kind": ("class X(Resource[ApiModel, ApiModel], group='x', version='v1'): pass", "DNS name"),
    "index": (
        "def setup(manager): manager.cache.declare(CONFIG_MAP, indexes={'name': len}); 1 / 0",
        "ZeroDivisionError",
    ),
    "other selection": (
        "def setup(manager): manager.cache.declare(CONFIG_MAP, labels={'a': 'b'}); 1 / 0",
        "ZeroDivisionError",
    ),
    "field manager": (
        "def setup(manager): manager.cache.declare(CONFIG_MAP, track_manager='b')",
        "this change needs a restart",
    ),
    "metric": (
        "import prometheus_client\nprometheus_client.Counter('dev_broken', '')\n1 / 0",
        "ZeroDivisionError",
    ),
    "server": (
        f"{REFUSED}class Bad(Resource[ApiModel, NoStatus], **ARGUMENTS): pass",
        "absent == 1",
    ),
}
"""Lines at the end of the module, and what is shown of them."""


@pytest.mark.criterion("D-11")
@pytest.mark.parametrize(("lines", "shown"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_change_is_shown_and_the_former_code_runs_on(
    tmp_path: Path, lines: str, shown: str
) -> None:
    async with developing(tmp_path) as dev:
        if "track_manager" in lines:
            dev.session.manager.cache.declare(CONFIG_MAP, track_manager="a")
        informers = dev.session.manager.cache.informers()
        dev.file.write_text(f"{CODE}\n{lines}\n")
        await dev.attempted(2)
        assert shown in dev.output.getvalue()
        assert "not loaded: the former code runs on" in dev.output.getvalue()
        assert dev.session.manager.cache.informers() == informers
        await dev.make_probe()
        await dev.version("1")
        dev.file.write_text(CODE.replace(*VERSION_2))
        await dev.version("2")


async def test_code_that_is_broken_at_the_start_is_waited_for(tmp_path: Path) -> None:
    async with developing(tmp_path, "import helper_of_start\n" + CODE) as dev:
        assert "No module named 'helper_of_start'" in dev.output.getvalue()
        await dev.make_probe()
        (tmp_path / "helper_of_start.py").touch()
        await dev.version("1")


@pytest.mark.criterion("D-12")
async def test_a_reconcile_in_progress_ends_with_the_former_code_and_none_runs_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev_passes, "LONG", 0.0)
    async with developing(tmp_path) as dev:
        PROBE.held.add("1")
        await dev.make_probe()
        await eventually(lambda: PROBE.inside)
        dev.fill(1)
        dev.edit(VERSION_2)
        await eventually(lambda: ("2", "other-0") in PROBE.passes)  # other objects do not wait
        assert ("2", "probe") not in PROBE.passes
        await eventually(lambda: dev.output.getvalue().count("still at work on default/probe") == 1)
        dev.edit(('VERSION = "2"', 'VERSION = "3"'))
        await dev.attempted(3)
        PROBE.held.clear()
        await dev.version("3")
        assert PROBE.most == 1
        assert [state.name for state in dev.session.manager.metrics.queue_states()] == ["copy"]


@pytest.mark.criterion("D-12")
async def test_a_controller_without_a_successor_ends_before_the_new_code_begins(
    tmp_path: Path,
) -> None:
    async with developing(tmp_path) as dev:
        PROBE.held.add("1")
        await dev.make_probe()
        await eventually(lambda: PROBE.inside)
        dev.edit(VERSION_2, ('named("copy")', 'named("renamed")'))
        await eventually(lambda: "waiting for" in dev.output.getvalue())
        PROBE.held.clear()
        await dev.version("2")
        assert PROBE.most == 1


STUCK = {
    "a reconcile": ("await PROBE.enter(VERSION, request)", "while PROBE.stalls(VERSION): pass"),
    "a module": ("def by_name", "while PROBE.stalls(VERSION): pass\ndef by_name"),
}


@pytest.mark.criterion("D-15")
@pytest.mark.parametrize("stuck", STUCK.values(), ids=STUCK)
async def test_code_that_does_not_yield_is_shown_and_a_changed_file_interrupts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: tuple[str, str]
) -> None:
    monkeypatch.setattr(dev_stall, "SHOWN_AFTER", 0.5)
    async with developing(tmp_path) as dev, dev.session.stall_watch().running():
        await dev.make_probe()
        await dev.version("1")

        def mend() -> None:
            while "(while PROBE.stalls(VERSION): pass)" not in dev.output.getvalue():
                assert not PROBE.stalled
                time.sleep(0.01)
            dev.edit((stuck[1], stuck[0]), ('"2"', '"3"'))

        mending = asyncio.create_task(asyncio.to_thread(mend))
        await asyncio.sleep(0)  # the thread starts before the loop stands still
        dev.edit(VERSION_2, stuck)
        await dev.version("3")
        await mending
        assert f" stands still at {dev.file.name}:" in dev.output.getvalue()
        assert "interrupted: it did not yield to the event loop" in dev.output.getvalue()


KIND = (
    HEAD
    + """
class WidgetSpec(ApiModel):
    size: int = 1

class WidgetStatus(ApiModel):
    seen: str = ""

class Widget(Resource[WidgetSpec, WidgetStatus], group="dev.example.com", version="v1"):
    pass

def setup(manager):
    async def reconcile(widget):
        seen = repr(widget.spec.model_dump())
        if widget.status.seen != seen:
            await manager.client.patch_status(
                Widget, widget.metadata.name, {"status": {"seen": seen}}, namespace=widget.metadata.namespace
            )
    Builder(manager).for_(Widget).build(as_reconciler(manager.client, Widget, reconcile))
"""
)


@pytest.mark.criterion("D-13")
async def test_a_changed_kind_is_installed_and_its_objects_are_read_by_the_new_class(
    tmp_path: Path, api_server: str, request: pytest.FixtureRequest
) -> None:
    environment = None
    if api_server != "embedded":
        environment = request.getfixturevalue("real_server").environment(proxy=True)
    async with developing(tmp_path, KIND, environment=environment) as dev:
        kind = GroupVersionKind("dev.example.com", "v1", "Widget")
        widget = {
            "apiVersion": "dev.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {},
        }
        await dev.client.create(widget)

        async def seen() -> str:
            found = await dev.client.get(kind, "w", namespace="default")
            return str((found.get("status") or {}).get("seen"))

        await eventually(seen, lambda text: text == "{'size': 1}")
        mark = dev.environment.proxy.log.mark()
        dev.edit(("size: int = 1", 'size: int = 1\n    colour: str = "red"'))
        await eventually(seen, lambda text: "'colour': 'red'" in text)
        assert (
            "widgets.dev.example.com: the changed definition is installed" in dev.output.getvalue()
        )
        crd = await dev.client.get(CRD, "widgets.dev.example.com")
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert "colour" in schema["properties"]["spec"]["properties"]
        assert [each for each in reads(dev, mark) if each.startswith("list")] == []
        await dev.client.delete(CRD, "widgets.dev.example.com")


@pytest.mark.criterion("D-11")
async def test_a_kind_under_another_name_is_refused_at_once(tmp_path: Path) -> None:
    async with developing(tmp_path, KIND) as dev:
        dev.edit(('version="v1"', 'version="v1", plural="widgetry"'))
        await dev.attempted(2)
        assert "its kind is installed as widgets.dev.example.com" in dev.output.getvalue()
        assert "this change needs a restart" in dev.output.getvalue()


CHECKED = KIND.replace(
    "    pass\n",
    """    @validates("create")
    def check(self, review):
        raise ValueError("first words")
""",
    1,
).replace("def setup(manager):\n", "def setup(manager):\n    manager.webhooks.register(Widget)\n")
"""A kind of which no object is accepted."""


@pytest.mark.criterion("D-13")
async def test_a_changed_webhook_answers_and_one_that_is_broken_changes_nothing(
    tmp_path: Path,
) -> None:
    widget = {
        "apiVersion": "dev.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {},
    }
    async with developing(tmp_path, CHECKED) as dev:

        async def refusal() -> str:
            with pytest.raises(APIError) as caught:
                await dev.client.create(widget)
            return str(caught.value)

        await eventually(refusal, lambda text: "first words" in text)
        dev.edit(("first words", "other words"), ("def setup", "1 / 0\ndef setup"))
        await dev.attempted(2)
        assert "first words" in await refusal()
        dev.edit(("1 / 0\n", ""))
        await eventually(refusal, lambda text: "other words" in text)


WRITES = (
    HEAD
    + """
def setup(manager):
    async def reconcile(request):
        ns = request.namespace
        if request.name == "probe":
            await create_or_patch(
                manager.live_client, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": ns}},
                lambda secret: secret.update(stringData={"password": "hunter2"}),
            )
            await manager.client.patch(CONFIG_MAP, "probe", {"data": {"a": "new\\x1b[31m"}}, namespace=ns)
            raise TerminalError("enough")
    Builder(manager).for_(CONFIG_MAP).named("copy").build(reconcile)
"""
)
"""Writes a Secret and a ConfigMap, and fails."""


@pytest.mark.criterion("D-14")
async def test_a_reconcile_is_shown_with_cause_requests_changes_and_error(tmp_path: Path) -> None:
    async with developing(tmp_path, WRITES, objects=20) as dev:
        await dev.make_probe()
        await eventually(lambda: "failed: TerminalError: enough" in dev.output.getvalue())
        text = dev.output.getvalue()
        line = next(line for line in text.splitlines() if line.startswith("copy default/probe"))
        assert line.endswith(" ms, 3 requests; cause: ConfigMap default/probe created")
        assert "  create secrets default/s: 201\n" in text
        assert "    + stringData.password: '***'" in text
        assert "  patch configmaps default/probe: 200\n    + data" in text
        assert "hunter2" not in text
        assert "\x1b" not in text
        await eventually(
            lambda: "20 reconciles of listed objects: nothing to do" in dev.output.getvalue()
        )


@pytest.mark.criterion("D-15")
async def test_nothing_is_elected_and_no_time_limit_ends_a_reconcile(tmp_path: Path) -> None:
    options = ManagerOptions(
        name="dev",
        leader_election=True,
        leader_election_id="dev",
        leader_election_namespace="default",
        controller=ControllerOptions(reconciliation_timeout=0.01, cache_sync_timeout=0.01),
    )
    own = 'named("copy").options(ControllerOptions(reconciliation_timeout=0.01))'
    async with developing(tmp_path, CODE.replace('named("copy")', own), options=options) as dev:
        PROBE.held.add("1")
        await dev.make_probe()
        await eventually(lambda: PROBE.inside)
        dev.fill(30)
        await eventually(lambda: dev.session.manager.cached_objects == 31)
        PROBE.held.clear()
        await dev.version("1")
        assert "ReconcileTimeout" not in dev.output.getvalue()
        leases = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
        assert await dev.client.list(leases) == []
