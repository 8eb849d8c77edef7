"""What a real server (1.36) said about values, rules and CRDs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.envtest.schema.crd import validate_crd_schema
from ctrlruntime.envtest.schema.registry import SchemaRegistry
from ctrlruntime.json import Json

_FIXTURES = Path(__file__).parent / "fixtures"
REGISTRY = SchemaRegistry()


def _load(name: str) -> Json:
    return json.loads((_FIXTURES / f"{name}.json").read_bytes())


def _named(case: dict[str, Any]) -> str:
    return json.dumps(case.get("spec", case.get("name")))[:60]


def _verdict(schema: dict[str, Any], spec: object) -> list[list[str]]:
    compiled = REGISTRY.for_crd_version({"type": "object", "properties": {"spec": schema}})
    obj = {
        "apiVersion": "probe.example.com/v1",
        "kind": "Probe",
        "metadata": {"name": "x"},
        "spec": copy.deepcopy(spec),
    }
    compiled.prune(obj)
    compiled.drop_nulls(obj)
    compiled.default(obj)
    return sorted([cause.field, cause.type, cause.message] for cause in compiled.validate(obj))


_VALUES = _load("values")


@pytest.mark.parametrize("case", [c for c in _VALUES["cases"] if c["code"] != 400], ids=_named)
def test_values(case: dict[str, Any]) -> None:
    assert _verdict(_VALUES["schema"], case["spec"]) == sorted(case.get("causes", []))


_RULES = _load("rules")


@pytest.mark.parametrize("case", _RULES["cases"], ids=_named)
def test_rules(case: dict[str, Any]) -> None:
    assert _verdict(_RULES["schema"], case["spec"]) == sorted(case["causes"])


@pytest.mark.parametrize("case", _load("crds"), ids=_named)
def test_crds(case: dict[str, Any]) -> None:
    path = "spec.validation.openAPIV3Schema"
    found = validate_crd_schema(case["schema"], path)
    ours = sorted([cause.field, cause.type, cause.message] for cause in found)
    assert ours == case["causes"]
