"""Runs the steps of a Dockerfile without a container: below an empty folder, as its own user.

A stage is a folder; paths in it that steps name are looked for below that folder. The user must be
given by number. What a step of the base image brings is the machine's own: Python and a shell.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

PLACES = re.compile(r"(?<![\w/])/(?:tmp|opt)(?=/|\s|$)")
"""The folders of the image that steps write to."""


@dataclass(slots=True)
class Stage:
    """One stage, as far as it was built."""

    root: Path
    base: str = ""
    user: int = 0
    group: int = 0
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Where a path of the image is."""
        return self.root / str(Path("/", self.folder, path)).lstrip("/")

    def mapped(self, text: str) -> str:
        """A text with the image's paths replaced."""
        return PLACES.sub(lambda found: f"{self.root}{found[0]}", text)

    def identity(self) -> dict[str, object]:
        """Arguments of a process that is the stage's user, where the test may choose."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.user, "group": self.group, "extra_groups": []}

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process: the stage's, and nothing of the test's own."""
        base = Path(sys.base_prefix) / "bin"
        own = {key: self.mapped(value) for key, value in self.environment.items()}
        return {"PATH": f"{base}:/usr/bin:/bin", **own, **more}


def build(
    dockerfile: Path, prefix: Path, pip: Mapping[str, str], given: Mapping[str, str] | None = None
) -> Stage:
    """Return the last stage, built below `prefix`. `pip`: how the machine's pip is configured;
    `given`: build arguments.

    Raises CalledProcessError for a step that fails, ValueError for one that is unknown.
    """
    stages: dict[str, Stage] = {}
    stage = outside = Stage(prefix)
    for step, rest in steps(dockerfile.read_text()):
        match step:
            case "FROM":
                _, _, name = rest.partition(" AS ")
                stage = stages[name] = Stage(prefix / (name or "result"))
                stage.base = Template(rest.split(" AS ")[0]).substitute(outside.arguments)
                for each in ("tmp", "opt"):
                    (stage.root / each).mkdir(parents=True, exist_ok=True)
            case "ARG":
                name, _, default = rest.partition("=")
                default = default or outside.arguments.get(name, "")
                stage.arguments[name] = (given or {}).get(name, default)
            case "COPY":
                _copy(stage, stages, dockerfile.parent, shlex.split(rest))
            case "RUN":
                _run(stage, rest, pip)
            case _:
                _describe(stage, step, rest)
    return stage


def _describe(stage: Stage, step: str, rest: str) -> None:
    """Record a step that makes no file but WORKDIR's folder. Raises ValueError for an unknown one."""
    match step:
        case "USER":
            stage.user, stage.group = (int(number) for number in rest.split(":"))
        case "WORKDIR":
            stage.folder = rest
            stage.place("").mkdir(parents=True, exist_ok=True)
        case "ENV":
            stage.environment |= dict(item.split("=", 1) for item in shlex.split(rest))
        case "LABEL":
            text = Template(rest).substitute(stage.arguments)
            stage.labels |= dict(item.split("=", 1) for item in shlex.split(text))
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case _:
            raise ValueError(f"{step} is unknown here")


def steps(text: str) -> list[tuple[str, str]]:
    """Instructions and their arguments."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in found]


def _copy(stage: Stage, stages: Mapping[str, Stage], context: Path, words: list[str]) -> None:
    flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    *sources, target = (word for word in words if not word.startswith("--"))
    owner = [int(number) for number in flags.get("chown", "0:0").split(":")]
    for source in sources:
        came = stages[flags["from"]].place(source) if "from" in flags else context / source
        place = stage.place(target)
        if target.endswith("/"):
            place = place / came.name
        place.parent.mkdir(parents=True, exist_ok=True)
        if came.is_dir():
            if "from" in flags:  # nothing looks at the earlier stage any more
                shutil.copytree(came, place, symlinks=True, copy_function=os.link)
            else:
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(came, place, symlinks=True, ignore=ignored)
        else:
            shutil.copy(came, place)
        if os.geteuid() == 0:
            for path in (place, *place.rglob("*")):
                os.chown(path, *owner, follow_symlinks=False)


def _run(stage: Stage, command: str, pip: Mapping[str, str]) -> None:
    # A folder that anybody may write to, as /tmp is; the rest belongs to root.
    (stage.root / "tmp").chmod(0o1777)
    subprocess.run(
        ["/bin/sh", "-c", stage.mapped(command)],
        check=True,
        cwd=stage.place(""),
        env=stage.variables(pip),
        **stage.identity(),  # type: ignore[call-overload]
    )


def make_read_only(root: Path) -> None:
    """Nobody may write below `root` any more, and it is root's where it can be."""
    for path in (root, *root.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, 0, 0, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)


def make_writable(root: Path) -> None:
    """So that it can be removed again."""
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
