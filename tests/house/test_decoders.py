"""JSON and YAML from outside are read by ctrlruntime.intake, which counts before it composes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ctrlruntime", "apis", "internal", "manager")
READERS = ("ctrlruntime/intake/", "ctrlruntime/envtest/")
"""The gate itself, and the server for tests."""
BARE = {"json": {"load", "loads"}, "yaml": {"compose", "parse", "load", "safe_load", "load_all"}}
"""Decoders without limits, by module; names that begin so count too. What orjson takes ends at its own depth."""
OWN = {
    "internal/cloud/runs/local/supervisor.py": "the plan of a run, which the manager wrote for it",
    "internal/tenancy/rendering/golang/tokens.py": "one text between quotes, of a template",
    "manager/demo/tenants.py": "samples of the checkout",
    "manager/commands/ephemeral.py": "a file that the command line names",
}
"""Where the bytes are not from outside."""


def bare_calls(source: str) -> Iterator[str]:
    """Yield the calls of decoders without limits."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if any(
                name.startswith(each) for each in BARE.get(module, ())
            ):
                yield f"{module}.{name}"
            case ast.ImportFrom(module=module, names=found) if module in BARE:
                yield from (f"{module}.{each.name}" for each in found if each.name in BARE[module])


@pytest.mark.criterion("S-H1")
def test_documents_from_outside_are_read_by_the_intake() -> None:
    found = {
        name: [*calls]
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if not (name := path.relative_to(ROOT).as_posix()).startswith(READERS)
        and (calls := [*bare_calls(path.read_text())])
    }
    assert found.keys() == OWN.keys(), "use read_json or read_yaml of ctrlruntime.intake"


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("import json\njson.loads(text)", ["json.loads"]),
        ("import yaml\nyaml.safe_load_all(text)", ["yaml.safe_load_all"]),
        ("import yaml\nyaml.load(text, yaml.CSafeLoader)", ["yaml.load"]),
        ("from json import loads", ["json.loads"]),
        ("import json\njson.dumps(value)", []),
    ],
)
def test_bare_decoders_are_found(source: str, calls: list[str]) -> None:
    assert [*bare_calls(source)] == calls
