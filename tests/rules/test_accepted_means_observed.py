"""Rule 4 of the design: whatever a CRD's schema lets in ends in a status of this generation.

Hypothesis makes objects from the CRDs alone. What the server accepts must be reconciled, or refused
by a condition that names what is wrong; nothing of it may end in a traceback.
The suite draws the same objects each time; `make rules` is the run in full, by a seed that it prints.
Objects that once failed are kept in `regressions/`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.rules.harness import Harness, crds, is_observed, mapping_of, verdicts
from tests.rules.samples import samples
from tests.rules.schema_objects import mutated, spec_of

FLEET = "fleet.ctrlruntime.dev"
REGRESSIONS = Path(__file__).with_name("regressions")
KINDS = sorted(kind for kind, crd in crds().items() if crd["spec"]["group"] != FLEET)
"""Those of the manager; `manager operator`, a program of its own, reconciles the FleetConfig: tests/fleet/operator."""
FULL = 100
"""From so many examples on, each run draws others."""


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The loop of server and manager; it runs while an example is checked."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module")
def harness(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    started = Harness.start(tmp_path_factory.mktemp("rules"))
    yield runner.run(started.__aenter__())
    runner.run(started.__aexit__(None, None, None))


def manifests(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy: samples with some fields changed, and objects that nothing but the schema shaped."""
    crd = crds()[kind]
    api_version = mapping_of(kind).gvk.api_version
    bare = st.fixed_dictionaries(
        {"apiVersion": st.just(api_version), "kind": st.just(kind), "spec": spec_of(crd)}
    )
    changed = st.one_of([mutated(crd, sample) for sample in samples()[kind]])
    return st.one_of(changed, changed, changed, bare)


async def check(harness: Harness, kind: str, manifest: dict[str, Any]) -> bool:
    """Assert the rule for one object. Returns False if the server refused it."""
    created = await harness.create(manifest)
    if created is None:
        return False
    mapping, name = mapping_of(kind), created["metadata"]["name"]
    logged = len(harness.log_text())
    live = await harness.settled(mapping, name)
    status = json.dumps(live.get("status"), indent=1)
    assert is_observed(live), f"the status is not of this generation: {status}"
    for condition in verdicts(live):
        assert condition["status"] == "True" or condition["message"], status
        if condition["reason"].startswith("Invalid"):
            assert names_a_field(condition["message"], mapping.gvk.kind), condition
    await harness.discard(mapping, name)
    log = harness.log_text()[logged:]
    assert "Traceback" not in log, log[-6000:]
    return True


def names_a_field(message: str, kind: str) -> bool:
    """Whether a message names a field of the spec, by its path or its name."""
    return any(field in message for field in fields_of(crds()[kind]))


def fields_of(schema: object) -> set[str]:
    """Return the names of all properties in a schema."""
    found: set[str] = set()
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            found |= set(schema["properties"]) - {
                "apiVersion",
                "kind",
                "metadata",
                "status",
                "spec",
            }
        for value in schema.values():
            found |= fields_of(value)
    elif isinstance(schema, list):
        for value in schema:
            found |= fields_of(value)
    return found


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.criterion("H-R1")
def test_what_a_crd_accepts_is_observed(
    kind: str, harness: Harness, runner: asyncio.Runner, request: pytest.FixtureRequest
) -> None:
    examples = int(request.config.getoption("--rule-examples"))
    accepted: list[bool] = []

    @settings(
        max_examples=examples,
        derandomize=examples < FULL,
        phases=[Phase.generate],  # an example is a sample with few changes already
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(manifest=manifests(kind))
    def holds(manifest: dict[str, Any]) -> None:
        accepted.append(runner.run(check(harness, kind, manifest)))
        assume(accepted[-1])  # what the server refused is no example

    holds()
    count = f"the server accepted {sum(accepted)} of {len(accepted)} objects drawn"
    assert sum(accepted) >= examples, count
    assert len(accepted) <= 4 * examples + 20, count  # 15 to 33 were drawn for 15


@pytest.mark.parametrize("file", sorted(REGRESSIONS.glob("*.json")), ids=lambda file: file.stem)
def test_what_once_was_not_observed(file: Path, harness: Harness, runner: asyncio.Runner) -> None:
    manifest = json.loads(file.read_text())
    runner.run(check(harness, manifest["kind"], manifest))
