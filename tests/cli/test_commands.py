"""`ctrlruntime init`, `create`, `add`: what they make, what they refuse, and what a kill leaves."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctrlruntime import __version__
from ctrlruntime.cli import scaffold
from ctrlruntime.cli.project import TAKEN, Project, parse_version
from ctrlruntime.cli.rendering import PINS, render
from ctrlruntime.cli.workspace import Workspace
from tests.cli.projects import COMMANDS, ctrlruntime, made, rendered, tree
from tests.docs.blocks import ROOT

LONG = "".join(f"Long{letter}" for letter in "abcdefgh")
PROJECTS = {
    "small": ("a", ["init a", "create api a.b/v1 A --finalizer", "create webhook a.b/v1 A"]),
    "large": (
        "x" * 40,
        [
            f"init {'x' * 40}",
            f"create api {'long.' * 12}example.com/v12alpha3 {LONG} --finalizer",
            f"create webhook {'long.' * 12}example.com/v12alpha3 {LONG}",
            f"add conversion {'long.' * 12}example.com/v13 {LONG}",
            f"add conversion {'long.' * 12}example.com/v9 {LONG}",
        ],
    ),
    "odd": (
        "my-shop",
        [
            "init my-shop",
            *(f"create api example.com/v1 {kind}" for kind in ("Class", "Manager", "Test", "A10")),
            *(
                f"create api example.com/v1 {kind}"
                for kind in ("A9", "A_B".replace("_", "9B"), "AB")
            ),
            *(f"create api example.com/v1 {kind}" for kind in ("Exception", "Deployment", "ALL")),
            "create api example.com/v1 WebhookClass",
            "create webhook example.com/v1 Class --defaulting",
            "create webhook example.com/v1 Deployment --validating",
            "add conversion example.com/v1beta1 Manager",
        ],
    ),
    "all commands": ("shop", list(COMMANDS)),
}


@pytest.mark.criterion("D-2", "D-3", "D-4")
@pytest.mark.parametrize("name", PROJECTS)
def test_every_project_is_clean_in_style(tmp_path: Path, name: str) -> None:
    folder, commands = PROJECTS[name]
    project = made(tmp_path / folder, *commands)
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    for command in (["check", "--no-cache", "."], ["format", "--no-cache", "--diff", "."]):
        done = subprocess.run([*ruff, *command], cwd=project, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.criterion("D-3", "D-4")
def test_what_users_usually_change_is_in_no_commands_way(tmp_path: Path) -> None:
    project = made(tmp_path / "shop", *BOTH)
    for path, pairs in USUAL.items():
        text = (project / path).read_text()
        for old, new in pairs.items():
            assert old in text
            text = text.replace(old, new, 1)
        (project / path).write_text(text)
    made(
        project,
        "create webhook example.com/v1 Website --defaulting",
        "add conversion example.com/v2 Website",
        "create webhook example.com/v1 Website --validating",
        "create api other.io/v1 Website",
    )
    for path, pairs in USUAL.items():
        text = (project / path).read_text()
        ast.parse(text)
        assert not [new for new in pairs.values() if new not in text]


USUAL = {
    "shop/api/website/v1.py": {
        "import Annotated": "import Annotated, Literal",
        "    Int32,\n": "    Int32,\n    Quantity,\n",
        "    image: str\n": "    tier: Literal[1, 2] = 1\n    image: str\n",
        '"""An image that runs a number of times."""': '"""A website."""',
        "# Methods of your own go below.\n": "# Methods of your own go below.\n    def own(self) -> None: ...\n",
    },
    "shop/app.py": {
        'leader_election_id="shop",\n': 'leader_election_id="shop",\n    namespaces=("shop",),\n'
    },
    "shop/controllers/website.py": {
        "    GroupVersionKind,\n": "    GroupVersionKind,\n    HTTPServer,\n",
        '    builder = Builder(manager).named("website")\n': '    builder = Builder(manager).named("sites")\n',
        "        old = obj.model_copy(deep=True)\n": "        print(obj)\n        old = obj.model_copy(deep=True)\n",
    },
}


@pytest.mark.criterion("D-2")
@pytest.mark.parametrize("kind", ["List", "Callable", "Type"])
def test_a_kind_hides_nothing_that_the_program_uses(tmp_path: Path, kind: str) -> None:
    project = made(tmp_path / "shop", NEW, f"create api example.com/v1 {kind}")
    command = [sys.executable, "-c", "from shop.app import CONTROLLERS; assert CONTROLLERS"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_next_command_is_one_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "shop", NEW)
    command = "create api example.com/v1 Website"
    monkeypatch.setattr(scaffold, "find_spec", lambda _: None)  # what `make install` brings
    assert "next: make install test" in ctrlruntime(tmp_path / "shop", command).output


def test_manifests_are_generated_with_no_more_than_the_command(tmp_path: Path) -> None:
    """As a console script, which does not look for modules in the working folder."""
    project = made(tmp_path / "shop", NEW)
    script = tmp_path / "ctrlruntime"
    script.write_text("from ctrlruntime.cli import main\nmain()\n")
    command = [sys.executable, str(script), "generate", "all", "--stdout"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert "kind: Deployment\n" in done.stdout, done.stderr


def test_names_that_a_kinds_module_imports_are_no_kinds() -> None:
    project = Project("shop", __version__).with_api(parse_version("example.com/v1", "Website"))
    both = parse_version("example.com/v1", "Website")
    project = project.with_webhook(both, defaulting=True, validating=True)
    project = project.with_conversion(parse_version("example.com/v2", "Website"))
    imported = {
        name.name
        for path, text in render(project).items()
        if path.startswith("shop/api/website/v")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert {name for name in imported if name[0].isupper()} == TAKEN


@pytest.mark.criterion("D-2")
def test_two_kinds_of_a_name_select_their_own_pods() -> None:
    project = Project("shop", __version__)
    for group in ("example.com", "other.io"):
        project = project.with_api(parse_version(f"{group}/v1", "Website"))
    text = "".join(render(project).values())
    assert sorted(re.findall('"app.kubernetes.io/name": "(.*)"', text)) == [
        "other-io-website",
        "website",
    ]


def test_the_pins_are_what_this_repository_is_tested_with() -> None:
    lock = dict(
        re.findall(r"^([\w-]+)==([^\s\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    assert dict(PINS) == {name: lock[name] for name in PINS}


NEW = "init shop"
BOTH = (NEW, "create api example.com/v1 Website")
WRONG = {
    "a name with capitals": ([], "init Shop", "ctrlruntime init shop"),
    "a name of a module": ([], "init json", "a package json is installed already"),
    "a word of Python": ([], "init class", "such as class-operator"),
    "a folder of its own": ([], "init tests", "tests-operator"),
    "a project already": ([NEW], "init shop", "ctrlruntime create api example.com/v1 Website"),
    "no project": ([], "create api example.com/v1 Website", "ctrlruntime init"),
    "no project to update": ([], "update", "ctrlruntime init"),
    "a group without a dot": ([NEW], "create api shop/v1 Website", "example.com/v1"),
    "a group of Kubernetes": ([NEW], "create api apps.k8s.io/v1 Website", "of your own"),
    "a kind of Kubernetes": ([NEW], "create api apps/v1 Deployment", "ctrlruntime.kinds.apps.v1"),
    "a kind without a group": ([NEW], "create api v1 Pod", "ctrlruntime.kinds.core.v1"),
    "no version": ([NEW], "create api example.com Website", "example.com/v1"),
    "a bad version": ([NEW], "create api example.com/1 Website", "v1beta1"),
    "a kind in lower case": ([NEW], "create api example.com/v1 website", "such as Website"),
    "a kind of Python": ([NEW], "create api example.com/v1 None", "choose another kind"),
    "a kind that is imported": ([NEW], "create api example.com/v1 Resource", "another kind"),
    "an existing kind": (BOTH, "create api example.com/v1 Website", "shop/api/website/v1.py"),
    "another version": (
        BOTH,
        "create api example.com/v2 Website",
        "ctrlruntime add conversion example.com/v2 Website",
    ),
    "names that collide": (BOTH, "create api example.com/v1 WebSite", "the same names"),
    "a plural that collides": (BOTH, "create api example.com/v1 Websites", "the same names"),
    "a list that collides": (BOTH, "create api example.com/v1 WebsiteList", "the same names"),
    "webhooks of no kind": (BOTH, "create webhook example.com/v1 Other", "example.com/v1 Website"),
    "webhooks before kinds": ([NEW], "create webhook example.com/v1 Other", "create api"),
    "webhooks twice": (
        [*BOTH, "create webhook example.com/v1 Website"],
        "create webhook example.com/v1 Website --validating",
        "has these webhooks",
    ),
    "webhooks of a spoke": (
        [*BOTH, "add conversion example.com/v2 Website"],
        "create webhook example.com/v2 Website",
        "ctrlruntime create webhook example.com/v1 Website",
    ),
    "conversion of no kind": (BOTH, "add conversion example.com/v2 Other", "no kind Other"),
    "conversion twice": (
        [*BOTH, "add conversion example.com/v2 Website"],
        "add conversion example.com/v2 Website",
        "such as v3",
    ),
    "conversion to itself": (BOTH, "add conversion example.com/v1 Website", "another version"),
    "an unknown command": ([], "inti", "did you mean 'init'"),
}


@pytest.mark.criterion("D-6")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    before, command, message = WRONG[name]
    folder = tmp_path / "work"
    folder.mkdir()
    for each in before:
        made(folder, each)
    files = tree(folder)
    result = ctrlruntime(folder, command)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert tree(folder) == files
    assert before or not list(folder.iterdir())


@pytest.mark.criterion("D-6")
def test_a_folder_that_is_not_empty_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    result = ctrlruntime(folder, "init")
    assert "is not empty (notes.txt)" in result.output
    assert tree(folder) == {"notes.txt": "mine"}
    (folder / "notes.txt").unlink()
    (folder / ".git").mkdir()
    (folder / "env").mkdir()
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / ".gitignore").write_text("mine")
    result = ctrlruntime(folder, "init")
    assert ".gitignore: there already" in result.output
    (folder / ".gitignore").unlink()
    for name in ("LICENSE", "README.md"):
        (folder / name).write_text("mine")
    assert "README.md: there already" in ctrlruntime(folder, "init").output
    (folder / "README.md").unlink()
    assert ctrlruntime(folder, "init").exit_code == 0
    assert (folder / "LICENSE").read_text() == "mine"


@pytest.mark.criterion("D-6")
def test_a_file_of_the_users_is_in_no_kinds_way(tmp_path: Path) -> None:
    project = made(tmp_path / "shop", NEW)
    place = project / "shop" / "api" / "website"
    place.write_text("mine")
    assert "move what is there" in ctrlruntime(project, BOTH[1]).output
    place.unlink()
    place.mkdir()
    (place / "v1.py").write_text("mine")
    files = tree(project)
    result = ctrlruntime(project / "tests", BOTH[1])
    assert "shop/api/website/v1.py: there already" in result.output
    assert tree(project) == files


@pytest.mark.criterion("D-6")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{", "", "git checkout .ctrlruntime/project.json"),
        ("{", '{"x":' + "[" * 9999 + "]" * 9999 + ",", "git checkout .ctrlruntime/project.json"),
        ('"format": 1', '"format": 2', "pip install -U 'ctrlruntime[cli]'"),
        ('"Makefile"', '"../Makefile"', "names ../Makefile"),
        (f'"scaffold": "{__version__}"', '"scaffold": "99.0"', "ctrlruntime[cli]==99.0"),
    ],
    ids=["damaged", "deep", "another format", "outside", "newer"],
)
def test_a_record_of_another_kind_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    project = made(tmp_path / "shop", NEW)
    record = project / ".ctrlruntime" / "project.json"
    record.write_text(record.read_text().replace(old, new, 1))
    files = tree(project)
    result = ctrlruntime(project, "update")
    assert result.exit_code == 1
    assert message in result.output
    assert tree(project) == files


@pytest.mark.criterion("S-H2")
@pytest.mark.parametrize(
    "link",
    [
        "Makefile",
        "shop",
        ".ctrlruntime/new",
        ".ctrlruntime/project.json",
        ".ctrlruntime/pending.json",
    ],
)
def test_no_link_of_a_repository_has_a_file_outside_of_it_written(
    tmp_path: Path, link: str
) -> None:
    """The record, and changes that are to be finished, come with a repository that somebody else has made."""
    project, outside = made(tmp_path / "shop", NEW), tmp_path / "outside"
    record = json.loads((project / ".ctrlruntime" / "project.json").read_text())
    path = link if link == "Makefile" else "shop/x"
    change = {"path": path, "before": None, "after": "eA==", "conflicts": 0}
    if not link.endswith(".json"):
        pending = {"command": ["update"], "changes": [change], "record": record}
        (project / ".ctrlruntime" / "pending.json").write_text(json.dumps(pending))
    outside.mkdir()
    target = outside / "x"
    target.write_text("mine")
    if (project / link).is_dir():
        shutil.rmtree(project / link)
    (project / link).unlink(missing_ok=True)
    (project / link).symlink_to(outside if link == "shop" else target)
    result = ctrlruntime(project, "update")
    assert result.exit_code == 1
    assert not isinstance(result.exception, OSError | RecursionError)
    assert target.read_text() == "mine"
    assert [*outside.iterdir()] == [target]


@pytest.mark.criterion("D-6")
def test_a_command_whose_file_is_gone_adds_nothing(tmp_path: Path) -> None:
    project = made(tmp_path / "shop", *BOTH)
    (project / "shop" / "api" / "website" / "v1.py").unlink()
    files = tree(project)
    result = ctrlruntime(project, "create webhook example.com/v1 Website")
    assert "git checkout HEAD -- shop/api/website/v1.py" in result.output
    assert tree(project) == files


@pytest.mark.criterion("D-6")
def test_one_command_at_a_time_and_errors_of_the_system_in_a_sentence(tmp_path: Path) -> None:
    project = made(tmp_path / "shop", NEW)
    with Workspace(project).locked():
        assert "another command is at work" in ctrlruntime(project, BOTH[1]).output
    (project / ".ctrlruntime" / "new").mkdir()
    result = ctrlruntime(project, BOTH[1])
    assert "give the same command again" in result.output
    (project / ".ctrlruntime" / "new").rmdir()
    assert ctrlruntime(project, BOTH[1]).exit_code == 0
    pending = project / ".ctrlruntime" / "pending.json"
    for text, message in (("{", "remove it"), (json.dumps(OUTSIDE), "names ../x")):
        pending.write_text(text)
        assert message in ctrlruntime(project, "update").output


OUTSIDE = {
    "command": ["update"],
    "changes": [{"path": "../x", "before": None, "after": "eA==", "conflicts": 0}],
    "record": {"project": {"name": "shop", "scaffold": "0"}, "rendered": {}},
}


@pytest.mark.criterion("D-6")
def test_an_older_project_is_updated_before_it_is_extended(tmp_path: Path) -> None:
    project = made(tmp_path / "shop", NEW)
    record = project / ".ctrlruntime" / "project.json"
    record.write_text(record.read_text().replace(f'"scaffold": "{__version__}"', '"scaffold": "0"'))
    assert "first ctrlruntime update" in ctrlruntime(project, BOTH[1]).output
    assert ctrlruntime(project, "update").exit_code == 0
    assert ctrlruntime(project, BOTH[1]).exit_code == 0


Kill = Callable[[int], None]


class Killed(BaseException):
    """The end of the process."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kill]:
    """A function that lets so many changes of the file system happen, and none after that."""
    left = [0]

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("mkdir", "replace", "unlink"):
        counted(name)
    yield lambda number: left.__setitem__(0, number)
    monkeypatch.undo()


