"""What the program deletes, it deletes with a permit; scratch is listed in one place; permits come from the gate."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("internal", "manager", "ctrlruntime/lifecycle")
DELETES = frozenset({"delete", "delete_collection"})
REMOVALS = (".delete", ".release")
"""How a removal is written: a part of each use."""
ELSEWHERE = {
    "internal/cloud/instance/lease_end.py": {"lease.delete"},
    "internal/cloud/instance/reconciler.py": {"lease.delete"},
    "internal/cloud/instance/teardown.py": {"children.delete"},
    "internal/cloud/instance/walk.py": {"self.children.delete"},
    "internal/cloud/taskdriver/deps.py": {"self.delete", "provider.delete"},
    "internal/cloud/taskdriver/ensure.py": {"provider.delete", "decision.delete", "resumed.delete"},
    "internal/cloud/tasks/terraform/hcp/engine.py": {"self._workspaces.delete"},
    "internal/cloud/tasks/terraform/hcp/workspaces.py": {"self._api.delete"},
    "manager/commands/ephemeral.py": {"all_.delete"},
}
"""Methods and flags of that name that are no client's: each removes with permits itself, or outside of Kubernetes."""
SCRATCH = "internal/scratch.py"
GRANTS = {"ctrlruntime/gate/gate.py", "ctrlruntime/gate/permit.py"}


def sources(*packages: str, words: Iterable[str]) -> Iterator[tuple[str, ast.Module]]:
    """Yield each module that has one of the words, with its path: few are worth a parse."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if any(each in (text := path.read_text()) for each in words):
                yield str(path.relative_to(ROOT)), ast.parse(text)


def is_removal(node: ast.Attribute) -> bool:
    """Return whether an attribute is a delete verb, or the release of a control."""
    if node.attr == "release":
        return ast.unparse(node.value).endswith("control")
    return node.attr in DELETES


def unpermitted(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each removal that gets no argument `permit`."""
    nodes = list(ast.walk(tree))
    calls = {each.func: each for each in nodes if isinstance(each, ast.Call)}
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not is_removal(node):
            continue
        call = calls.get(node)
        given = [] if call is None else [*call.args, *(each.value for each in call.keywords)]
        if not any(isinstance(each, ast.Name) and each.id == "permit" for each in given):
            yield node.lineno, ast.unparse(node)


def names(tree: ast.Module, called: str) -> Iterator[int]:
    """Yield the line of each use of a name."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Name) and node.id == called) or (
            isinstance(node, ast.alias) and node.name == called
        ):
            yield node.lineno


def test_every_delete_of_the_product_takes_a_permit() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, tree in sources(*PRODUCT, words=REMOVALS)
        for line, name in unpermitted(tree)
        if name not in ELSEWHERE.get(path, ())
    ]
    assert found == [], (
        "get a Permit: Control.remove, or remove_object and delete_permitted of ctrlruntime.resources"
    )


def test_the_exceptions_are_still_there() -> None:
    for path, allowed in ELSEWHERE.items():
        tree = ast.parse((ROOT / path).read_text())
        assert {name for _, name in unpermitted(tree)} >= allowed, path


@pytest.mark.parametrize(
    "source",
    [
        "await client.delete(POD, name)",
        "await self.control.delete(mapping, entry, owner)",
        "await cluster.live_client.delete_collection(POD)",
        "remove = client.delete",
        "await self.control.release(mapping, entry, owner, labels={}, annotations={})",
        "jobs.append(partial(control.delete, POD, entry))",
        "await control.delete(mapping, entry, owner, answer)",
    ],
)
def test_a_delete_without_a_permit_is_found(source: str) -> None:
    assert len(list(unpermitted(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    ["await control.delete(mapping, entry, owner, permit)", "x.delete(POD, permit=permit)"],
)
def test_a_delete_with_a_permit_passes(source: str) -> None:
    assert not list(unpermitted(ast.parse(source)))


def test_scratch_is_listed_in_one_place() -> None:
    made = {
        path
        for path, tree in sources(*PRODUCT, words=["Scratch"])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Scratch"
    }
    assert made == {SCRATCH}
    listed = dict(sources("internal", words=["Scratch"]))[SCRATCH]
    assert {ast.unparse(each) for each in ast.walk(listed) if isinstance(each, ast.ImportFrom)} >= {
        "from ctrlruntime.gate import Scratch"
    }


def test_permits_are_granted_by_the_gate_alone() -> None:
    trees = dict(sources("ctrlruntime/gate", words=["grant"]))
    trees |= sources("ctrlruntime", *PRODUCT, words=["ctrlruntime.gate.permit"])
    assert {path for path, tree in trees.items() if any(names(tree, "grant"))} == GRANTS
