"""What a test shows that fails: the object's conditions and events, errors of controllers, the right scope."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ctrlruntime import Builder, Client, GroupVersionKind, Request, TerminalError
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import consistently, eventually, eventually_gone
from tests.support.manager_harness import make_manager
from tests.support.pytest_runs import run_pytest
from tests.support.waiting import eventually as eventually_true

POD = GroupVersionKind("", "v1", "Pod")
WAYS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "eventually": lambda client: eventually(
        client, POD, "a", {"status": {"phase": "Running"}}, namespace="default", timeout=0.2
    ),
    "eventually_gone": lambda client: eventually_gone(
        client, POD, "a", namespace="default", timeout=0.2
    ),
    "consistently": lambda client: consistently(
        client, POD, "a", {"status": {"phase": "Running"}}, namespace="default"
    ),
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Yield a client of a server with a Pod that has a condition and an event, and a controller that fails."""
    async with Environment() as env:
        client = env.client()
        metadata = {"name": "a", "namespace": "default"}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        condition = {"type": "Ready", "status": "False", "reason": "Slow", "message": "pulling"}
        status = {"status": {"conditions": [condition]}}
        await client.patch_status(POD, "a", status, namespace="default")
        event = {
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
            "reason": "Odd",
            "message": "it is odd",
            "type": "Warning",
        }
        await client.create(
            {"apiVersion": "v1", "kind": "Event", "metadata": {**metadata}, **event}
        )
        manager = make_manager(env.config("manager"))
        failed: list[Request] = []

        async def fail(request: Request) -> None:
            failed.append(request)
            raise TerminalError("no such colour")

        Builder(manager).for_(POD).build(fail)
        async with manager.running():
            await eventually_true(lambda: failed)
            yield client


@pytest.mark.criterion("D-18")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_an_assertion_that_fails_shows_conditions_events_and_errors(
    client: Client, way: Callable[[Client], Awaitable[object]]
) -> None:
    with pytest.raises(AssertionError) as caught:
        await way(client)
    lines = str(caught.value).splitlines()
    assert "  condition Ready=False (Slow: pulling)" in lines
    assert "  event Warning (Odd: it is odd)" in lines
    assert "  controller pod failed for default/a: TerminalError: no such colour" in lines


@pytest.mark.criterion("D-18")
async def test_errors_that_are_over_are_not_shown() -> None:
    async with Environment() as env:
        with pytest.raises(AssertionError) as caught:
            await eventually(env.client(), POD, "a", namespace="default", timeout=0.1)
    assert str(caught.value) == "Pod default/a after 0.1 s:\n  there is no such object"


SUITE = """
import pytest
pytest_plugins = ["ctrlruntime.envtest.fixtures"]

@pytest.fixture(scope="module")
def wide({0}):
    pass

def test_it(wide):
    pass
"""
OPTIONS = """
import pytest
pytest_plugins = ["ctrlruntime.envtest.fixtures"]

@pytest.fixture
def envtest_options():
    return {}

def test_it(envtest):
    pass
"""
SCOPES = {
    "envtest_options": (OPTIONS, '@pytest.fixture(scope="session")'),
    "envtest_client": (SUITE.format("envtest_client"), "Client.connect(envtest.config())"),
    "namespace": (SUITE.format("namespace"), "or take `envtest`"),
    "proxy": (SUITE.format("proxy"), "Proxy(envtest.backend.url, envtest.proxy_options())"),
    "run_manager": (SUITE.format("run_manager"), 'Manager(envtest.config("manager"), options)'),
}


@pytest.mark.criterion("D-17")
def test_a_fixture_of_the_wrong_scope_shows_what_to_write(tmp_path: Path) -> None:
    for name, (suite, _) in SCOPES.items():
        (tmp_path / f"test_{name}.py").write_text(suite)
    _, output = run_pytest(tmp_path)
    for name, (_, instead) in SCOPES.items():
        part = output.split(f"test_{name}.py", 1)[-1]
        assert "what to write instead" in part
        assert instead in output, name
