"""The command: writes, prints, and notices drift."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from ctrlruntime.generate.cli import generate

MODULE = '''
from typing import Annotated
from pydantic import Field
from ctrlruntime.api import ApiModel, Resource
from ctrlruntime.generate import Rule, Webhook, rbac

class Spec(ApiModel):
    size: int = 1
    """How big."""

class Box(Resource[Spec], group="cli.example.com", version="v1", plural="boxes"):
    """A box."""

@rbac(Rule(groups=("",), resources=("pods",), verbs=("get",)))
class Controller: ...

RBAC = (Rule(groups=("",), resources=("pods",), verbs=("list",)),)
WEBHOOKS = (
    Webhook(name="v.cli.example.com", mutating=False, path="/v", groups=("cli.example.com",),
            versions=("v1",), resources=("boxes",)),
)
'''

CRD = "crd/bases/cli.example.com_boxes.yaml"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "boxapi").mkdir()
    (tmp_path / "boxapi" / "__init__.py").write_text("from .v1 import Box\n")
    (tmp_path / "boxapi" / "v1.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "boxapi"
    for name in ("boxapi", "boxapi.v1"):
        sys.modules.pop(name, None)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(generate, [str(argument) for argument in arguments])


def test_all_writes_every_manifest_below_the_output_directory(module: str, tmp_path: Path) -> None:
    out = tmp_path / "config"
    result = run("all", "--module", module, "--output-dir", out)
    assert result.exit_code == 0, result.output
    written = {str(path.relative_to(out)) for path in out.rglob("*.yaml")}
    assert written == {CRD, "rbac/role.yaml", "webhook/manifests.yaml"}
    role = yaml.safe_load((out / "rbac/role.yaml").read_text())
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    assert run("all", "--module", module, "--output-dir", out).output == ""


def test_one_command_for_each_sort(module: str, tmp_path: Path) -> None:
    for command, name in (
        ("crd", CRD),
        ("rbac", "rbac/role.yaml"),
        ("webhook", "webhook/manifests.yaml"),
    ):
        out = tmp_path / command
        assert run(command, "--module", module, "--output-dir", out).exit_code == 0
        assert [str(path.relative_to(out)) for path in out.rglob("*.yaml")] == [name]


def test_stdout_writes_nothing(module: str, tmp_path: Path) -> None:
    out = tmp_path / "config"
    result = run("crd", "--module", module, "--output-dir", out, "--stdout")
    assert yaml.safe_load(result.output)["metadata"]["name"] == "boxes.cli.example.com"
    assert not out.exists()


def test_check_fails_with_a_diff_and_writes_nothing(module: str, tmp_path: Path) -> None:
    out = tmp_path / "config"
    run("crd", "--module", module, "--output-dir", out)
    assert run("crd", "--module", module, "--output-dir", out, "--check").exit_code == 0
    path = out / CRD
    drifted = path.read_text().replace("How big.", "How small.")
    path.write_text(drifted)
    (out / "crd/bases/cli.example.com_crates.yaml").write_text("old\n")
    result = run("crd", "--module", module, "--output-dir", out, "--check")
    assert result.exit_code == 1
    assert "-                description: How small." in result.output
    assert "+                description: How big." in result.output
    assert "-old" in result.output
    assert "without --check" in result.output
    assert path.read_text() == drifted


def test_a_kind_that_is_no_more_takes_its_file_along(module: str, tmp_path: Path) -> None:
    out = tmp_path / "config"
    other = out / "crd/bases/cli.example.com_crates.yaml"
    foreign = out / "crd/bases/other.example.com_crates.yaml"
    other.parent.mkdir(parents=True)
    for path in (other, foreign):
        path.write_text("old\n")
    assert run("crd", "--module", module, "--output-dir", out).exit_code == 0
    assert not other.exists()
    assert foreign.exists()


def test_a_type_without_schema_is_an_error_that_names_the_field(
    module: str, tmp_path: Path
) -> None:
    source = tmp_path / "boxapi" / "v1.py"
    source.write_text(MODULE.replace("size: int = 1", "size: float = 1"))
    result = run("crd", "--module", module, "--stdout")
    assert result.exit_code == 1
    assert "Error: Box.spec.size: float is not portable" in result.output
    assert run("crd", "--module", module, "--stdout", "--allow-floats").exit_code == 0


def test_a_warning_is_printed_beside_the_manifests(module: str, tmp_path: Path) -> None:
    source = tmp_path / "boxapi" / "v1.py"
    text = 'size: Annotated[str, Field(json_schema_extra={"pattern": "(?=a)"})]'
    source.write_text(MODULE.replace("size: int = 1", text))
    result = run("crd", "--module", module, "--stdout")
    assert result.exit_code == 0
    assert "Warning: Box.spec.size: pattern" in result.stderr
    assert yaml.safe_load(result.stdout)


@pytest.mark.parametrize(
    ("name", "problem"), [("no.such.module", "No module named"), ("json", "nothing to generate")]
)
def test_a_module_without_declarations_is_an_error(name: str, problem: str) -> None:
    result = run("all", "--module", name, "--stdout")
    assert result.exit_code == 1
    assert problem in result.output
