"""Variables and credentials reach the local Terraform engine, and are seen nowhere else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.api import Resource
from tests.cloud.instance.harness import instance
from tests.cloud.instance.local_harness import LocalHarness, local_harness

pytestmark = pytest.mark.criterion("H-B10")

SECRET = "s3cr3t-of-the-cloud"
IN_FILE = "t0ken-in-the-file"
MODULE = {"source": "./none", "outputs": ["address"]}
Make = Callable[..., AbstractAsyncContextManager["LocalHarness"]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A harness whose runs have a file with credentials."""
    credentials = tmp_path / "credentials"
    credentials.write_text(f"# of the cloud\n\nFROM_FILE={IN_FILE}\n")

    def start(**environment: str) -> AbstractAsyncContextManager[LocalHarness]:
        runs = {"environment_file": credentials}
        return local_harness(tmp_path, runs=runs, environment=environment)

    return start


def with_secret(*sources: dict[str, Any]) -> dict[str, Any]:
    terraform = {"terraform": {"module": MODULE}, "environmentFrom": list(sources)}
    return instance(infrastructure=terraform)


CLOUD = {"secretRef": {"name": "cloud"}}
VARIABLES = {"secretRef": {"name": "variables"}, "prefix": "TF_VAR_"}


@pytest.fixture
async def seen(make: Make, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """What the binary was given."""
    async with make() as harness:
        await harness.give_secret("cloud", GOOGLE_CREDENTIALS=SECRET)
        await harness.give_secret("variables", size="3")
        await harness.apply(with_secret(CLOUD, VARIABLES))
        found = await harness.until("InstanceTerraform", is_ready, timeout=90)
        assert found.status.outputs == {"address": "<address>"}
        yield json.loads((tmp_path / "mark").read_text())
        assert_unseen(tmp_path, json.dumps(found.to_manifest()))


async def test_h_b10_secrets_and_the_file_become_variables(seen: dict[str, str]) -> None:
    assert seen["GOOGLE_CREDENTIALS"] == SECRET
    assert seen["TF_VAR_size"] == "3"
    assert seen["FROM_FILE"] == IN_FILE


async def test_h_b10_what_terraform_prints_of_them_is_hidden(make: Make, tmp_path: Path) -> None:
    async with make(STAND_IN="leak") as harness:
        await harness.give_secret("cloud", GOOGLE_CREDENTIALS=SECRET)
        await harness.apply(with_secret(CLOUD))
        found = await harness.until("InstanceTerraform", has_failed, timeout=90)
        assert "Invalid credentials: *** and ***" in found.status.run.message
        owner = await harness.there("Instance")
        assert_unseen(tmp_path, json.dumps([found.to_manifest(), owner.to_manifest()]))


async def test_h_b10_a_missing_secret_is_named(make: Make) -> None:
    async with make() as harness:
        await harness.apply(with_secret(CLOUD))
        found = await harness.until("InstanceTerraform", has_failed, timeout=90)
        assert found.status.run.outcome == "Rejected"
        assert "not given the Secret 'cloud'" in found.status.run.message


async def test_h_b10_a_key_that_is_no_variable_is_named(make: Make) -> None:
    async with make() as harness:
        await harness.give_secret("cloud", **{"key.json": SECRET})
        await harness.apply(with_secret(CLOUD))
        found = await harness.until("InstanceTerraform", has_failed, timeout=90)
        assert "key 'key.json' of Secret 'cloud' cannot be a variable" in found.status.run.message


@pytest.mark.criterion("S-F14")
async def test_s_f14_a_refused_variable_is_named_by_the_instance(make: Make) -> None:
    async with make() as harness:
        await harness.give_secret("cloud", TERRAFORM_STATE_DIR=SECRET)
        await harness.apply(with_secret(CLOUD))
        await harness.until("InstanceTerraform", has_failed, timeout=90)
        found = await harness.until("Instance", names_it)
        assert SECRET not in json.dumps(found.to_manifest())


def names_it(found: Resource[Any, Any] | None) -> bool:
    """Whether a condition names the variable and what to do."""
    said = [] if found is None else [each.message for each in found.status.conditions]
    return any(
        "key 'TERRAFORM_STATE_DIR' of Secret 'cloud'" in m and "remove it" in m for m in said
    )


def is_ready(found: Resource[Any, Any] | None) -> bool:
    return bool(found is not None and found.status.phase == "Ready")


def has_failed(found: Resource[Any, Any] | None) -> bool:
    return bool(found is not None and found.status.run and found.status.run.state == "Done")


def assert_unseen(folder: Path, *texts: str) -> None:
    """No value is in a status, a log, or the folder of a run that has ended."""
    kept = [
        *folder.glob("*.log"),
        *(path for path in (folder / "runs").rglob("*") if path.is_file()),
    ]
    assert any(path.name == "log" for path in kept)
    found = [*texts, *(path.read_text(errors="replace") for path in kept)]
    for value in (SECRET, IN_FILE):
        assert not [text for text in found if value in text]
