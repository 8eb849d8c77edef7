"""`ctrlruntime update`: a newer scaffold comes in, and what the user made of the files stays."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrlruntime.cli.changes import Plan
from ctrlruntime.cli.merge import MARKS
from ctrlruntime.cli.project import API, Project, ProjectError
from ctrlruntime.cli.scaffold import apply
from tests.cli.projects import ctrlruntime, made, newer, rendered, tree


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as the commands made it."""
    return made(tmp_path_factory.mktemp("projects") / "shop")


@pytest.fixture
def project(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(pristine, tmp_path / "shop"))


def update(project: Path, templates: Path) -> Plan:
    def same(found: Project | None) -> Project:
        assert found is not None
        return found

    return apply(project, ["update"], same, templates)


def edit_template(draw: random.Random, path: Path) -> None:
    """Change a few places of a template, and none of what steers it."""
    lines = path.read_text().splitlines(keepends=True)
    plain = [number for number, line in enumerate(lines) if "{%" not in line]
    for number in sorted(draw.sample(plain, min(3, len(plain))), reverse=True):
        new = f"# scaffold {number}\n"
        lines[number : number + 1] = draw.choice([[new], [new, lines[number]], []])
    path.write_text("".join(lines))


def edit(draw: random.Random, path: Path) -> list[str]:
    """Change a few places of a file; the lines that are new in it."""
    lines = path.read_text().splitlines(keepends=True)
    written = []
    for number in range(draw.randint(1, 4)):
        at, line = draw.randint(0, len(lines)), f"# user {number}"
        match draw.choice(["insert", "replace", "delete", "append without an end"]):
            case "insert":
                lines.insert(at, f"{line}\n")
            case "replace":
                lines[at : at + draw.randint(1, 3)] = [f"{line}\n"]
            case "delete":
                del lines[at : at + draw.randint(1, 3)]
                continue
            case _:
                lines[-1:] = ["".join([*lines[-1:], line])]
        written.append(line)
    path.write_text("".join(lines))
    return [line for line in written if line in path.read_text()]


@pytest.mark.criterion("D-5")
@pytest.mark.parametrize("seed", range(20))
def test_no_line_of_the_users_is_lost(project: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    templates = newer(tmp_path / "templates")
    for template in sorted(templates.iterdir()):
        if draw.random() < 0.7:
            edit_template(draw, template)
    base, before = rendered(project), tree(project)
    deleted, mine = set(), {}
    for path in sorted(base):
        if draw.random() < 0.1:
            (project / path).unlink()
            deleted.add(path)
        elif draw.random() < 0.6:
            mine[path] = edit(draw, project / path)
    edited = tree(project)

    planned = update(project, templates)

    after, new = tree(project), rendered(project)
    for path, lines in mine.items():
        left = after[path].splitlines()
        for line in lines:
            assert [each for each in left if line in each], (path, line)
        own = set(edited[path].splitlines()) - set(base[path].splitlines())
        assert own <= set(left), path
    assert not deleted & set(after)
    untouched = set(base) - set(mine) - deleted
    assert all(after[path] == new[path] for path in untouched)
    marked = {path for path, text in after.items() if MARKS[0] in text}
    assert marked == {each.path for each in planned.changes if each.conflicts}
    assert set(after) - set(before) == set()
    again = update(project, templates)
    assert (again.changes, tree(project)) == ([], after)


@pytest.mark.criterion("D-5")
def test_a_conflict_is_reported_and_ends_with_an_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = newer(tmp_path / "templates")
    (templates / "Dockerfile.jinja").write_text("FROM theirs\n")
    dockerfile = project / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("python:3.13", "mine"))
    monkeypatch.setattr(apply, "__defaults__", (templates,))
    result = ctrlruntime(project, "update")
    assert result.exit_code == 1
    assert "CONFLICT Dockerfile" in result.output
    result = ctrlruntime(project, "update")
    assert (result.exit_code, "conflicts are still in Dockerfile" in result.output) == (1, True)
    text = dockerfile.read_text()
    assert "FROM mine" in text
    assert "FROM theirs" in text

    (templates / "Dockerfile.jinja").write_text("FROM later\n")
    with pytest.raises(ProjectError, match="Dockerfile has conflicts still"):
        update(project, templates)
    assert dockerfile.read_text() == text
    dockerfile.write_text("FROM mine\n")
    update(project, newer(tmp_path / "as they were"))


