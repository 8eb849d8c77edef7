"""What was handled is recorded: where, when, and what a kill, a failed write or a change of operator leaves of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from ctrlruntime import kopf
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Delay, Fail, Kill, Match

from .support import BOTH, Bench, definition, example

TYPED = {"type": "object", "properties": {"created": {"type": "string"}}}
WRITES = Match(user="op", verb="write")
HANDLERS = """
import os, signal
import kopf

def note(line):
    with open({log!r}, "a") as log:
        log.write(line + "\\n")
    return open({log!r}).read().split().count(line) == 1

@kopf.on.create("kopfexamples")
def one(**_):
    note("one")

@kopf.on.create("kopfexamples")
async def two(**_):
    if note("two") and {cut}:
        os.kill(os.getpid(), signal.SIGKILL)

@kopf.on.create("kopfexamples")
def three(**_):
    note("three")

@kopf.on.update("kopfexamples")
def updated(new, **_):
    note("updated")
"""


@pytest.fixture(params=["status", "configmaps"])
async def where(request: pytest.FixtureRequest, bench: Bench) -> str:
    if request.param == "configmaps":
        await bench.environment.install_crds(definition(TYPED))
    return str(request.param)


@pytest.mark.parametrize(
    ("kill", "nth", "expected"),
    [
        ("after", 1, "one two three"),
        ("after", 2, "one two three"),
        ("after", 3, "one two three"),
        ("before", 1, "one one two three"),
        ("before", 2, "one two two three"),
        ("in a handler", 0, "one two two three"),
    ],
)
@pytest.mark.criterion("D-51")
async def test_no_handler_runs_again_after_a_kill_once_it_is_recorded(
    bench: Bench, where: str, tmp_path: Path, kill: str, nth: int, expected: str
) -> None:
    log, file = tmp_path / "calls", tmp_path / "handlers.py"
    log.touch()
    file.write_text(HANDLERS.format(log=str(log), cut=kill == "in a handler"))
    kubeconfig = bench.environment.kubeconfig("op")
    command = [
        sys.executable,
        "-m",
        "ctrlruntime.kopf",
        "run",
        str(file),
        "--kubeconfig",
        str(kubeconfig),
    ]

    def start() -> ChildProcess:
        return ChildProcess.spawn(command, log=tmp_path / "log", env=dict(os.environ))

    process = start()
    if kill in ("before", "after"):
        rule = Kill(pid=process.pid, when="after" if kill == "after" else "before")
        bench.environment.proxy.add(rule, WRITES, nth=nth)
    await bench.create()
    assert await process.wait() == -9, process.log_tail()
    process = start()
    try:
        await eventually_holds(lambda: log.read_text().split() == expected.split())
        await bench.patch({"spec": {"field": "other"}})  # so that the end of creation is recorded
        expected += " updated"
        await eventually_holds(lambda: log.read_text().split() == expected.split())
    finally:
        await process.stop()


@pytest.mark.criterion("D-50")
async def test_records_of_many_objects_are_few_writes_and_go_with_them(
    bench: Bench, where: str
) -> None:
    @kopf.on.create("kopfexamples")
    async def created(**_: Any) -> Any:
        return "done"

    names = [f"n{number}" for number in range(60)]
    for name in names:
        await bench.create(name)
    slow = bench.environment.proxy.add(
        Delay(seconds=0.5), Match(user="op", verb="write", resource="configmaps"), times=1000
    )
    async with bench.operator():
        for name in names:
            await bench.check_status(lambda status: status == {"created": "done"}, name)
    bench.environment.proxy.remove(slow)
    writes = bench.writes()
    assert bench.writes("kopfexamples.kopf.dev/status") == 60
    assert writes <= 60 + (0 if where == "status" else 40), (
        "what comes while a write is under way is one write"
    )
    async with bench.operator():
        await bench.create("last")
        await bench.check_status(lambda status: status == {"created": "done"}, "last")
    assert bench.writes() == writes + (1 if where == "status" else 2), "none for the others"


@pytest.mark.criterion("D-50")
async def test_a_write_that_fails_is_repeated_and_the_handler_is_not(
    bench: Bench, where: str
) -> None:
    @kopf.on.create("kopfexamples")
    def created(**_: Any) -> Any:
        bench.calls.append("created")
        return "done"

    @kopf.on.create("kopfexamples")
    def second(**_: Any) -> None:
        bench.calls.append("second")

    @kopf.on.delete("kopfexamples")
    def deleted(**_: Any) -> None:
        bench.calls.append("deleted")

    bench.environment.proxy.add(Fail(code=500), WRITES, nth=1, times=3)
    async with bench.operator():
        await bench.create()
        await bench.check_status(lambda status: status == {"created": "done"})
        await bench.check_calls("created", "second")
        bench.environment.proxy.add(Fail(code=500), WRITES, nth=1, times=2)
        await bench.delete()
        await bench.check_gone()
        await bench.check_calls("created", "second", "deleted")


@pytest.mark.criterion("D-50")
@BOTH
async def test_what_kopf_has_handled_is_not_handled_again(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def created(**_: Any) -> None:
        bench.calls.append("created")

    @kopf.on.update("kopfexamples")
    def updated(diff: kopf.Diff, **_: Any) -> None:
        bench.calls.append(f"{diff[0].field} {diff[0].old} -> {diff[0].new}")

    left = example("left")
    essence: dict[str, Any] = {"spec": {"field": "before", "items": ["item1", "item2"]}}
    essence["metadata"] = {name: dict(left["metadata"][name]) for name in ("labels", "annotations")}
    left["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"] = orjson.dumps(
        essence
    ).decode()
    left["metadata"]["finalizers"] = ["kopf.zalando.org/KopfFinalizerMarker"]
    await bench.client.create(left)
    async with bench.operator():
        await bench.check_calls("('spec', 'field') before -> value")
        await bench.delete("left")
        await bench.check_gone("left")


@pytest.mark.criterion("D-50")
async def test_a_change_while_creation_is_retried_is_an_update(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def early(spec: kopf.Spec, **_: Any) -> None:
        bench.calls.append(f"early {spec['field']}")

    @kopf.on.create("kopfexamples")
    def late(retry: int, **_: Any) -> None:
        if retry < 1:
            raise kopf.TemporaryError("later", delay=1)
        bench.calls.append("late")

    @kopf.on.update("kopfexamples")
    def updated(spec: kopf.Spec, **_: Any) -> None:
        bench.calls.append(f"updated {spec['field']}")

    async with bench.operator():
        await bench.create()
        await bench.check_calls("early value")
        await bench.patch({"spec": {"field": "other"}})
        await bench.check_calls("early value", "late", "updated other")
