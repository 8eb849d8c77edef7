"""Build hooks of `ctrlruntime-manager`: the programs come from the repository, its metadata too.

A build in a checkout reads them two folders up; a build from the sdist finds the programs beside this
file, and its metadata in PKG-INFO.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

APP = "src/ctrlruntime_manager/app"
CARRIED = ("apis", "internal", "manager", "config/samples")


class Metadata(MetadataHookInterface):
    """The library's version and the requirements of its dependency group `manager`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dynamic fields, unless PKG-INFO of an sdist has them."""
        if (Path(self.root) / "PKG-INFO").is_file():
            return
        repository = Path(self.root).parents[1]
        version = _version(repository)
        project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))
        metadata["version"] = version
        metadata["dependencies"] = [
            f"ctrlruntime=={version}",
            *project["dependency-groups"]["manager"],
        ]
        metadata["optional-dependencies"] = {"demo": [f"ctrlruntime[envtest]=={version}"]}


class Programs(BuildHookInterface[Any]):
    """Places the packages of the manager below `ctrlruntime_manager/app`, never beside it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Tell hatchling which folders to take and where they go."""
        root = Path(self.root)
        carried = root / APP
        source = carried if carried.is_dir() else root.parents[1]
        target = APP if self.target_name == "sdist" else APP.removeprefix("src/")
        included: dict[str, str] = build_data["force_include"]
        for name in CARRIED:
            for path in sorted((source / name).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    included[str(path)] = f"{target}/{path.relative_to(source).as_posix()}"


def _version(repository: Path) -> str:
    """Return the version that `ctrlruntime/__init__.py` states."""
    text = (repository / "ctrlruntime" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError('ctrlruntime/__init__.py has no line: __version__ = "..."')
    return found[1]


def get_metadata_hook() -> type[MetadataHookInterface]:
    """Return the hook that hatchling runs for metadata."""
    return Metadata


def get_build_hook() -> type[BuildHookInterface[Any]]:
    """Return the hook that hatchling runs for builds."""
    return Programs
