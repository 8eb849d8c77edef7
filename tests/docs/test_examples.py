"""Public parts that no product module uses have an example, which test_commands runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, documents

pytestmark = pytest.mark.criterion("DX-6")

UNUSED = {
    "ctrlruntime.controller": ["ChannelSource", "Finalizers", "FuncSource", "InformerSource"],
    "ctrlruntime.queue.limiters": ["Bucket", "FastSlow", "ItemExponential", "MaxOf", "WithMaxWait"],
    "ctrlruntime.client": ["create_or_update", "create_or_patch"],
    "ctrlruntime.client.auth": ["CallbackAuth"],
}
"""Counterparts of controller-runtime and client-go: docs/decisions/public-parts.md says why they stay."""

PACKAGES = "docs/packages/"


def named_in_examples() -> set[str]:
    """Return the names that the Python examples of the packages' pages call."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    trees = (
        compile(block.text, block.document, "exec", flags)
        for document in documents()
        for block in blocks(document)
        if block.language == "python" and document.startswith(PACKAGES)
    )
    return {
        node.func.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


@pytest.mark.parametrize("module", UNUSED)
def test_every_public_part_is_used_in_an_example(module: str) -> None:
    assert sorted(set(UNUSED[module]) - named_in_examples()) == []


def test_the_registry_of_kinds_is_gone() -> None:
    assert not Path(ROOT / "ctrlruntime" / "api" / "registry.py").exists()