@pytest.mark.criterion("D-7")
@pytest.mark.parametrize("at", range(len(COMMANDS)), ids=COMMANDS)
def test_after_a_kill_the_same_command_goes_on(tmp_path: Path, kill: Kill, at: int) -> None:
    kill(10**6)
    command = COMMANDS[at]
    whole = tree(made(tmp_path / "whole", *COMMANDS[: at + 1]))
    for number in range(10**6):
        kill(10**6)
        folder = tmp_path / str(number) / "whole"
        folder.mkdir(parents=True)
        if at:
            made(folder, *COMMANDS[:at])
        kill(number)
        with contextlib.suppress(Killed):
            assert ctrlruntime(folder, command).exit_code == 0
            break
        kill(10**6)
        assert ctrlruntime(folder, command).exit_code == 0, number
        assert tree(folder) == whole, number
    assert number > 5
    assert tree(folder) == whole
    assert rendered(folder) == {
        path: text for path, text in whole.items() if not path.startswith(".ctrlruntime")
    }


@pytest.mark.criterion("D-7")
def test_an_edit_after_a_kill_is_merged(tmp_path: Path, kill: Kill) -> None:
    kill(10**6)
    project = made(tmp_path / "shop", NEW)
    kill(4)
    with pytest.raises(Killed):
        ctrlruntime(project, BOTH[1])
    kill(10**6)
    assert json.loads((project / ".ctrlruntime" / "pending.json").read_text())["command"]
    module = project / "shop" / "controllers" / "__init__.py"
    module.write_text(f"# Mine.\n{module.read_text()}")
    assert ctrlruntime(project, "create api example.com/v1 Other").exit_code == 0
    text = module.read_text()
    assert text.startswith("# Mine.\n")
    assert "website.add_to" in text
    assert "other.add_to" in text


@pytest.mark.criterion("D-7")
def test_a_conflict_with_an_edit_after_a_kill_is_reported(tmp_path: Path, kill: Kill) -> None:
    kill(10**6)
    project = made(tmp_path / "shop", NEW)
    kill(4)
    with pytest.raises(Killed):
        ctrlruntime(project, BOTH[1])
    kill(10**6)
    module = project / "shop" / "controllers" / "__init__.py"
    module.write_text(module.read_text().replace(" = []", " = [mine]"))
    result = ctrlruntime(project, "create webhook example.com/v1 Website")
    assert "conflicts in shop/controllers/__init__.py" in result.output
    assert " = [mine]" in module.read_text()
    module.write_text("CONTROLLERS = []\n")
    assert ctrlruntime(project, "create webhook example.com/v1 Website").exit_code == 0
