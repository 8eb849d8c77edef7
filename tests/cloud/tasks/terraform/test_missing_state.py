"""What was built once and has another state now, or none: refused, whatever keeps the state, until a person decides."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from apis.cloud import TaskOperation
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client import Client
from ctrlruntime.envtest import Environment
from internal.cloud.labels import MISSING_STATE
from internal.cloud.tasks import TaskRejected, TaskResult
from internal.cloud.tasks.terraform.task import TerraformTask
from tests.cloud.servers.hcp import HCPServer
from tests.cloud.tasks.terraform.hcp_bench import HCPBench
from tests.cloud.tasks.terraform.test_local import REAL, real_bench, real_spec
from tests.cloud.tasks.workbench import Workbench

pytestmark = pytest.mark.criterion("G-C1")

SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]


class Keeper(Protocol):
    """A backend with the state of one instance."""

    async def run(self, operation: TaskOperation, given: Mapping[str, Any]) -> TaskResult: ...

    async def lose(self) -> None:
        """Delete the state."""

    async def empty(self) -> None:
        """Put a state in its place that describes nothing."""

    async def replace(self) -> None:
        """Put another state in its place, as a workspace or a folder that was made again."""


@dataclass
class Binary:
    """A real binary; `states` are in a folder, or in Secrets."""

    environment: dict[str, str]
    workbench: Workbench
    spec: dict[str, Any]

    async def run(self, operation: TaskOperation, given: Mapping[str, Any]) -> TaskResult:
        context = self.workbench.context(
            "terraform", self.spec, kind="InstanceTerraform", operation=operation
        )
        changed = replace(context, input=replace(context.input, **given))
        return await TerraformTask(self.environment).run(changed)

    async def read(self) -> dict[str, Any]:
        raise NotImplementedError

    async def write(self, state: dict[str, Any] | None) -> None:
        raise NotImplementedError

    async def lose(self) -> None:
        await self.write(None)

    async def empty(self) -> None:
        await self.write({**await self.read(), "resources": [], "outputs": {}})

    async def replace(self) -> None:
        await self.write({**await self.read(), "lineage": "0ddba11", "serial": 90})

    async def restore_older(self) -> None:
        state = await self.read()
        await self.write({**state, "serial": state["serial"] - 1})


@dataclass
class InFolder(Binary):
    states: Path

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.states.read_bytes())
        return found

    async def write(self, state: dict[str, Any] | None) -> None:
        if state is None:
            shutil.rmtree(self.states.parent)
        else:
            self.states.write_text(json.dumps(state))


@dataclass
class InSecret(Binary):
    client: Client

    async def read(self) -> dict[str, Any]:
        (secret,) = await self.client.list(SECRET, namespace="default", labels={"tfstate": "true"})
        data = gzip.decompress(base64.b64decode(secret["data"]["tfstate"]))
        found: dict[str, Any] = json.loads(data)
        return found

    async def write(self, state: dict[str, Any] | None) -> None:
        (secret,) = await self.client.list(SECRET, namespace="default", labels={"tfstate": "true"})
        name = secret["metadata"]["name"]
        if state is None:
            await self.client.delete(SECRET, name, namespace="default")
            return
        text = base64.b64encode(gzip.compress(json.dumps(state).encode())).decode()
        body = {"data": {"tfstate": text}}
        await self.client.patch(SECRET, name, body, namespace="default")


@dataclass
class InWorkspace:
    bench: HCPBench
    attempt: int = 0

    async def run(self, operation: TaskOperation, given: Mapping[str, Any]) -> TaskResult:
        self.attempt += 1
        method = self.bench.teardown if operation is TaskOperation.TEARDOWN else self.bench.apply
        return await method(attempt=self.attempt, **given)

    @property
    def workspaces(self) -> dict[str, Any]:
        return self.bench.server.fake_state.workspaces

    async def lose(self) -> None:
        self.workspaces.clear()

    async def empty(self) -> None:
        (workspace,) = self.workspaces.values()
        workspace.resources, workspace.outputs = 0, None

    async def empty_after_a_run(self) -> None:
        (workspace,) = self.workspaces.values()
        workspace.resources, workspace.outputs = 0, {}

    async def replace(self) -> None:
        (workspace,) = list(self.workspaces.values())
        self.workspaces.clear()
        self.workspaces["ws-again"] = replace(workspace, identity="ws-again", current=None)


@asynccontextmanager
async def keeper_of(name: str, folder: Path) -> AsyncIterator[Keeper]:
    if name == "workspace":
        async with HCPServer() as server:
            yield InWorkspace(HCPBench(server, Workbench(folder)))
        return
    local, module = real_bench(folder, REAL[0])
    spec = real_spec(module, 2)
    if name == "folder":
        states = local.states / "prod" / "acme" / "terraform.tfstate"
        yield InFolder(local.environment, local.workbench, spec, states)
        return
    async with Environment() as server:
        client = server.client("admin")
        environment = {**local.environment, "KUBE_CONFIG_PATH": str(server.kubeconfig("admin"))}
        del environment["TERRAFORM_STATE_DIR"]
        environment["TERRAFORM_STATE_NAMESPACE"] = "default"
        yield InSecret(environment, local.workbench, spec, client)


KEEPERS = ("folder", "secret", "workspace")
LOSSES = ("lose", "empty", "replace")


@pytest.fixture(params=KEEPERS)
async def keeper(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Keeper]:
    async with keeper_of(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=(TaskOperation.APPLY, TaskOperation.PLAN, TaskOperation.TEARDOWN))
def operation(request: pytest.FixtureRequest) -> TaskOperation:
    found: TaskOperation = request.param
    return found


async def built(keeper: Keeper) -> dict[str, Any]:
    """Build once; return what the driver puts into later runs."""
    first = await keeper.run(TaskOperation.APPLY, {})
    again = await keeper.run(TaskOperation.APPLY, recorded(first))
    assert "nothing to change" in again.message
    return recorded(again)


def recorded(result: TaskResult) -> dict[str, Any]:
    return {"built": True, "outputs": result.outputs, "record": result.record}


async def refused(keeper: Keeper, operation: TaskOperation, given: dict[str, Any]) -> list[str]:
    """The answers that the message of the refusal offers, each as an annotation's value."""
    with pytest.raises(TaskRejected) as caught:
        await keeper.run(operation, given)
    said = str(caught.value)
    assert "nothing was built or destroyed. Restore the state and run" in said
    assert "`manager instance retry acme -n prod`" in said
    command = rf"`kubectl annotate instance acme -n prod --overwrite {MISSING_STATE}=(\S+)`"
    return re.findall(command, said)


