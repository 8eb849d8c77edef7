"""`spec.version` and its former name, `sourcegraphVersion`: both are taken, and neither is lost."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import Instance, InstanceSpec, written_version
from ctrlruntime.client.errors import Invalid
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance

pytestmark = pytest.mark.criterion("U-21")
ROOT = Path(__file__).parents[3]
FORMER = "sourcegraphVersion"
PAGES = ("README.md", "docs", "config/samples", "charts", "manager", "examples")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[InstanceHarness]:
    async with InstanceHarness.start(tmp_path) as made:
        yield made


def named(**versions: str) -> dict[str, Any]:
    found = instance()
    found["spec"] = {k: v for k, v in found["spec"].items() if k != "version"} | versions
    return found


@pytest.mark.parametrize("name", ["version", FORMER])
async def test_either_name_is_rolled_out_and_kept(harness: InstanceHarness, name: str) -> None:
    await harness.apply(named(**{name: "5.1.0"}))
    ready = await harness.roll_out()
    assert (ready.status.version, ready.spec.wanted_version) == ("5.1.0", "5.1.0")
    await harness.apply(named(**{name: "5.2.0"}))
    assert await harness.upgrade("5.2.0")
    stored = await harness.client.get(Instance, "src-1", namespace=NAMESPACE)
    assert stored.spec.to_wire() == {**stored.spec.to_wire(), name: "5.2.0"}
    assert {"version", FORMER} & stored.spec.to_wire().keys() == {name}


async def test_the_other_name_for_the_same_version_changes_nothing(
    harness: InstanceHarness,
) -> None:
    await harness.apply(named(**{FORMER: "5.1.0"}))
    before = await harness.roll_out()
    await harness.apply(named(version="5.1.0"))
    after = await harness.until(
        "Instance", lambda item: item.status.observed_generation > before.metadata.generation
    )
    assert (after.spec.version, after.spec.sourcegraph_version) == ("5.1.0", None)
    assert after.status.phase == before.status.phase
    assert not await harness.upgrades()


@pytest.mark.parametrize(
    ("versions", "why"),
    [({"version": "5.1.0", FORMER: "5.2.0"}, "former name of version"), ({}, "is required")],
)
async def test_none_or_two_versions_are_refused(
    harness: InstanceHarness, versions: dict[str, str], why: str
) -> None:
    await harness.apply(named(version="5.1.0", **{FORMER: "5.1.0"}))
    with pytest.raises(Invalid, match=why):
        await harness.apply(named(**versions) | {"metadata": {"name": "b", "namespace": NAMESPACE}})
    with pytest.raises(ValueError, match="version"):
        InstanceSpec.model_validate(versions)


async def test_an_instance_has_a_spec(harness: InstanceHarness) -> None:
    bare = {key: value for key, value in instance().items() if key != "spec"}
    with pytest.raises(Invalid, match="spec is required"):
        await harness.apply(bare)


@pytest.mark.parametrize("names", [("version",), (FORMER,), ("version", FORMER)])
def test_commands_change_the_names_that_are_there(names: tuple[str, ...]) -> None:
    spec = InstanceSpec.model_validate(dict.fromkeys(names, "5.1.0"))
    assert spec.version_change("5.2.0") == dict.fromkeys(names, "5.2.0")
    assert written_version(spec.to_wire()) == "5.1.0"


def test_pages_and_samples_speak_no_companys_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for name in PAGES
        for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*.*"))
        if path.suffix in {".md", ".yaml", ".py", ".tpl", ".json"}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search("sourcegraph", line, re.IGNORECASE) and "former name" not in line
    ]
    assert not found
