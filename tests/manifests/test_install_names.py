"""One name of the image everywhere, a licence, and a command that documents may name (H-E1)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from ctrlruntime import __version__
from manager.cli import main
from tests.docs.blocks import ROOT, documents

pytestmark = pytest.mark.criterion("H-E1")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = f"registry.example.com/ctrlruntime-manager:{__version__}"
NAMED = re.compile(r"[\w./-]*ctrlruntime-manager:[\w.]+")
COMMAND = re.compile(r"(?:`|^    )manager ((?:[a-z]+ ?){1,2})", re.MULTILINE)
FILES = [
    "README.md",
    "Dockerfile",
    "docker-bake.hcl",
    "Makefile",
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "config" / "samples").glob("*.yaml")),
    *documents(),
]


def test_h_e1_every_file_names_the_same_image() -> None:
    found = {file: set(NAMED.findall((ROOT / file).read_text())) for file in FILES}
    wrong = {file: names - {IMAGE} for file, names in found.items() if names - {IMAGE}}
    assert wrong == {}
    assert all(found[file] for file in ("README.md", "Dockerfile", "Makefile"))


def images(text: str) -> set[str]:
    """The images of the Deployments of a manifest."""
    made = [each for each in yaml.safe_load_all(text) if each and each["kind"] == "Deployment"]
    pods = [each["spec"]["template"]["spec"] for each in made]
    return {container["image"] for pod in pods for container in pod["containers"]}


def test_h_e1_the_installer_and_the_kustomization_name_it() -> None:
    assert images((ROOT / "dist" / "install.yaml").read_text()) == {IMAGE}
    made = yaml.safe_load((ROOT / "config" / "manager" / "kustomization.yaml").read_text())
    assert [f"{each['newName']}:{each['newTag']}" for each in made["images"]] == [IMAGE]


def test_h_e1_make_builds_pushes_and_installs_the_image_that_is_given() -> None:
    other = "registry.my-company.net/team/manager:9"
    variables = {**os.environ, "IMG": other}
    result = subprocess.run(
        ["hack/install-yaml.sh", "--print"],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert images(result.stdout) == {other}
    for given, image in (("", IMAGE), (f"IMG={other}", other)):
        command = ["make", "-n", "image", "push", "deploy", *([given] if given else [])]
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert re.search(
            rf"build --build-arg .* -t {re.escape(image)} \.$", shown.stdout, re.MULTILINE
        )
        assert f"push {image}" in shown.stdout
        assert f"IMG={image} hack/install-yaml.sh --print |" in shown.stdout


def test_h_e1_the_base_of_an_image_for_every_platform_is_pinned() -> None:
    digest = f"@sha256:{'0' * 64}"
    for given, code in (("", 2), ("BASE_DIGEST=latest", 2)):
        command = ["make", "image-all", *([given] if given else [])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == code
        assert "BASE_DIGEST=@sha256:" in done.stderr
    command = ["make", "--no-print-directory", "-n", "image-all", f"BASE_DIGEST={digest}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    set_by_make = set(re.findall(r"\b([A-Z_]+)=", shown.stdout.splitlines()[-1]))
    bake = (ROOT / "docker-bake.hcl").read_text()
    assert set(re.findall(r'^variable "(\w+)"', bake, re.MULTILINE)) == set_by_make
    declared = set(re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    (arguments,) = re.findall(r"args = \{(.*?)\}", bake, re.DOTALL)
    assert set(re.findall(r"(\w+) =", arguments)) == declared - {"BASE"}


def test_h_e1_the_command_that_documents_name_is_installed() -> None:
    program = Path(sys.executable).parent / "manager"
    result = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "instance" in result.stdout


def test_h_e1_every_command_that_documents_name_exists() -> None:
    context = click.Context(main)
    known = {name: main.get_command(context, name) for name in main.list_commands(context)}
    named = {words for file in documents() for words in COMMAND.findall((ROOT / file).read_text())}
    assert named
    for words in named:
        first, *rest = words.split()
        assert first in known, words
        command = known[first]
        if rest and isinstance(command, click.Group):
            assert rest[0] in command.commands, words


def test_h_e1_the_licence_is_apache_2_in_full() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"
    assert PROJECT["license-files"] == ["LICENSE"]