def answered(given: dict[str, Any], answer: str) -> dict[str, Any]:
    return {**given, "annotations": {MISSING_STATE: answer}}


@pytest.mark.parametrize("loss", LOSSES)
async def test_g_c1_what_was_built_has_no_other_state(
    keeper: Keeper, loss: str, operation: TaskOperation
) -> None:
    given = await built(keeper)
    await getattr(keeper, loss)()
    assert await refused(keeper, operation, given)
    # Of a release that recorded nothing but outputs, or only that a run succeeded:
    if loss == "lose":
        await refused(keeper, operation, {"outputs": given["outputs"]})
        await refused(keeper, operation, {"built": True})


async def test_g_c1_an_older_state_is_refused(tmp_path: Path, operation: TaskOperation) -> None:
    async with keeper_of("folder", tmp_path) as keeper:
        assert isinstance(keeper, InFolder)
        given = await built(keeper)
        await keeper.restore_older()
        answers = await refused(keeper, operation, given)
        assert answers[0].startswith("use-state-")
        if operation is TaskOperation.APPLY:
            again = await keeper.run(operation, answered(given, answers[0]))
            assert "nothing to change" in again.message


@pytest.mark.parametrize("content", ["", "\n", '{"version": 4, "serial": 0, "lineage": ""}'])
async def test_g_c1_an_empty_file_is_no_state(
    tmp_path: Path, content: str, operation: TaskOperation
) -> None:
    async with keeper_of("folder", tmp_path) as keeper:
        assert isinstance(keeper, InFolder)
        given = await built(keeper)
        keeper.states.write_text(content)
        await refused(keeper, operation, given)


async def test_g_c1_build_anew_counts_for_this_loss_alone(keeper: Keeper) -> None:
    given = await built(keeper)
    await keeper.lose()
    (answer,) = await refused(keeper, TaskOperation.APPLY, given)
    assert answer.startswith("build-anew-")
    for wrong in ("build-anew", answer[:-1], answer.replace("build-anew", "forget")):
        assert await refused(keeper, TaskOperation.APPLY, answered(given, wrong)) == [answer]
    anew = await keeper.run(TaskOperation.APPLY, answered(given, answer))
    assert "added" in anew.message
    await keeper.lose()
    again = answered(recorded(anew), answer)
    (other,) = await refused(keeper, TaskOperation.APPLY, again)
    assert other != answer


async def test_g_c1_forget_lets_go_and_leaves_what_is_there(keeper: Keeper) -> None:
    given = await built(keeper)
    await keeper.lose()
    (answer,) = await refused(keeper, TaskOperation.TEARDOWN, given)
    assert answer.startswith("forget-")
    result = await keeper.run(TaskOperation.TEARDOWN, answered(given, answer))
    assert "what was built stays" in result.message


async def test_g_c1_a_state_that_is_restored_goes_on(tmp_path: Path) -> None:
    async with keeper_of("folder", tmp_path) as keeper:
        assert isinstance(keeper, InFolder)
        given = await built(keeper)
        kept = keeper.states.parent.rename(tmp_path / "away")
        await refused(keeper, TaskOperation.TEARDOWN, given)
        kept.rename(keeper.states.parent)
        result = await keeper.run(TaskOperation.TEARDOWN, given)
        assert result.message == "0 added, 0 changed, 2 destroyed"


async def test_g_c1_a_teardown_that_was_cut_short_goes_on(keeper: Keeper) -> None:
    """The same state, later and empty: an earlier attempt destroyed everything."""
    given = await built(keeper)
    if isinstance(keeper, InWorkspace):
        await keeper.empty_after_a_run()
    else:
        assert isinstance(keeper, Binary)
        state = await keeper.read()
        await keeper.write({**state, "serial": state["serial"] + 1, "resources": [], "outputs": {}})
    await keeper.run(TaskOperation.TEARDOWN, given)
