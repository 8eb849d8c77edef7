"""Failures of reconciles in the log: tracebacks, names of objects, one configuration."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Literal

import pytest
import structlog
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Conflict, Invalid
from ctrlruntime.controller import Builder, TerminalError
from ctrlruntime.controller.worker import Tracebacks
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.manager.logs import REDACTED, default_logger, make_logger
from ctrlruntime.queue import Request
from ctrlruntime.queue.request import ObjectKey
from tests.manager.support import starting
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

from .support import A, B, Script, controller, running

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default"},
    "data": {"key": "aHVudGVyMg=="},
}


class Silent:
    """A value that must not be printed."""

    def __init__(self) -> None:
        self.printed = 0

    def __repr__(self) -> str:
        self.printed += 1
        return "secret local"


@pytest.mark.looptime
@pytest.mark.criterion("LV-7")
@pytest.mark.parametrize("error", [ValueError, RuntimeError, OSError, KeyError, TypeError])
async def test_lv_7_an_unexpected_exception_is_logged_with_its_traceback_once(
    error: type[Exception],
) -> None:
    local = Silent()

    async def fails() -> None:
        hidden = local  # noqa: F841 - a local variable, as a traceback with locals would print
        raise error(f"attempt of {asyncio.get_running_loop().time()} at {id(object()):#x}")

    with capture_logs() as logs:
        script = Script(*[fails] * 4)
        subject = controller(script)
        subject.queue.add(A)
        async with running(subject):
            await script.until(5)
    lines = [line for line in logs if line["event"] == "Reconciler error"]
    assert len(lines) == 4
    assert ["exception" in line for line in lines] == [True, False, False, False]
    assert "in fails" in lines[0]["exception"]
    assert error.__name__ in lines[0]["exception"]
    assert not [line for line in logs if "exc_info" in line]
    assert local.printed == 0


def caught(raiser: Callable[[], object]) -> Exception:
    try:
        raiser()
    except Exception as error:  # noqa: BLE001 - it is what the test is about
        return error
    raise AssertionError("nothing was raised")


def one() -> None:
    raise ValueError("one")


def two() -> None:
    raise ValueError("two")


def wrapped() -> None:
    try:
        one()
    except ValueError as error:
        raise RuntimeError("wrapped") from error


@pytest.mark.criterion("LV-7")
def test_lv_7_another_exception_another_object_and_a_success_are_changes() -> None:
    tracebacks = Tracebacks()
    first = caught(one)
    assert tracebacks.report(A, first) is not None
    assert tracebacks.report(A, caught(one)) is None
    assert tracebacks.report(A, first) is None
    assert tracebacks.report(B, caught(one)) is not None
    assert tracebacks.report(A, caught(two)) is not None
    text = tracebacks.report(A, caught(wrapped))
    assert text is not None
    assert "in one" in text
    assert tracebacks.report(A, caught(wrapped)) is None
    tracebacks.forget(A)
    assert tracebacks.report(A, caught(wrapped)) is not None


@pytest.mark.criterion("LV-7")
def test_lv_7_an_exception_raised_again_is_the_same() -> None:
    tracebacks, again = Tracebacks(), ValueError("kept")

    def raises() -> None:
        raise again

    found = [tracebacks.report(A, caught(raises)) for _ in range(3)]
    assert [text is not None for text in found] == [True, False, False]


@pytest.mark.criterion("LV-7")
@pytest.mark.parametrize(
    ("error", "logged"),
    [(TerminalError("no"), False), (Conflict("changed"), False), (Invalid("bad field"), True)],
)
def test_lv_7_expected_errors_have_no_traceback(error: Exception, logged: bool) -> None:
    assert (Tracebacks().report(A, error) is not None) is logged


@pytest.mark.criterion("LV-7")
def test_lv_7_a_deep_recursion_is_cut() -> None:
    def deeper(level: int) -> int:
        return deeper(level + 1) + (level if level % 2 else -level)

    text = Tracebacks().report(A, caught(lambda: deeper(0)))
    assert text is not None
    assert len(text.splitlines()) < 250


@pytest.mark.criterion("LV-7")
@pytest.mark.parametrize("format_", ["json", "console"])
def test_lv_7_names_of_objects_are_never_redacted(format_: Literal["json", "console"]) -> None:
    out = io.StringIO()
    request = Request("mine", namespace="default")
    logger = make_logger(stream=out, format=format_).bind(Secret=request.log_key())
    logger.info("Reconciled", token=request, secret={"kind": "Secret", "name": "mine"})
    logger.info("Applied", secret=SECRET)
    text = out.getvalue()
    assert REDACTED not in text
    assert text.count("mine") == 4
    assert "'name': 's'" in text.replace('"', "'").replace(":'", ": '")
    assert "aHVudGVyMg" not in text
    out.truncate(0)
    logger.info("Connecting", secret="hunter2", token="hunter2")
    assert "hunter2" not in out.getvalue()
    assert isinstance(request.log_key(), ObjectKey)


@pytest.mark.criterion("LV-7")
def test_lv_7_a_manager_without_a_logger_redacts(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the program has configured none: here the suite has."""
    configured = structlog.get_config()
    structlog.reset_defaults()
    try:
        default_logger().info("Connecting", token="hunter2")
    finally:
        structlog.configure(**configured)
    text = capsys.readouterr()
    assert "Connecting" in text.out + text.err
    assert "hunter2" not in text.out + text.err


