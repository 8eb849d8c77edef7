"""The stand-in for the terraform binary does what the real one does, as far as the task reads it: one suite over both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.criterion("C-22")

STAND_IN = (sys.executable, "-I", "-S", str(Path(__file__).parent / "stand_in.py"))
REAL = shutil.which("terraform")
MODULE = """
variable "size" {}
resource "terraform_data" "main" { input = var.size }
resource "terraform_data" "other" {}
output "address" { value = "here" }
output "password" {
  value     = "hush"
  sensitive = true
}
"""
PLAN = ("plan", "-json", "-input=false", "-detailed-exitcode", "-out=plan")
Lines = list[dict[str, Any]]


class Binary:
    """One binary in a folder with one module, of two resources."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.folder = folder
        self._command = command
        (folder / "module").mkdir()
        (folder / "module" / "main.tf").write_text(MODULE)
        self.configure(1)

    def configure(self, size: int) -> None:
        names = {"address": False, "password": True}
        document = {
            "terraform": {"backend": {"local": {"path": str(self.folder / "state")}}},
            "module": {"instance": {"source": "./module", "size": size}},
            "output": {
                name: {"value": f"${{module.instance.{name}}}", "sensitive": sensitive}
                for name, sensitive in names.items()
            },
        }
        (self.folder / "main.tf.json").write_text(json.dumps(document))

    def run(self, *arguments: str) -> tuple[int, str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "STAND_IN_MARK": str(self.folder / "mark"),
        }
        ended = subprocess.run(
            [*self._command, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout

    def lines(self, *arguments: str) -> tuple[int, Lines]:
        code, text = self.run(*arguments)
        return code, [json.loads(line) for line in text.splitlines()]

    def planned(self, *more: str) -> tuple[int, dict[str, int]]:
        """Exit code and changes of a plan."""
        code, lines = self.lines(*PLAN, *more)
        return code, changes(lines)

    def actions(self) -> list[list[str]]:
        """The actions of the stored plan on each resource that changes."""
        code, text = self.run("show", "-json", "-no-color", "plan")
        assert code == 0
        found = [each["change"]["actions"] for each in json.loads(text)["resource_changes"]]
        return [each for each in found if each != ["no-op"]]

    def apply(self) -> tuple[int, Lines]:
        return self.lines("apply", "-json", "-input=false", "plan")


def changes(lines: Lines) -> dict[str, int]:
    (summary,) = [each["changes"] for each in lines if each["type"] == "change_summary"]
    return {key: summary[key] for key in ("add", "change", "remove")}


def of(add: int, change: int, remove: int) -> dict[str, int]:
    return {"add": add, "change": change, "remove": remove}


@pytest.fixture(
    params=[
        STAND_IN,
        pytest.param((REAL or "",), marks=pytest.mark.skipif(not REAL, reason="no terraform")),
    ],
    ids=["stand-in", "terraform"],
)
def binary(request: pytest.FixtureRequest, tmp_path: Path) -> Binary:
    return Binary(tmp_path, request.param)


def test_c_22_build_change_and_destroy(binary: Binary) -> None:
    assert binary.run("init", "-input=false", "-no-color")[0] == 0
    assert binary.planned() == (2, of(2, 0, 0))
    assert binary.actions() == [["create"], ["create"]]
    code, lines = binary.apply()
    assert (code, changes(lines)) == (0, of(2, 0, 0))
    done = [each for each in lines if each["type"] == "apply_complete"]
    assert all(each["hook"]["resource"]["addr"].startswith("module.instance.") for each in done)
    assert all(isinstance(each["@message"], str) for each in lines)
    code, text = binary.run("output", "-json", "-no-color")
    found = json.loads(text)
    assert {name: each["sensitive"] for name, each in found.items()} == {
        "address": False,
        "password": True,
    }
    assert all(each["type"] == "string" and each["value"] for each in found.values())

    assert binary.planned() == (0, of(0, 0, 0)), "nothing to change"
    assert binary.actions() == []
    binary.configure(2)
    assert binary.planned() == (2, of(0, 1, 0))
    assert binary.actions() == [["update"]]
    assert changes(binary.apply()[1]) == of(0, 1, 0)

    assert binary.planned("-destroy") == (2, of(0, 0, 2))
    assert binary.actions() == [["delete"], ["delete"]]
    assert binary.apply()[0] == 0
    assert json.loads(binary.run("output", "-json", "-no-color")[1]) == {}


@pytest.mark.parametrize("command", [PLAN, ("plan", "-json", "-destroy", "-out=plan")])
def test_c_22_without_init_a_command_fails_with_a_diagnostic(
    binary: Binary, command: tuple[str, ...]
) -> None:
    code, lines = binary.lines(*command)
    errors = [each["diagnostic"] for each in lines if each["type"] == "diagnostic"]
    assert code == 1
    assert errors
    assert all(each["severity"] == "error" and each["summary"] for each in errors)


@pytest.mark.parametrize("content", [None, "{"])
def test_c_22_a_plan_that_is_lost_or_broken_is_an_error(
    binary: Binary, content: str | None
) -> None:
    assert binary.run("init", "-input=false", "-no-color")[0] == 0
    assert binary.planned()[0] == 2
    (binary.folder / "plan").unlink()
    if content is not None:
        (binary.folder / "plan").write_text(content)
    assert binary.run("apply", "-json", "-input=false", "plan")[0] == 1
