"""The project's own definitions and samples, applied with validation on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .runner import Kubectl

CONFIG = Path(__file__).parents[3] / "config"


@pytest.fixture
def definitions(kubectl: Kubectl) -> Iterator[Kubectl]:
    folder = str(CONFIG / "crd" / "bases")
    kubectl("apply", "-f", folder)
    kubectl("wait", "--for=condition=Established", "-f", folder, "--timeout=60s")
    yield kubectl
    kubectl("delete", "-f", folder)


@pytest.mark.criterion("KC-SAMPLES")
def test_definitions_and_samples(definitions: Kubectl) -> None:
    samples = str(CONFIG / "samples")
    dry = definitions("apply", "--dry-run=server", "-k", samples)
    assert "(server dry run)" in dry
    assert "created" in definitions("apply", "-k", samples)
    assert definitions.run("diff", "-k", samples).code == 0
    assert "tenantregistr" in definitions("get", "-k", samples)
    assert "FIELD" in definitions("explain", "tenantregistry.spec.source", "--recursive")
    definitions("apply", "--server-side", "--force-conflicts", "-k", samples)
    definitions("delete", "-k", samples)
