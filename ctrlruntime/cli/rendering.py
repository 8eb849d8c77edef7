"""The files of a project, from the templates of this package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .project import API, Project

__all__ = ["PINS", "TEMPLATES", "render"]

TEMPLATES: Final = Path(__file__).with_name("templates")

LINE: Final = 120
"""Characters of a line in a project."""

PINS: Final[Mapping[str, str]] = {
    "hatchling": "1.29.0",
    "hypothesis": "6.170.15",
    "mypy": "2.4.1",
    "pytest": "9.2.0",
    "pytest-asyncio": "1.5.0",
    "ruff": "0.17.5",
}
"""The packages of a project beside ctrlruntime, in the versions that this repository is tested with."""


def render(project: Project, templates: Path = TEMPLATES) -> dict[str, str]:
    """Return the text of every file by its path, relative and with slashes."""
    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - code, no HTML
    )

    def text(template: str, **values: object) -> str:
        return environment.get_template(f"{template}.jinja").render(
            project=project, pins=PINS, imports=imports, line=LINE, **values
        )

    files = {
        "pyproject.toml": text("pyproject.toml"),
        "Makefile": text("Makefile"),
        "README.md": text("README.md"),
        "Dockerfile": text("Dockerfile"),
        ".gitignore": text("ignore", extra=[]),
        ".dockerignore": text("ignore", extra=[".git/", "tests/"]),
        ".github/workflows/ci.yaml": text("ci.yaml"),
        "tests/conftest.py": text("conftest.py"),
        "tests/test_app.py": text("test_app.py"),
    }
    for path, line in _packages(project):
        files[f"{project.package}{path}/__init__.py"] = f'"""{line}"""\n'
    files[f"{project.package}/__main__.py"] = text("main.py")
    apis = sorted(project.apis, key=lambda api: _natural(api.module))
    files[f"{project.package}/app.py"] = text("app.py")
    files[f"{project.package}/controllers/__init__.py"] = text("controllers.py", apis=apis)
    for api in apis:
        modules = f"{project.package}/api/{api.module}"
        files[f"{modules}/{api.version}.py"] = text("kind.py", api=api)
        for version in api.spokes:
            files[f"{modules}/{version}.py"] = text("spoke.py", api=api, version=version)
        files[f"{project.package}/controllers/{api.module}.py"] = text("controller.py", api=api)
        for name in _tests(api):
            path = f"tests/test_{name}_{api.module.strip('_')}.py"
            files[path] = text(f"test_{name}.py", api=api)
    return dict(sorted(files.items()))


def imports(module: str, *names: str) -> str:
    """Return an import as the formatter of a project sets it: on one line, where that is not too long."""
    names = tuple(sorted(names, key=_natural))
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _natural(name: str) -> list[tuple[str, int]]:
    """Return the key of the order in which linters sort names: numbers in them count as numbers."""
    return [(text, int(part or 0)) for text, part in re.findall(r"(\D*)(\d*)", name)]


def _packages(project: Project) -> Iterator[tuple[str, str]]:
    yield "", f"The operator {project.name}."
    yield "/api", "The kinds, each with a module for each of its versions."
    for api in project.apis:
        yield f"/api/{api.module}", f"{api.kind} of {api.group}."


def _tests(api: API) -> Iterator[str]:
    """Yield the tests of a kind, by their templates."""
    yield "controller"
    if api.webhooks:
        yield "webhook"
    if api.spokes:
        yield "conversion"