@pytest.mark.criterion("D-5")
def test_what_one_branch_took_back_stays_away() -> None:
    alpha, beta = (API("a.io", "v1", kind, kind.lower()) for kind in ("Alpha", "Beta"))
    more = replace(alpha, finalizer=True, spokes=("v2",))

    def of(*apis: API) -> Project:
        return Project("shop", "1", apis)

    assert of().united(of(alpha, beta), of(alpha)) == of(beta)
    assert of(alpha).united(of(beta), of()) == of(alpha, beta)
    assert of(more).united(of(alpha), of(more)) == of(alpha)
    assert of(more).united(of(alpha), of()) == of(more)
    assert of(alpha).united(of(more), of(alpha)) == of(more)


@pytest.mark.criterion("D-5")
@pytest.mark.parametrize("style", ["merge", "diff3"])
def test_two_branches_that_extend_the_project_are_merged_by_git_and_the_next_command(
    tmp_path: Path, style: str
) -> None:
    project = made(tmp_path / "shop", "init shop", "create api example.com/v1 Website")

    alone = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments: str) -> None:
        user = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", f"merge.conflictStyle={style}"]
        done = subprocess.run(
            ["git", *user, *arguments], cwd=project, env=alone, capture_output=True
        )
        assert arguments[0] == "merge" or done.returncode == 0, done.stderr

    def branch(name: str, *commands: str) -> None:
        git("checkout", "-qb", name, "start")
        made(project, *commands)
        mine = project / "shop" / "controllers" / f"{name}.py"
        mine.write_text(f"# Mine.\n{mine.read_text()}")
        git("add", "-A")
        git("commit", "-qm", name)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "all")
    git("branch", "start")
    branch("alpha", "create api a.io/v1 Alpha", "add conversion example.com/v2 Website")
    branch("beta", "create api a.io/v1 Beta", "create webhook example.com/v1 Website")
    git("merge", "alpha")
    assert "<<<<<<< " in (project / ".ctrlruntime" / "project.json").read_text()
    result = ctrlruntime(project, "update")
    assert "conflicts are still in shop/app.py, shop/controllers/__init__.py" in result.output
    assert "has conflicts still" in ctrlruntime(project, "create api a.io/v1 Gamma").output

    whole = made(tmp_path / "whole", "init shop", *EXTENDED)
    for path, text in rendered(whole).items():
        if "<<<<<<< " in (project / path).read_text():
            (project / path).write_text(text)
    assert ctrlruntime(project, "update").exit_code == 0
    for path, text in rendered(whole).items():
        mine = "# Mine.\n" * path.endswith(("controllers/alpha.py", "controllers/beta.py"))
        assert (project / path).read_text() == mine + text
    assert rendered(project) == rendered(whole)
    made(project, "create api a.io/v1 Gamma")


EXTENDED = (
    "create api example.com/v1 Website",
    "create api a.io/v1 Beta",
    "create webhook example.com/v1 Website",
    "create api a.io/v1 Alpha",
    "add conversion example.com/v2 Website",
)


@pytest.mark.criterion("D-5")
def test_files_that_come_and_go(project: Path, tmp_path: Path) -> None:
    """One that is the user's already is not written; one that is no more goes, unless it was changed."""
    record = project / ".ctrlruntime" / "project.json"
    text = record.read_text().replace(
        '"rendered": {', '"rendered": {"old.md": ["x\\n"], "kept.md": ["x\\n"],'
    )
    text = text.replace('"Makefile": [', '"never": [')
    record.write_text(text)
    (project / "old.md").write_text("x\n")
    (project / "kept.md").write_text("mine\n")
    (project / "Makefile").write_text("mine\n")
    result = ctrlruntime(project, "update")
    assert "kept Makefile" in result.output
    assert "kept kept.md" in result.output
    assert (project / "Makefile").read_text() == (project / "kept.md").read_text() == "mine\n"
    assert not (project / "old.md").exists()


@pytest.mark.criterion("D-5")
def test_line_ends_bytes_and_modes_stay(project: Path, tmp_path: Path) -> None:
    templates = newer(tmp_path / "templates")
    for name in ("README.md", "Makefile"):
        with (templates / f"{name}.jinja").open("a") as template:
            template.write("theirs\n")
    readme, makefile = project / "README.md", project / "Makefile"
    readme.write_bytes(readme.read_bytes().replace(b"\n", b"\r\n"))
    makefile.write_bytes(b"# \xff mine\n\n" + makefile.read_bytes())
    makefile.chmod(0o755)
    update(project, templates)
    assert readme.read_bytes().endswith(b"\r\ntheirs\r\n")
    assert makefile.read_bytes().startswith(b"# \xff mine\n")
    assert makefile.read_bytes().endswith(b"\ntheirs\n")
    assert makefile.stat().st_mode & 0o777 == 0o755