@pytest.mark.criterion("LV-7")
@pytest.mark.parametrize("format_", ["json", "console"])
def test_lv_7_a_traceback_in_the_log_has_no_locals(format_: Literal["json", "console"]) -> None:
    """Those of user functions and of runnables are written by the log's renderer."""
    out, local = io.StringIO(), Silent()

    def fails() -> None:
        hidden = local  # noqa: F841 - as above
        raise ValueError("wrong")

    make_logger(stream=out, format=format_).error("Failed", exc_info=caught(fails))
    assert "in fails" in out.getvalue()
    assert local.printed == 0
    assert "secret local" not in out.getvalue()


@pytest.mark.criterion("LV-7")
async def test_lv_7_the_fields_of_a_controller_for_secrets_are_readable() -> None:
    out = io.StringIO()
    async with APIServer(ServerOptions()) as server:
        manager = make_manager(Config(host=server.url), logger=make_logger(stream=out))
        failed = asyncio.Event()

        async def reconcile(request: Request) -> None:
            failed.set()
            raise TerminalError("wrong")

        async with Client.connect(manager.config) as client:
            await client.create(SECRET)
        Builder(manager).for_(GroupVersionKind("", "v1", "Secret")).named("s").build(reconcile)
        async with manager.running():
            await asyncio.wait_for(failed.wait(), 60)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    (line,) = [each for each in lines if each["msg"] == "Reconciler error"]
    assert line["Secret"] == "default/s"
    assert (line["namespace"], line["name"], line["controller"]) == ("default", "s", "s")
    assert line["controllerKind"] == "Secret"
    assert line["reconcileID"]


@pytest.mark.criterion("LV-7")
async def test_lv_7_cache_client_and_manager_log_through_one_logger() -> None:
    out = io.StringIO()
    with capture_logs() as elsewhere:
        async with APIServer(ServerOptions()) as server:
            manager = make_manager(
                Config(host=server.url), logger=make_logger(stream=out, level="debug")
            )
            missing = GroupVersionKind("none.example.com", "v1", "Missing")
            manager.cache.declare(missing)
            manager.live_client.transport._on_warning("of the client")
            async with starting(manager):
                await eventually(out.getvalue, lambda text: "does not serve this kind" in text)
    assert "of the client" in out.getvalue()
    assert all(json.loads(line)["msg"] for line in out.getvalue().splitlines())
    assert not [line for line in elsewhere if line["log_level"] != "debug"]
